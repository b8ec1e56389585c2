"""What DuckDB and Spark read of the fact of a star schema in one layout."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import duckdb
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from stars import Star
from support.counted_files import CountingFiles


@dataclass(frozen=True, slots=True)
class Reads:
    """What queries read of the fact.

    Attributes:
        files: For each query, the number of files that it reads.
        opened: For each query, the size of these files.
        bytes: The bytes of data that all queries read, without footers; for Spark, the sum of `opened`.
        rows: The number of rows of the fact and a hash of them, which are those of each layout.
        results: For each query, the number of rows of the result.
    """

    files: tuple[int, ...]
    opened: tuple[int, ...]
    bytes: int
    rows: tuple[int, int]
    results: tuple[int, ...]


def read_by_duckdb(star: Star, folder: Path, fact: Sequence[Path], queries: Sequence[str]) -> Reads:
    """Run queries with DuckDB on a fact that consists of these files. folder: has the dimensions."""
    counting = CountingFiles()
    files, opened, bytes_read, results = [], [], 0, []
    with duckdb.connect(config={"threads": 1}) as duck:
        duck.register_filesystem(counting)
        duck.execute("SET enable_external_file_cache = false")  # else a query would not read what another one has read
        for path in folder.glob("*.parquet"):
            if path.stem != star.fact:
                duck.execute(f"CREATE VIEW {path.stem} AS FROM '{path}'")
        columns = ", ".join(pq.read_schema(folder / f"{star.fact}.parquet").names)
        paths = [f"counted://{path}" for path in fact]
        source = f"read_parquet({paths}, hive_partitioning = false)"
        duck.execute(f"CREATE VIEW {star.fact} AS SELECT {columns} FROM {source}")
        rows = duck.execute(f"SELECT count(*), sum(hash({columns})) FROM {star.fact}").fetchone()
        # DuckDB opens the footer of each file, because it gets a list of files without bounds.
        counting.counter.clear()
        duck.execute(f"SELECT count(*) FROM {star.fact}").fetchall()
        footers = Counter(counting.counter)
        if len(footers) != len(fact):
            raise RuntimeError(f"DuckDB opened {len(footers)} of {len(fact)} files to count rows")
        sizes = {name: Path(name).stat().st_size for name in footers}
        for query in queries:
            counting.counter.clear()
            results.append(len(duck.execute(query).fetchall()))
            read = {name: counting.counter[name] - footers[name] for name in footers}
            files.append(sum(size > 0 for size in read.values()))
            opened.append(sum(sizes[name] for name, size in read.items() if size > 0))
            bytes_read += sum(read.values())
    return Reads(tuple(files), tuple(opened), bytes_read, rows, tuple(results))


def read_by_spark(
    star: Star, folder: Path, spark: SparkSession, table: str, fact: Sequence[Path], queries: Sequence[str]
) -> Reads:
    """Run queries with Spark.

    Args:
        star: The star.
        folder: The dimensions.
        spark: A session, of which another one is made, without cached tables.
        table: The fact: the path of a Delta table, or the name of an Iceberg table.
        fact: The files of the fact.
        queries: The queries.
    """
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()  # the arms replace the table at this path
    session = spark.newSession()
    session.conf.set("spark.sql.adaptive.enabled", "false")  # the scans are then in the plan from the start
    for path in folder.glob("*.parquet"):
        if path.stem != star.fact:
            session.read.parquet(str(path)).createOrReplaceTempView(path.stem)
    rows = session.read.format("delta").load(table) if table.startswith("/") else session.table(table)
    rows.createOrReplaceTempView(star.fact)
    columns = ", ".join(pq.read_schema(folder / f"{star.fact}.parquet").names)
    # A query without conditions reads all files, by which the counters are checked.
    all_rows = session.sql(f"SELECT count(*), bit_xor(xxhash64({columns})) FROM {star.fact}")
    (found,) = all_rows.collect()
    expected = len(fact), sum(path.stat().st_size for path in fact)
    if (counted := _files_read(all_rows, table)) != expected:
        raise RuntimeError(f"Spark read {counted} files and bytes of {table} instead of {expected}")
    read, results = [], []
    for query in queries:
        frame = session.sql(query)
        results.append(len(frame.collect()))
        read.append(_files_read(frame, table))
    files, opened = zip(*read, strict=True)
    return Reads(files, opened, sum(opened), (found[0], found[1]), tuple(results))


def _files_read(frame: DataFrame, table: str) -> tuple[int, int]:
    """Return the number and the size of the files of a table that an executed query has read."""
    leaves = frame._jdf.queryExecution().executedPlan().collectLeaves()
    scans = [scan for scan in _elements(leaves) if _scanned(scan) == table]
    if not scans:
        raise RuntimeError(f"the plan has no scan of {table}: {leaves.toString()}")
    counted = [_of_delta(scan) if table.startswith("/") else _of_iceberg(scan) for scan in scans]
    return sum(files for files, _ in counted), sum(size for _, size in counted)


def _scanned(scan: Any) -> str:
    """Return the path or the name of the table that a leaf of a plan scans; empty if it is no scan."""
    match scan.getClass().getSimpleName():
        case "FileSourceScanExec":
            root = scan.relation().location().rootPaths().head().toString()
            return unquote(urlparse(root).path)
        case "BatchScanExec":
            return str(scan.table().name())
        case _:
            return ""


def _of_delta(scan: Any) -> tuple[int, int]:
    """The metrics `number of files read` and `size of files read`, after the partitions that Spark skips by keys."""
    metrics = scan.metrics()
    return int(metrics.apply("numFiles").value()), int(metrics.apply("filesSize").value())


def _of_iceberg(scan: Any) -> tuple[int, int]:
    """The files of the tasks. Iceberg's metrics of files are from before Spark skips partitions by keys."""
    splits = int(scan.metrics().apply("numSplits").value())
    parts = scan.inputRDD().partitions() if splits else ()
    groups = [one.taskGroup().tasks() for part in parts for one in _elements(part.inputPartitions())]
    tasks = [task for group in groups for task in group.toArray()]
    if len(tasks) != splits:
        raise RuntimeError(f"Spark planned {len(tasks)} tasks and read {splits}")
    sizes = {task.file().location(): int(task.file().fileSizeInBytes()) for task in tasks}
    return len(sizes), sum(sizes.values())


def _elements(sequence: Any) -> Iterator[Any]:
    """Yield the elements of a sequence of Scala."""
    return (sequence.apply(number) for number in range(sequence.size()))
