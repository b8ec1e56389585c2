"""Event logs as the running Spark writes them: each codec, and which scans are those of queries."""

from contextlib import ExitStack
from pathlib import Path

import pytest
from spark.event_logs import event_log
from spark.subjects import DeltaSubject, IcebergSubject, SparkSubject

from zlayout.predicate.model import Compare
from zlayout.workload.event_log import LeftOut, event_logs, read_event_log

LOGS = {"rolling": ("zstd", True), "zstd": ("zstd", False), "lz4": ("lz4", False), "snappy": ("snappy", False)}


def written(table: SparkSubject, folder: Path, *statements: str) -> dict[LeftOut, int]:
    """Run two queries and statements that write; return what is left out of the log, which has the queries only."""
    table.sql(f"create table {table} (a bigint, b bigint) using {table.catalog.format}")
    table.sql(f"insert into {table} select id, id % 7 from range(100)")
    with ExitStack() as logs:
        for name, (codec, rolling) in LOGS.items():
            logs.enter_context(event_log(table.spark, folder / name, codec, rolling=rolling))
        table.sql(f"select * from {table} where a = 5").collect()
        for statement in statements:
            table.sql(statement).collect()
        table.spark.table(str(table)).where("a < 7").write.format("noop").mode("overwrite").save()
    found = {}
    for name in LOGS:
        (path,) = event_logs(folder / name)
        log = read_event_log(path)
        assert path.is_dir() == (name == "rolling")
        found[name] = ([str(scan.predicate) for scan in log.scans], log.left_out)
    first = found["rolling"]
    assert all(other == first for other in found.values()), found
    values = [Compare("a", "=", 5), Compare("a", "<", 7)]
    if table.catalog.format == "delta":
        values = [Compare(one.column, one.operator, str(one.value)) for one in values]
    assert first[0] == [str(one) for one in values]
    return dict(first[1])


def test_only_queries_of_iceberg_are_read(iceberg: IcebergSubject, tmp_path: Path) -> None:
    other = f"{iceberg}_copy"
    left_out = written(
        iceberg,
        tmp_path,
        f"create table {other} using iceberg as select * from {iceberg} where a = 1",
        f"insert overwrite {other} select * from {iceberg} where a = 3",
        f"delete from {iceberg} where a = 10",
        f"merge into {iceberg} t using (select * from {other} where b < 9) s on t.a = s.a when matched then delete",
        f"alter table {iceberg} set tblproperties ('write.delete.mode' = 'merge-on-read')",
        f"delete from {iceberg} where a = 12",
        f"call ice.system.rewrite_data_files(table => '{iceberg.identifier}', options => map('rewrite-all', 'true'))",
    )
    assert left_out.pop(LeftOut.COMMAND, 1) == 1  # Spark 3.5 reports the scans of procedures
    assert left_out == {LeftOut.WRITE: 2, LeftOut.CHANGE: 3}


@pytest.mark.long
def test_only_queries_of_delta_are_read(delta: DeltaSubject, tmp_path: Path) -> None:
    assert written(
        delta,
        tmp_path,
        f"insert into {delta} select * from {delta} where a = 2",
        f"delete from {delta} where a = 10",
        f"update {delta} set b = 0 where a = 11",
        f"optimize {delta} zorder by (a)",
    ) == {LeftOut.WRITE: 1, LeftOut.CHANGE: 2, LeftOut.COMMAND: 1}
