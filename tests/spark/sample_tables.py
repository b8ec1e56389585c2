"""Tables with deleted rows and with every feature that a rewrite must keep."""

from spark.subjects import DeltaSubject, IcebergSubject

DELTA_FEATURES = (
    "'delta.columnMapping.mode'='name','delta.enableDeletionVectors'='true','delta.enableRowTracking'='true',"
    "'delta.enableInCommitTimestamps'='true','delta.enableChangeDataFeed'='true'"
)


def append_delta(table: DeltaSubject, start: int, stop: int) -> None:
    keys = ["cast(id * 7919 % 1009 as int) a", "cast(id * 104729 % 997 as int) b"]
    others = ["map('k', cast(id as int)) m", "case when id % 2 = 0 then 'x y/%ü+=' end p"]
    table.append(table.spark.range(start, stop, 1, 2).selectExpr("id", *keys, *others))


def create_delta(table: DeltaSubject, count: int, features: str = DELTA_FEATURES) -> None:
    """`count` rows of which the eighth is deleted, in two partitions of which one has a name that must be escaped."""
    columns = "id bigint, a int, b int, m map<string,int>, p string"
    table.sql(f"create table {table} ({columns}) using delta partitioned by (p) tblproperties({features})")
    append_delta(table, 0, count)
    table.sql(f"delete from {table} where id = 7")


MERGE_ON_READ = "'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read'"
# Columns of many types, with values that compare in odd ways, of a column id
VALUES = (
    "id % 7 k",
    "case id % 5 when 0 then double('NaN') when 1 then double('-0.0') when 2 then 0.0D when 3 then id % 3 end d",
    "case id % 3 when 0 then float('NaN') when 1 then float('-0.0') end f",
    "named_struct('x', nullif(id % 2, 1), 'y', array(double('NaN'), double('-0.0'), null, id % 2)) s",
    "case when id % 4 > 0 then map('m', double(id % 2), '', double('NaN')) end m",
    "case id % 3 when 0 then x'' when 1 then x'00ff' end b",
    "case id % 3 when 0 then '' when 1 then 'é😀' end t",
    "cast(id % 2 as decimal(38, 10)) n",
    "timestamp_micros(id % 3) ts",
    "date_add(date'0001-01-01', cast(id % 2 as int)) dt",
)


def create_iceberg(table: IcebergSubject, version: int = 2, partitioned: str = "") -> None:
    """600 rows in 3 files, of which every tenth is deleted."""
    properties = f"'format-version'='{version}', {MERGE_ON_READ}"
    columns = "id bigint, a bigint, b int, p int"
    table.sql(f"create table {table} ({columns}) using iceberg {partitioned} tblproperties ({properties})")
    for number in range(3):
        rows = table.spark.range(number * 200, number * 200 + 200, 1, 1)
        table.append(rows.selectExpr("id", "id * 7919 % 600 a", "cast(id % 60 as int) b", "cast(id % 2 as int) p"))
    table.sql(f"delete from {table} where id % 10 = 3")
