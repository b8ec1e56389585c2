"""Measures what DuckDB reads of star schemas in the layouts of several engines. See docs/layout-benchmark.md.

Each star has 40 queries that choose layouts and 40 others, with other constants, that are measured: DuckDB runs them
on the Parquet files of each layout through a file system that counts bytes. Prints a table, and writes
results/layouts.json and a section of RESULTS.md: `python benchmarks/layouts.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import duckdb
import pyarrow.parquet as pq
from arms import delta_zorder, iceberg_rewrite, target_size
from deltalake import DeltaTable, write_deltalake
from lineitem import DELTA, ICEBERG, Bench, attach, create_iceberg
from results import replace_section
from stars import STARS, MissingDataError, Star
from support.counted_files import CountingFiles

from zlayout.advisor.model import Study
from zlayout.errors import Location, SpecError
from zlayout.planner.diff import PlanOptions
from zlayout.planner.model import WorkloadForecast
from zlayout.session.advise import StudyOptions, advise
from zlayout.session.apply import apply_table
from zlayout.session.concurrent_reads import Reading
from zlayout.session.plan import plan_table
from zlayout.session.results import new_run
from zlayout.session.sampling import SAMPLE_BYTES
from zlayout.session.workloads import with_workloads
from zlayout.spec.model import Layout, LayoutSpec

HERE = Path(__file__).parent
RESULT = HERE / "results" / "layouts.json"
SECTION = "## Layouts"
ADVISED = "zlayout: as advised"
BY_MONTHS = "zlayout: as many files as months"
ON_ICEBERG = "zlayout: as advised on Iceberg"
CHOOSING, MEASURED = 11, 12  # seeds of the queries that choose layouts, and of those that are measured


# What DuckDB reads.


@dataclass(frozen=True, slots=True)
class Reads:
    """What the measured queries read of the fact.

    Attributes:
        files: The mean number of files of which a query read data.
        bytes: The bytes of data that all queries read, without footers.
        opened: The mean size of these files.
        rows: The number of rows of the fact and a sum of their hashes, which are those of each layout.
        results: For each query, the number of rows of the result.
    """

    files: float
    bytes: int
    opened: float
    rows: tuple[int, int]
    results: tuple[int, ...]


def measure(star: Star, folder: Path, fact: Sequence[Path], queries: Sequence[str]) -> Reads:
    """Run queries on a fact that consists of these files. folder: has the dimensions."""
    counting = CountingFiles()
    files = bytes_read = opened = 0
    results = []
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
            files += sum(size > 0 for size in read.values())
            opened += sum(sizes[name] for name, size in read.items() if size > 0)
            bytes_read += sum(read.values())
    return Reads(files / len(queries), bytes_read, opened / len(queries), rows, tuple(results))


# The layouts.


@dataclass(slots=True)
class Case:
    """A star with the tables from which each arm starts, and what advise recommends for the queries that choose.

    Attributes:
        star: The star.
        folder: The tables as Parquet files, the fact in arrival order.
        bench: The fact as a Delta and as an Iceberg table, and Spark.
        plain: The best layout without cuts.
        advised: The recommended layout; None if none is recommended.
        without_joins: The layout that is recommended if no condition through a join is used; None if there is none.
        notes: The notes of advise.
    """

    star: Star
    folder: Path
    bench: Bench
    plain: Layout
    advised: Layout | None
    without_joins: Layout | None
    notes: tuple[str, ...] = field(default=())

    @property
    def keys(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.plain.columns)

    @property
    def source(self) -> Path:
        return self.folder / f"{self.star.fact}.parquet"

    @property
    def outputs(self) -> Path:
        """An empty folder for files of a layout that is no table."""
        path = self.bench.root / "outputs"
        shutil.rmtree(path, ignore_errors=True)
        path.mkdir()
        return path


def arrival(case: Case) -> list[Path]:
    return delta_files(case)


def sorted_by_date(case: Case) -> list[Path]:
    return sorted_by(case, [case.star.date])


def sorted_by_keys(case: Case) -> list[Path]:
    return sorted_by(case, case.keys)


def sorted_by(case: Case, keys: Sequence[str]) -> list[Path]:
    """Sort with DuckDB, and write files with equally many rows."""
    with duckdb.connect() as duck:
        rows = duck.execute(f"FROM '{case.source}' ORDER BY {', '.join(keys)}").to_arrow_table()
    step, folder = -(-len(rows) // case.bench.files), case.outputs
    paths = [folder / f"{number:05}.parquet" for number in range(case.bench.files)]
    for number, path in enumerate(paths):
        pq.write_table(rows.slice(number * step, step), path)
    return paths


def by_month(case: Case) -> list[Path]:
    """Partition by month with DuckDB, one file for each month."""
    folder = case.outputs
    with duckdb.connect(config={"threads": 1}) as duck:
        for path in case.folder.glob("*.parquet"):
            duck.execute(f"CREATE VIEW {path.stem} AS FROM '{path}'")
        fact = case.star.fact
        query = f"SELECT {fact}.*, {case.star.month} AS part FROM {fact} {case.star.partition_join}"
        duck.execute(f"COPY ({query}) TO '{folder}/months' (FORMAT parquet, PARTITION_BY (part))")
    return sorted((folder / "months").rglob("*.parquet"))


def delta_rs_zorder(case: Case) -> list[Path]:
    table = DeltaTable(str(case.bench.work))
    table.optimize.z_order(case.keys, target_size=target_size(case.bench, "delta"))
    return delta_files(case)


def spark_zorder(case: Case) -> list[Path]:
    delta_zorder(case.bench, case.keys)
    return delta_files(case)


def liquid(case: Case) -> list[Path]:
    """Make the table liquid-clustered, and rewrite all of it."""
    spark, table = case.bench.runtime.session, f"delta.`{case.bench.work}`"
    key = "spark.databricks.delta.optimize.maxFileSize"
    spark.conf.set(key, str(target_size(case.bench, "delta") + 1))
    try:
        spark.sql(f"ALTER TABLE {table} CLUSTER BY ({', '.join(case.keys)})")
        spark.sql(f"OPTIMIZE {table} FULL").collect()
    finally:
        spark.conf.unset(key)
    return delta_files(case)


def iceberg_sort(case: Case) -> list[Path]:
    return iceberg(case, ", ".join(case.keys))


def iceberg_zorder(case: Case) -> list[Path]:
    return iceberg(case, f"zorder({', '.join(case.keys)})")


def iceberg_hilbert(case: Case) -> list[Path]:
    return iceberg(case, f"hilbert({', '.join(case.keys)})")


def iceberg(case: Case, order: str) -> list[Path]:
    iceberg_rewrite(case.bench, order)
    return iceberg_files(case)


def iceberg_files(case: Case) -> list[Path]:
    found = case.bench.backend("iceberg").observe(ICEBERG, ())
    return [Path(path.removeprefix("file:")) for path in found.files.path.to_pylist()]


def applied(case: Case, layout: Layout | None, format: str) -> list[Path]:
    """Apply a layout as the product does."""
    if layout is not None:
        backend, table = case.bench.backend(format), ICEBERG if format == "iceberg" else DELTA
        planned = plan_table(LayoutSpec(table, layout, Location("benchmark")), backend, PlanOptions())
        run = new_run(planned)
        apply_table(planned, backend, PlanOptions(), run, lambda _progress: None, lambda _table, _outcome: None)
        if run.error is not None:
            raise run.error
    return delta_files(case) if format == "delta" else iceberg_files(case)


def forecast(case: Case, layout: Layout, queries: Sequence[str]) -> WorkloadForecast:
    """Return what `plan --sample` states about the queries, before the layout is applied."""
    path, backend = case.bench.root / "measured.sql", case.bench.backend("delta")
    path.write_text(";\n".join(on_table(case.star, queries)) + ";\n")
    planned = plan_table(LayoutSpec(DELTA, layout, Location("benchmark"), workload=(path,)), backend, PlanOptions())
    project = replace(case.bench.project, query_engine="duckdb")
    (found,) = with_workloads([planned], project, {DELTA.catalog: backend}, SAMPLE_BYTES, Reading())
    if found.plan.workload is None:
        raise RuntimeError(f"plan --sample has no forecast: {found.plan.diagnostics}")
    return found.plan.workload


def on_table(star: Star, queries: Sequence[str]) -> list[str]:
    """Return queries in which the fact is called as the table that is advised on."""
    return [query.replace(star.fact, DELTA.name) for query in queries]


def delta_files(case: Case) -> list[Path]:
    return [Path(uri.removeprefix("file://")) for uri in DeltaTable(str(case.bench.work)).file_uris()]


ARMS: dict[str, Callable[[Case], list[Path]]] = {
    "arrival order": arrival,
    "DuckDB: partition by month": by_month,
    "DuckDB: sort by date": sorted_by_date,
    "DuckDB: sort": sorted_by_keys,
    "delta-rs: z-order": delta_rs_zorder,
    "Delta: ZORDER BY": spark_zorder,
    "Delta: liquid": liquid,
    "Iceberg: sort": iceberg_sort,
    "Iceberg: zorder": iceberg_zorder,
    "Iceberg: hilbert": iceberg_hilbert,
}
# The layouts that zlayout applies. None: nothing is recommended, so that the table stays in arrival order.
LAYOUTS: dict[str, Callable[[Case], Layout | None]] = {
    "zlayout: kd": lambda case: replace(case.plain, curve="kd"),
    "zlayout: hilbert": lambda case: replace(case.plain, curve="hilbert"),
    "zlayout: without joins": lambda case: case.without_joins,
    ADVISED: lambda case: case.advised,
    BY_MONTHS: lambda case: case.advised,
    ON_ICEBERG: lambda case: case.advised,
}


# The run.


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.1, help="scale factor of TPC-H, SSB and TPC-DS")
    parser.add_argument("--files", type=int, default=32, help="files of the fact in arrival order")
    parser.add_argument("--queries", type=int, default=40, help="queries in each half")
    parser.add_argument("--stars", default=",".join(star.name for star in STARS))
    parser.add_argument("--arms", default=",".join((*ARMS, *LAYOUTS)))
    parser.add_argument("--folder", type=Path, default=HERE.parent / "build" / "layouts")
    arguments = parser.parse_args()
    arms = arguments.arms.split(",")
    if unknown := set(arms) - set(ARMS) - set(LAYOUTS):
        parser.error(f"unknown arms: {', '.join(sorted(unknown))}")
    before = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    for star in STARS:
        if star.name not in arguments.stars.split(","):
            continue
        root = arguments.folder.resolve() / star.name
        shutil.rmtree(root, ignore_errors=True)
        try:
            before[star.name] = run_star(star, root, arguments.scale, arguments.files, arguments.queries, arms)
        except MissingDataError as error:
            print(f"{star.name} is left out: {error}", file=sys.stderr)
            continue
        finally:
            shutil.rmtree(root, ignore_errors=True)
        RESULT.write_text(json.dumps(before, indent=1) + "\n")
    section = "\n".join(as_section(before))
    replace_section(HERE / "RESULTS.md", SECTION, section + "\n")
    print(section)
    return 0


def run_star(star: Star, root: Path, scale: float, files: int, queries: int, arms: Sequence[str]) -> dict[str, Any]:
    """Return the results of one star. The arms start from the same files, and their rows must be the same."""
    folder = root / "parquet"
    folder.mkdir(parents=True)
    star.make(folder, scale)
    case = open_case(star, folder, attach(root, files), queries)
    measured = star.queries(queries, MEASURED)
    rows: list[dict[str, Any]] = []
    expected: Reads | None = None
    stated: WorkloadForecast | None = None
    for arm in arms:
        case.bench.reset_delta()
        case.bench.reset_iceberg()
        number = len(by_month(case)) if arm == BY_MONTHS else files
        format = "iceberg" if arm == ON_ICEBERG else "delta"
        layout = with_size(case, LAYOUTS[arm](case), number, format) if arm in LAYOUTS else None
        if arm == ADVISED and layout is not None:
            stated = forecast(case, layout, measured)
        paths = applied(case, layout, format) if arm in LAYOUTS else ARMS[arm](case)
        read = measure(star, folder, paths, measured)
        expected = expected or read
        if (read.rows, read.results) != (expected.rows, expected.results):
            raise RuntimeError(f"{star.name}, {arm}: the rows or the results of queries differ from {arms[0]}")
        size = sum(path.stat().st_size for path in paths)
        found = {"files": len(paths), "bytes": size, "files_read": read.files, "bytes_read": read.bytes}
        found["bytes_opened"] = round(read.opened)
        rows.append({"arm": arm, **found})
        print(f"{star.name}: {rows[-1]}", file=sys.stderr, flush=True)
    case.bench.runtime.stop()
    advised = case.advised
    machine = f"{os.cpu_count()} cores, {platform.machine()}"
    return {
        "machine": f"{machine}, DuckDB {duckdb.__version__}, {date.today().isoformat()}",
        "scale": scale,
        "rows": expected.rows[0] if expected else 0,
        "queries": queries,
        "columns": columns_of(case.plain),
        "curve": case.plain.curve,
        "cuts": len(advised.cuts) if advised is not None else 0,
        "recommended": advised is not None,
        "without_joins": None if case.without_joins is None else columns_of(case.without_joins),
        "forecast": None if stated is None else as_json(stated),
        "arms": rows,
    }


def columns_of(layout: Layout) -> str:
    return ", ".join(f"{name} ({weight:g})" for name, weight in layout.weights.items())


def with_size(case: Case, layout: Layout | None, files: int, format: str) -> Layout | None:
    """Return the layout with the target size of this number of files."""
    size = target_size(case.bench, format) * case.bench.files // files
    return None if layout is None else replace(layout, target_size=size)


def as_json(stated: WorkloadForecast) -> dict[str, Any]:
    predicted, low, high, floor = stated.predicted, stated.low, stated.high, stated.floor
    if predicted is None or low is None or high is None or floor is None:
        raise RuntimeError("plan --sample has no forecast")
    return {
        "share": stated.share,
        "files": predicted.files,
        "bytes": predicted.bytes,
        "low": low.bytes,
        "high": high.bytes,
        "floor_files": floor.files,
        "now_files": stated.now.files,
        "now_bytes": stated.now.bytes,
    }


def open_case(star: Star, folder: Path, bench: Bench, queries: int) -> Case:
    """Write the tables, and ask advise for a layout."""
    spark = bench.runtime.session
    rows, part = pq.read_table(folder / f"{star.fact}.parquet"), bench.root / "part.parquet"
    step = -(-len(rows) // bench.files)
    for number in range(bench.files):  # by Spark, so that its arms differ from arrival order only in the order
        pq.write_table(rows.slice(number * step, step), part)
        spark.read.parquet(str(part)).coalesce(1).write.format("delta").mode("append").save(str(bench.base))
    bench.reset_delta()
    spark.sql("CREATE NAMESPACE IF NOT EXISTS ice.bench")
    create_iceberg(spark.read.format("delta").load(str(bench.base)).coalesce(1), str(ICEBERG))
    bench.snapshot = spark.sql(f"SELECT snapshot_id FROM {ICEBERG}.snapshots").first().snapshot_id
    path = bench.root / "choosing.sql"
    path.write_text(";\n".join(on_table(star, star.queries(queries, CHOOSING))) + ";\n")
    # As long as the dimensions do not exist, no condition through a join can be used.
    before = advised_on(bench, path)
    for source in folder.glob("*.parquet"):
        if source.stem != star.fact:
            write_deltalake(str(bench.base.parent / source.stem), pq.read_table(source))
    found = advised_on(bench, path)
    without_joins = before.best.layout if before is not None and before.best else None
    if found is None:
        raise RuntimeError(f"{star.name}: no query can skip files")
    plain = [choice.layout for choice in found.choices if not choice.layout.cuts][-1]
    return Case(star, folder, bench, plain, found.best.layout if found.best else None, without_joins, found.notes)


def advised_on(bench: Bench, workload: Path) -> Study | None:
    """Return the result of `advise`; None if no query has a condition that can skip files."""
    project = replace(bench.project, query_engine="duckdb")
    options = StudyOptions(files=bench.files, time_limit=120)
    try:
        return advise(project, str(DELTA), [workload], options, spark=bench.runtime.session)
    except SpecError as error:
        if any(diagnostic.code == "ZL073" for diagnostic in error.diagnostics):
            return None
        raise


def as_section(found: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of the section in Markdown, with all arms, also those that are worse."""
    yield f"{SECTION}: what DuckDB reads of star schemas"
    yield ""
    yield "Made by `python benchmarks/layouts.py`. [docs/layout-benchmark.md](../docs/layout-benchmark.md) explains the"
    yield "arms and the columns. Layouts were chosen for other constants than those of the measured queries."
    for name, star in found.items():
        first = star["arms"][0]
        yield ""
        yield f"### {name}"
        yield ""
        scale = f"scale {star['scale']:g}, " if name != "flights" else ""
        yield f"{scale}{star['rows']:,} rows, {star['queries']} queries, {star['machine']}."
        cuts = f", and {star['cuts']} cuts" if star["cuts"] else ", without cuts"
        yield f"Columns that `advise` chose: {star['columns']}, curve {star['curve']}{cuts}."
        if not star["recommended"]:
            yield "It recommends no layout, because no layout saves 5 %."
        yield ""
        yield "| arm | files | MiB written | files read | MiB read | / arrival order |"
        yield "|---|---|---|---|---|---|"
        best = min(arm["bytes_read"] for arm in star["arms"])
        for arm in star["arms"]:
            share = f"{arm['bytes_read'] / first['bytes_read']:.3f}"
            share = f"**{share}**" if arm["bytes_read"] == best else share
            yield (
                f"| {arm['arm']} | {arm['files']} | {arm['bytes'] / 2**20:.1f} | {arm['files_read']:.1f} "
                f"| {arm['bytes_read'] / 2**20:.1f} | {share} |"
            )
        if "forecast" in star:  # not in results from before this was measured
            yield from _forecast_lines(star)


def _forecast_lines(star: dict[str, Any]) -> Iterator[str]:
    """Yield what was stated about the recommended layout before it was applied, and the advice without joins."""
    yield ""
    if star["without_joins"] is None:
        yield "Without conditions through joins, `advise` recommends no layout."
    else:
        yield f"Without conditions through joins, `advise` chooses: {star['without_joins']}."
    stated = star["forecast"]
    if stated is not None:
        (read,) = (arm for arm in star["arms"] if arm["arm"] == ADVISED)
        mib = {key: stated[key] / 2**20 for key in ("bytes", "low", "high")}
        yield (
            f"`plan --sample` predicted for {stated['share']:.0%} of these queries, in the recommended layout: "
            f"{stated['files']:.1f} files of {mib['bytes']:.2f} MiB ({mib['low']:.2f} to {mib['high']:.2f}) a query, "
            f"and at least {stated['floor_files']:.1f} files in any layout. DuckDB read data of "
            f"{read['files_read']:.1f} files of {read['bytes_opened'] / 2**20:.2f} MiB: the prediction of bytes is "
            f"{stated['bytes'] / read['bytes_opened'] - 1:+.1%} off."
        )


if __name__ == "__main__":
    sys.exit(main())
