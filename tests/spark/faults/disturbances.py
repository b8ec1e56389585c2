"""What others do to a table while a rewrite runs; each with its effect on a model of the rows, a plain dict."""

from collections.abc import Callable

from spark.faults.points import run
from spark.faults.tables import Rows, Table, row, values_of
from spark.vacuum import vacuum

Disturbance = Callable[[Table, Rows], Rows]


def append(table: Table, rows: Rows) -> Rows:
    table.sql(f"INSERT INTO {{t}} (id, a, b, p) {values_of(1000, 1020)}")
    return {**rows, **{id: row(id) for id in range(1000, 1020)}}


def delete(table: Table, rows: Rows) -> Rows:
    """From one partition, and there from files without deletes, whose own change must be seen."""
    table.sql("DELETE FROM {t} WHERE id % 20 = 5 AND id > 120")
    return {id: values for id, values in rows.items() if id % 20 != 5 or id <= 120}


def update(table: Table, rows: Rows) -> Rows:
    """In one partition only."""
    table.sql("UPDATE {t} SET b = 'changed' WHERE id % 20 = 7")
    return {id: (a, "changed" if id % 20 == 7 else b, p) for id, (a, b, p) in rows.items()}


def merge(table: Table, rows: Rows) -> Rows:
    """Deletes, updates and inserts, in both partitions."""
    table.sql(
        "MERGE INTO {t} t USING (SELECT id FROM RANGE(200, 260)) s ON t.id = s.id "
        "WHEN MATCHED AND t.id % 4 = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET a = 7 "
        "WHEN NOT MATCHED THEN INSERT (id, a, b, p) VALUES (s.id, 5, 'merged', 1)"
    )
    kept = {id: values for id, values in rows.items() if id < 200 or id % 4}
    updated = {id: (7, b, p) for id, (_, b, p) in kept.items() if id >= 200}
    return {**kept, **updated, **{id: (5, "merged", 1) for id in range(200, 260) if id not in rows}}


def add_column(table: Table, rows: Rows) -> Rows:
    table.sql("ALTER TABLE {t} ADD COLUMN extra INT")
    return rows


def change_partitioning(table: Table, rows: Rows) -> Rows:
    """Iceberg: another spec for new files. Delta: all files written anew under another column."""
    if table.format == "iceberg":
        table.sql("ALTER TABLE {t} ADD PARTITION FIELD bucket(2, id)")
        return rows
    whole = table.spark.sql(f"SELECT * FROM {table.in_sql}").coalesce(2)
    whole = whole.withColumn("q", whole.a % 2)
    whole.write.format("delta").mode("overwrite").option("overwriteSchema", "true").partitionBy("q").save(
        str(table.folder)
    )
    return rows


def compact(table: Table, rows: Rows) -> Rows:
    if table.format == "delta":
        table.sql("OPTIMIZE {t}")
    else:
        name = ".".join(table.name.identifier)
        table.sql(f"CALL ice.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true'))")
    return rows


def lay_out(table: Table, rows: Rows) -> Rows:
    """A second zlayout with the same spec."""
    assert run(table).exit_code == 0
    return rows


def clean_up(table: Table, rows: Rows) -> Rows:
    """Delta: VACUUM that keeps nothing but what the log has. Iceberg: the pinned snapshot expires after an append."""
    if table.format == "delta":
        vacuum(table.spark, table.in_sql)
        return rows
    rows = append(table, rows)
    name = ".".join(table.name.identifier)
    table.sql(
        f"CALL ice.system.expire_snapshots(table => '{name}', older_than => TIMESTAMP '2100-01-01', retain_last => 1)"
    )
    return rows


DISTURBANCES: dict[str, Disturbance] = {
    "append": append,
    "delete": delete,
    "update": update,
    "merge": merge,
    "add column": add_column,
    "change partitioning": change_partitioning,
    "compact": compact,
    "second zlayout": lay_out,
    "clean up": clean_up,
}
