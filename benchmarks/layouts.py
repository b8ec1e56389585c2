"""Measures what DuckDB and Spark read of star schemas in several layouts. See docs/layout-benchmark.md.

Each star has 120 queries that choose layouts and 40 others, with other constants, that are measured: DuckDB runs them
on the Parquet files of each layout through a file system that counts bytes, and Spark on the tables. Prints tables, and
writes results/layouts.json and a section of RESULTS.md: `python benchmarks/layouts.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from statistics import mean
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import duckdb
import pyarrow.parquet as pq
import pyspark
from arms import delta_zorder, iceberg_rewrite, target_size
from deltalake import DeltaTable, write_deltalake
from lineitem import DELTA, ICEBERG, Bench, attach, create_iceberg
from qd_tree import leaves_of
from reads import Reads, read_by_duckdb, read_by_spark
from results import replace_section
from stars import STARS, MissingDataError, Star, extension

from zlayout.advisor.model import Study
from zlayout.errors import Location, SpecError
from zlayout.planner.diff import PlanOptions
from zlayout.session.advise import StudyOptions, advise
from zlayout.session.apply import apply_table
from zlayout.session.plan import plan_table
from zlayout.session.results import new_run
from zlayout.session.sampling import SAMPLE_BYTES
from zlayout.session.workloads import Expected, OtherTables, Workloads, expected, read_joined
from zlayout.spec.model import Layout, LayoutSpec, TableName
from zlayout.table.partition import PartitionField

HERE = Path(__file__).parent
RESULT = HERE / "results" / "layouts.json"
SECTION = "## Layouts"
ADVISED = "zlayout: as advised"
BY_MONTHS = "zlayout: as many files as months"
ON_ICEBERG = "zlayout: as advised on Iceberg"
QD_TREE = "qd-tree"
DUCKLAKE = "DuckLake: sort"
FOR_SPARK = "zlayout: as advised for Spark"
FOR_SPARK_ON_ICEBERG = "zlayout: as advised for Spark on Iceberg"
BY_HAND = "Iceberg: unsorted partitions as advised"
CHOOSING, MEASURED = 11, 12  # seeds of the queries that choose layouts, and of those that are measured


# The layouts.


@dataclass(slots=True)
class Case:
    """A star with the tables from which each arm starts, and the advice for the queries that choose layouts.

    Attributes:
        star: The star.
        folder: The tables as Parquet files, the fact in arrival order.
        bench: The fact as a Delta and as an Iceberg table, and Spark.
        engine: The engine of the queries, for which layouts are advised: `duckdb` or `spark`.
        choosing: The queries that choose layouts.
        advice: The advice on the Delta table.
        on_iceberg: The advice on the Iceberg table; None for DuckDB, which gets that on the Delta table.
        without_joins: The layout that is recommended if no condition through a join is used; None if there is none.
    """

    star: Star
    folder: Path
    bench: Bench
    engine: str
    choosing: Sequence[str]
    advice: Study
    on_iceberg: Study | None = None
    without_joins: Layout | None = None

    @property
    def plain(self) -> Layout:
        """The best layout without cuts and partitions."""
        return [c.layout for c in self.advice.choices if not c.layout.cuts and c.partition_by is None][-1]

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


def qd_tree(case: Case) -> list[Path]:
    """Choose the cuts of each part by all queries that choose layouts, and write each leaf as a file."""
    rows, folder, paths = pq.read_table(case.source), case.outputs, list[Path]()
    for number, leaf in enumerate(leaves_of(rows, case.advice.queries, case.bench.files)):
        paths.append(folder / f"{number:05}.parquet")
        pq.write_table(rows.take(leaf), paths[-1])
    return paths


def ducklake(case: Case) -> list[Path]:
    """Insert into a DuckLake table that is sorted by the columns."""
    folder = case.outputs
    with duckdb.connect(config={"allow_unsigned_extensions": "true", "threads": 1}) as duck:
        duck.execute(f"LOAD '{extension('ducklake')}'")
        duck.execute(f"ATTACH 'ducklake:{folder}/catalog.ducklake' AS lake (DATA_PATH '{folder}/data')")
        duck.execute(f"CREATE TABLE lake.fact AS FROM '{case.source}' LIMIT 0")
        duck.execute(f"ALTER TABLE lake.fact SET SORTED BY ({', '.join(case.keys)})")
        # A file ends after the row group with which it reaches the target size. Row groups end after 2,048 rows.
        rows = -(-pq.read_metadata(case.source).num_rows // case.bench.files)
        duck.execute(f"CALL lake.set_option('parquet_row_group_size', '{rows}')")
        duck.execute("CALL lake.set_option('target_file_size', '1KB')")
        duck.execute(f"INSERT INTO lake.fact FROM '{case.source}'")
        return [Path(path) for path, *_ in duck.execute("FROM ducklake_list_files('lake', 'fact')").fetchall()]


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


def iceberg_partitions(case: Case) -> list[Path]:
    """Add the advised partition fields, and move the rows without a sort order; no files if none are advised."""
    best = case.on_iceberg.best if case.on_iceberg is not None else None
    fields = best.partition_by if best is not None else None
    if not fields:
        return []
    if case.bench.backend("iceberg").observe(ICEBERG, ()).partition_fields != fields:  # else an earlier arm added them
        for field in fields:
            case.bench.runtime.session.sql(f"ALTER TABLE {ICEBERG} ADD PARTITION FIELD {field}")
    return iceberg(case, "")


def iceberg(case: Case, order: str) -> list[Path]:
    iceberg_rewrite(case.bench, order)
    return iceberg_files(case)


def iceberg_files(case: Case) -> list[Path]:
    found = case.bench.backend("iceberg").observe(ICEBERG, ())
    return [Path(path.removeprefix("file:")) for path in found.files.path.to_pylist()]


def declared(
    case: Case,
    table: TableName,
    layout: Layout | None,
    partition_by: tuple[PartitionField, ...] | None = None,
    files: int | None = None,
) -> LayoutSpec | None:
    """Return a layout spec with the target size of this number of files; None without a layout."""
    if layout is None:
        return None
    size = target_size(case.bench, format_of(table)) * case.bench.files // (files or case.bench.files)
    return LayoutSpec(table, replace(layout, target_size=size), Location("benchmark"), partition_by)


def advised(case: Case, table: TableName, study: Study | None, files: int | None = None) -> LayoutSpec | None:
    """Return what a study recommends; None if it recommends nothing."""
    best = study.best if study is not None else None
    return None if best is None else declared(case, table, best.layout, best.partition_by, files)


def advised_for_months(case: Case) -> LayoutSpec | None:
    """Return what advise recommends for as many files as there are months."""
    files = len(by_month(case))
    return advised(case, DELTA, advised_on(case.bench, case.star, DELTA, case.engine, case.choosing, files), files)


def applied(case: Case, spec: LayoutSpec | None) -> list[Path]:
    """Apply a layout as the product does. Without one, the table stays in arrival order."""
    if spec is None:
        return delta_files(case)
    backend, options = case.bench.backend(format_of(spec.table)), PlanOptions(allow_full_rewrite=True)
    planned = plan_table(spec, backend, options)
    run = new_run(planned)
    apply_table(planned, backend, options, run, lambda _progress: None, lambda _table, _outcome: None)
    if run.error is not None:
        raise run.error
    return delta_files(case) if spec.table == DELTA else iceberg_files(case)


def forecast(case: Case, spec: LayoutSpec, queries: Sequence[str]) -> Expected:
    """Return what `plan --sample` states about the queries, before the layout is applied."""
    path, backend = case.bench.root / "measured.sql", case.bench.backend(format_of(spec.table))
    path.write_text(";\n".join(on_table(case.star, spec.table, queries)) + ";\n")
    planned = plan_table(replace(spec, workload=(path,)), backend, PlanOptions(allow_full_rewrite=True))
    project = replace(case.bench.project, query_engine=case.engine)
    workloads = Workloads([(planned.spec, planned.state)])
    read, columns = workloads.of(planned.spec), workloads.columns()
    assert planned.state is not None
    backends, partitions = {spec.table.catalog: backend}, [field.source for field in spec.partition_by or ()]
    others = OtherTables(spec.table, backends, project)
    read, _ = read_joined(read, (path,), columns, planned.state, others, partitions)
    found = expected(planned, read, project, backend, SAMPLE_BYTES)
    if found is None:
        raise RuntimeError(f"plan --sample has no forecast: {planned.plan.diagnostics}")
    return found


def format_of(table: TableName) -> str:
    return "delta" if table == DELTA else "iceberg"


def on_table(star: Star, table: TableName, queries: Sequence[str]) -> list[str]:
    """Return queries in which the fact is called as the table that is advised on."""
    return [query.replace(star.fact, table.name) for query in queries]


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
    BY_HAND: iceberg_partitions,
    QD_TREE: qd_tree,
    DUCKLAKE: ducklake,
}
# The layouts that zlayout applies. None: nothing is recommended, so that the table stays in arrival order.
LAYOUTS: dict[str, Callable[[Case], LayoutSpec | None]] = {
    "zlayout: kd": lambda case: declared(case, DELTA, replace(case.plain, curve="kd")),
    "zlayout: hilbert": lambda case: declared(case, DELTA, replace(case.plain, curve="hilbert")),
    "zlayout: without joins": lambda case: declared(case, DELTA, case.without_joins),
    ADVISED: lambda case: advised(case, DELTA, case.advice),
    BY_MONTHS: advised_for_months,
    ON_ICEBERG: lambda case: advised(case, ICEBERG, case.advice),
    FOR_SPARK: lambda case: advised(case, DELTA, case.advice),
    FOR_SPARK_ON_ICEBERG: lambda case: advised(case, ICEBERG, case.on_iceberg),
}
FORECAST = (ADVISED, FOR_SPARK, FOR_SPARK_ON_ICEBERG)
# The arms of each engine. Spark reads tables, not mere Parquet files. The last two may leave a partitioning behind.
BY_ENGINE: dict[str, tuple[str, ...]] = {
    "duckdb": tuple(name for name in (*ARMS, *LAYOUTS) if name not in (BY_HAND, FOR_SPARK, FOR_SPARK_ON_ICEBERG)),
    "spark": (
        "arrival order",
        "Delta: ZORDER BY",
        "Delta: liquid",
        "Iceberg: sort",
        "Iceberg: zorder",
        FOR_SPARK,
        FOR_SPARK_ON_ICEBERG,
        BY_HAND,
    ),
}


# The run.


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.1, help="scale factor of TPC-H, SSB and TPC-DS")
    parser.add_argument("--files", type=int, default=32, help="files of the fact in arrival order")
    parser.add_argument("--choosing", type=int, default=120, help="queries that choose layouts")
    parser.add_argument("--queries", type=int, default=40, help="queries that are measured")
    parser.add_argument("--stars", default=",".join(star.name for star in STARS))
    parser.add_argument("--arms", default=",".join((*ARMS, *LAYOUTS)), help="arms of both engines")
    parser.add_argument("--folder", type=Path, default=HERE.parent / "build" / "layouts")
    arguments = parser.parse_args()
    arms = arguments.arms.split(",")
    if unknown := set(arms) - set(ARMS) - set(LAYOUTS):
        parser.error(f"unknown arms: {', '.join(sorted(unknown))}")
    if DUCKLAKE in arms:
        try:
            extension("ducklake")
        except MissingDataError as error:
            print(f"{DUCKLAKE} is left out: {error}", file=sys.stderr)
            arms.remove(DUCKLAKE)
    before = json.loads(RESULT.read_text()) if RESULT.exists() else {}
    for star in STARS:
        if star.name not in arguments.stars.split(","):
            continue
        root = arguments.folder.resolve() / star.name
        shutil.rmtree(root, ignore_errors=True)
        try:
            before[star.name] = run_star(star, root, arguments, arms)
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


def run_star(star: Star, root: Path, options: argparse.Namespace, arms: Sequence[str]) -> dict[str, Any]:
    """Return the results of one star."""
    folder, queries = root / "parquet", options.queries
    folder.mkdir(parents=True)
    star.make(folder, options.scale)
    bench = attach(root, options.files)
    found: dict[str, Any] = {}
    results: set[tuple[int, ...]] = set()
    for case in open_cases(star, folder, bench, options.choosing):
        own = [arm for arm in BY_ENGINE[case.engine] if arm in arms]
        if own:
            found[case.engine], first = run_arms(case, own, queries)
            results.add(first.results)
    if len(results) > 1:
        raise RuntimeError(f"{star.name}: the results of queries in DuckDB and in Spark differ")
    bench.runtime.stop()
    machine = f"{os.cpu_count()} cores, {platform.machine()}"
    versions = f"DuckDB {duckdb.__version__}, Spark {pyspark.__version__}"
    return {
        "machine": f"{machine}, {versions}, {date.today().isoformat()}",
        "scale": options.scale,
        "rows": pq.read_metadata(folder / f"{star.fact}.parquet").num_rows,
        "choosing": options.choosing,
        "queries": queries,
        **found,
    }


def run_arms(case: Case, arms: Sequence[str], queries: int) -> tuple[dict[str, Any], Reads]:
    """Run the arms of one engine. They start from the same files, and their rows must be the same.

    Returns:
        The results, and what the queries read in the first arm.
    """
    star, measured = case.star, case.star.queries(queries, MEASURED)
    rows: list[dict[str, Any]] = []
    forecasts: dict[str, Any] = {}
    first: Reads | None = None
    for arm in arms:
        case.bench.reset_delta()
        case.bench.reset_iceberg()
        spec = LAYOUTS[arm](case) if arm in LAYOUTS else None
        stated = forecast(case, spec, measured) if arm in FORECAST and spec is not None else None
        paths = applied(case, spec) if arm in LAYOUTS else ARMS[arm](case)
        if not paths:
            continue
        read = measure(case, paths, measured)
        first = first or read
        if (read.rows, read.results) != (first.rows, first.results):
            raise RuntimeError(f"{star.name}, {arm}: the rows or the results of queries differ from {arms[0]}")
        size = sum(path.stat().st_size for path in paths)
        found = {"files": len(paths), "bytes": size, "files_read": mean(read.files), "bytes_read": read.bytes}
        rows.append({"arm": arm, **found})
        if stated is not None:
            forecasts[arm] = as_json(case, stated, spec, measured, read)
        print(f"{star.name}, {case.engine}: {rows[-1]}", file=sys.stderr, flush=True)
    assert first is not None
    return {**chosen(case), "forecasts": forecasts, "arms": rows}, first


def measure(case: Case, paths: Sequence[Path], queries: Sequence[str]) -> Reads:
    """Run the queries on the files of the fact, with the engine of the case."""
    if case.engine == "duckdb":
        return read_by_duckdb(case.star, case.folder, paths, queries)
    table = str(case.bench.work) if paths[0].is_relative_to(case.bench.work) else str(ICEBERG)
    return read_by_spark(case.star, case.folder, case.bench.runtime.session, table, paths, queries)


def chosen(case: Case) -> dict[str, Any]:
    """Return what the advice recommends."""
    best, on_iceberg = case.advice.best, case.on_iceberg.best if case.on_iceberg is not None else None
    partitions = [str(field) for one in (best, on_iceberg) if one is not None for field in one.partition_by or ()]
    return {
        "columns": columns_of(case.plain),
        "curve": case.plain.curve,
        "cuts": len(best.layout.cuts) if best is not None else 0,
        "recommended": best is not None,
        "partitions": partitions,
        "without_joins": None if case.without_joins is None else columns_of(case.without_joins),
    }


def columns_of(layout: Layout) -> str:
    return ", ".join(f"{name} ({weight:g})" for name, weight in layout.weights.items())


def as_json(case: Case, stated: Expected, spec: LayoutSpec, queries: Sequence[str], read: Reads) -> dict[str, Any]:
    """Return a forecast, and what was then read by the queries for which it is made: those that can skip files."""
    made = stated.forecast
    predicted, low, high, floor = made.predicted, made.low, made.high, made.floor
    if predicted is None or low is None or high is None or floor is None:
        raise RuntimeError(f"plan --sample predicts nothing for {spec.table}")
    known = {query.query.text.rstrip("; \n") for query in stated.queries}
    used = [number for number, query in enumerate(on_table(case.star, spec.table, queries)) if query in known]
    return {
        "share": made.share,
        "files": predicted.files,
        "bytes": predicted.bytes,
        "low": low.bytes,
        "high": high.bytes,
        "floor_files": floor.files,
        "now_files": made.now.files,
        "now_bytes": made.now.bytes,
        "read_queries": len(used),
        "read_files": mean([read.files[number] for number in used]),
        "read_bytes": round(mean([read.opened[number] for number in used])),
    }


def open_cases(star: Star, folder: Path, bench: Bench, queries: int) -> list[Case]:
    """Write the tables, and ask advise for a layout for each engine. queries: the number of those that choose."""
    spark = bench.runtime.session
    rows, part = pq.read_table(folder / f"{star.fact}.parquet"), bench.root / "part.parquet"
    step = -(-len(rows) // bench.files)
    spark.sql("CREATE NAMESPACE IF NOT EXISTS ice.bench")
    for number in range(bench.files):  # by Spark, so that its arms differ from arrival order only in the order
        pq.write_table(rows.slice(number * step, step), part)
        arrived = spark.read.parquet(str(part)).coalesce(1)
        arrived.write.format("delta").mode("append").save(str(bench.base))
        if number == 0:
            create_iceberg(arrived, str(ICEBERG))
        else:
            arrived.writeTo(str(ICEBERG)).append()
    bench.reset_delta()
    snapshots = f"SELECT snapshot_id FROM {ICEBERG}.snapshots ORDER BY committed_at DESC"
    bench.snapshot = spark.sql(snapshots).first().snapshot_id
    choosing = star.queries(queries, CHOOSING)
    # As long as the dimensions do not exist, no condition through a join can be used.
    before = advised_on(bench, star, DELTA, "duckdb", choosing)
    without_joins = before.best.layout if before is not None and before.best else None
    for source in folder.glob("*.parquet"):
        if source.stem != star.fact:
            write_deltalake(str(bench.base.parent / source.stem), pq.read_table(source))
            create_iceberg(spark.read.parquet(str(source)), f"ice.bench.{source.stem}")
    cases = []
    for engine in BY_ENGINE:
        found = advised_on(bench, star, DELTA, engine, choosing)
        if found is None:
            raise RuntimeError(f"{star.name}: no query can skip files")
        cases.append(Case(star, folder, bench, engine, choosing, found))
    duck, spark_case = cases
    duck.without_joins = without_joins
    spark_case.on_iceberg = advised_on(bench, star, ICEBERG, "spark", choosing)
    return cases


def advised_on(
    bench: Bench, star: Star, table: TableName, engine: str, queries: Sequence[str], files: int | None = None
) -> Study | None:
    """Return the result of `advise` for a number of files; None if no query has a condition that can skip files."""
    path = bench.root / "choosing.sql"
    path.write_text(";\n".join(on_table(star, table, queries)) + ";\n")
    project = replace(bench.project, query_engine=engine)
    options = StudyOptions(files=files or bench.files, time_limit=120)
    try:
        return advise(project, str(table), [path], options, spark=bench.runtime.session)
    except SpecError as error:
        if any(diagnostic.code == "ZL073" for diagnostic in error.diagnostics):
            return None
        raise


def as_section(found: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of the section in Markdown, with all arms, also those that are worse."""
    yield f"{SECTION}: what DuckDB and Spark read of star schemas"
    yield ""
    yield "Made by `python benchmarks/layouts.py`. [docs/layout-benchmark.md](../docs/layout-benchmark.md) explains the"
    yield "arms and the columns. Layouts were chosen for other constants than those of the measured queries."
    for name, star in found.items():
        scale = f"scale {star['scale']:g}, " if name != "flights" else ""
        yield from ("", f"### {name}", "")
        queries = f"{star['choosing']} queries chose the layouts, {star['queries']} were measured"
        yield f"{scale}{star['rows']:,} rows; {queries}; {star['machine']}."
        for engine, title, read in (("duckdb", "DuckDB", "MiB read"), ("spark", "Spark", "MiB of files read")):
            if engine in star:
                yield from _table(star[engine], title, read)


def _table(found: dict[str, Any], title: str, read: str) -> Iterator[str]:
    """Yield what one engine reads. read: the heading of the column of bytes."""
    cuts = f", and {found['cuts']} cuts" if found["cuts"] else ", without cuts"
    partitions = f" On Iceberg, it partitions by {', '.join(found['partitions'])}." if found["partitions"] else ""
    yield from ("", f"#### Read by {title}", "")
    yield f"Columns that `advise` chose: {found['columns']}, curve {found['curve']}{cuts}.{partitions}"
    if not found["recommended"]:
        yield "It recommends no order of the rows alone, because none saves 5 %."
    yield ""
    yield f"| arm | files | MiB written | files read | {read} | / arrival order |"
    yield "|---|---|---|---|---|---|"
    first, best = found["arms"][0], min(arm["bytes_read"] for arm in found["arms"])
    for arm in found["arms"]:
        share = f"{arm['bytes_read'] / first['bytes_read']:.3f}"
        share = f"**{share}**" if arm["bytes_read"] == best else share
        yield (
            f"| {arm['arm']} | {arm['files']} | {arm['bytes'] / 2**20:.1f} | {arm['files_read']:.1f} "
            f"| {arm['bytes_read'] / 2**20:.1f} | {share} |"
        )
    yield ""
    if title == "DuckDB":
        without = found["without_joins"]
        chosen = "recommends no layout" if without is None else f"chooses: {without}"
        yield from (f"Without conditions through joins, `advise` {chosen}.", "")
    for arm, stated in found["forecasts"].items():
        yield _forecast_line(arm, stated, title)


def _forecast_line(arm: str, stated: dict[str, Any], title: str) -> str:
    mib = {key: stated[key] / 2**20 for key in ("bytes", "low", "high", "read_bytes")}
    return (
        f"- {arm}: `plan --sample` predicted for {stated['share']:.0%} of these queries {stated['files']:.1f} files of "
        f"{mib['bytes']:.2f} MiB ({mib['low']:.2f} to {mib['high']:.2f}) a query, and at least "
        f"{stated['floor_files']:.1f} files in any layout. {title} read {stated['read_files']:.1f} files of "
        f"{mib['read_bytes']:.2f} MiB: the prediction of bytes is {stated['bytes'] / stated['read_bytes'] - 1:+.1%} "
        "off."
    )


if __name__ == "__main__":
    sys.exit(main())
