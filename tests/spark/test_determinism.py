"""The same snapshot and the same spec give the same rows in the same files in the same order, however many cores."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from spark.projects import DELTA, ICEBERG, DiskProject, make_events, make_project, partition_number

ROWS = make_events(150_000)
# master, shuffle partitions, bytes of a split: few and many tasks, in another order each time
PARALLELISM = [("local[1]", 4, 128 << 20), ("local[2]", 13, 40_000), ("local[4]", 3, 90_000)]


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> list[DiskProject]:
    """The two tables several times, in folders whose names have another length, each rewritten by its own process."""
    made: list[DiskProject] = []
    for number, (master, shuffle, split) in enumerate(PARALLELISM):
        conf = {
            "spark.sql.shuffle.partitions": shuffle,
            "spark.databricks.delta.snapshotPartitions": 2,
            "spark.sql.files.maxPartitionBytes": split,
            "spark.sql.files.openCostInBytes": split // 10,
        }
        project = make_project(
            tmp_path_factory.mktemp("copy" * (number + 1)),
            ROWS,
            8,
            {"master": master, "conf": conf},
            target_size="600KiB",
            iceberg_properties={"read.split.target-size": str(split), "read.split.open-file-cost": str(split // 10)},
            like=made[0] if made else None,
        )
        made.append(project)
    for project in made:
        code, out, err = project.call("apply", "--auto-approve")
        assert code == 0, out + err
    return made


@pytest.mark.long
@pytest.mark.parametrize("table", [DELTA, ICEBERG])
def test_the_same_files_at_any_parallelism(copies: list[DiskProject], table: str) -> None:
    first, *others = [_ordered(project, table) for project in copies]
    assert len(first) >= 4
    assert min(first) >= 0
    assert pa.concat_tables(first.values()).sort_by("id").combine_chunks() == ROWS.select(["id", "a", "b"])
    # along the curve, not as the rows came: else any stable writer would pass
    assert any(rows["id"].to_pylist() != sorted(rows["id"].to_pylist()) for rows in first.values())
    for other in others:
        assert list(other) == list(first)
        for number, rows in first.items():
            assert other[number] == rows, number


def _ordered(project: DiskProject, table: str) -> dict[int, pa.Table]:
    """Spark partition number -> the file's rows as they stand in it."""
    files: dict[int, pa.Table] = {}
    for path in project.files(table):
        assert partition_number(path) not in files
        files[partition_number(path)] = _read(path)
    return files


def _read(path: Path) -> pa.Table:
    with pq.ParquetFile(path) as file:
        return file.read(["id", "a", "b"]).cast(ROWS.select(["id", "a", "b"]).schema).combine_chunks()
