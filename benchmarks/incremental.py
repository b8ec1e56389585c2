"""What keeping a table laid out costs while it grows: 50 appends of 2 %, the layout restored after each of them.

Arms: zlayout at tolerance 1.5x and 2x, Delta's OPTIMIZE ZORDER each time, Delta's liquid clustering each time; with
uniform keys, with a first key that is a time that grows with each append (suffix _dates), and with a second key that is
at most a tenth of the range above the first (suffix _correlated). Writes
results/incremental.json: {arm: {write_amplification, touched_ratio_mean, touched_ratio_max}}.

Three more arms have a budget for each append, on a table of one partition per day: half of the rows of an append are of
a new day, and half are late, of the days before. The queries ask for a value of a in one of the last three days.
budget_touched and budget_touched_more rank by touched, budget_workload by such queries. Their results are
{write_amplification, read_share_mean, appends}. read_share: the part of the table that a query opens after the rewrite.

write_amplification: bytes of files written by the rewrites, over bytes appended. touched_ratio: mean over both keys of
touched after the rewrite, beside touched of a full rewrite of the same rows by kd; touched is exact: values are drawn
from the rows, files counted by their bounds.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from zlayout.advisor.costs import costs
from zlayout.advisor.queries import in_partitions, queries_on
from zlayout.advisor.study import present_files
from zlayout.app.apply import apply_table
from zlayout.app.concurrent_reads import Reading
from zlayout.app.plan import plan_tables
from zlayout.app.results import Applied, new_run
from zlayout.curve.layout import build
from zlayout.errors import Location
from zlayout.formats.delta.backend import DeltaBackend
from zlayout.planner.decision import PlanOptions
from zlayout.spark.session import SparkRuntime
from zlayout.spec.layout import Layout, ZorderColumn
from zlayout.spec.model import CatalogConfig, LayoutSpec, Project, SparkConfig, TableName, Tolerance
from zlayout.table.state import FileTable
from zlayout.workload import read_workload

OUT = Path(__file__).parent / "results" / "incremental.json"
KEYS = ("a", "b")
PAYLOAD = 64
DAY = 86_400
DRAWN = 2_000
RANGE = 10**9  # of the values of a key
KINDS = ("", "_dates", "_correlated")
BUDGETED = {"budget_touched": 0.5, "budget_touched_more": 0.75, "budget_workload": 0.5}  # shares of appended bytes
DAYS = 15  # before the first append, and of late rows
ASKED_DAYS, QUERIES = 3, 40

Int64 = NDArray[np.int64]


@dataclass(slots=True)
class Table:
    """One arm's table, and the keys of all rows in it."""

    runtime: SparkRuntime
    backend: DeltaBackend
    name: TableName
    path: Path
    target_size: int
    files: int
    keys: list[Int64] = field(default_factory=list)

    def append(self, rows: pa.Table, files: int) -> None:
        source = self.path.with_suffix(".parquet")
        pq.write_table(rows, source)
        frame = self.runtime.session.read.parquet(str(source)).coalesce(1)
        if files > 1:
            frame = self.runtime.session.read.parquet(str(source)).repartition(files)
        frame.write.format("delta").mode("append").save(str(self.path))
        self.keys.append(np.stack([rows[key].to_numpy() for key in KEYS]))

    def live(self) -> FileTable:
        return self.backend.observe(self.name, KEYS).files


Mend = Callable[[Table], None]


def zlayout(tolerance: float) -> Mend:
    """Plan and apply; the plan must be empty afterwards."""

    def mend(table: Table) -> None:
        layout = Layout(tuple(map(ZorderColumn, KEYS)), "kd", 1000, False, table.target_size, True, "zlayout")
        spec = LayoutSpec(table.name, layout, Location("benchmark"), tolerance=Tolerance(touched=tolerance))
        applied = _apply(spec, table.backend, PlanOptions())
        if applied.after is None or applied.after.status != "unchanged":
            raise RuntimeError(f"the plan after apply is not empty: {applied.after}")

    return mend


def zorder(table: Table) -> None:
    _optimize(table, f"ZORDER BY ({', '.join(KEYS)})")


def liquid(table: Table) -> None:
    _optimize(table, "")


def _optimize(table: Table, how: str) -> None:
    spark = table.runtime.session
    spark.conf.set("spark.databricks.delta.optimize.maxFileSize", str(table.target_size))
    spark.conf.set("spark.databricks.delta.optimize.minFileSize", str(table.target_size))
    spark.sql(f"OPTIMIZE delta.`{table.path}` {how}").collect()


ARMS: dict[str, Mend] = {
    "zlayout_1.5": zlayout(1.5),
    "zlayout_2": zlayout(2.0),
    "full_zorder": zorder,
    "liquid": liquid,
}


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--arms", nargs="*", default=[*(f"{arm}{kind}" for kind in KINDS for arm in ARMS), *BUDGETED])
    options.add_argument("--appends", type=int, default=50)
    options.add_argument("--rows", type=int, default=100_000, help="rows to begin with; an append is 2 % of them")
    options.add_argument("--files", type=int, default=100, help="files to begin with; an append is 2 % of them")
    options.add_argument("--out", type=Path, default=OUT)
    given = options.parse_args()
    results: dict[str, dict[str, float]] = json.loads(given.out.read_text()) if given.out.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        project, runtime = _session(Path(folder))
        try:
            for arm in given.arms:
                if arm in BUDGETED:
                    results[arm] = _run_with_budget(arm, project, runtime, given.appends, given.rows, given.files)
                else:
                    table = _table(arm, project, runtime, given.rows, given.files)
                    results[arm] = _run(table, arm, given.appends, given.rows, given.files)
                print(arm, results[arm], flush=True)
                given.out.parent.mkdir(exist_ok=True)
                given.out.write_text(json.dumps(results, indent=1) + "\n")
        finally:
            runtime.stop()
    return 0


def _session(root: Path) -> tuple[Project, SparkRuntime]:
    place = Location("benchmark")
    catalog = CatalogConfig("lake", "delta", "path", {"warehouse": str(root)}, place)
    conf = {
        "spark.sql.shuffle.partitions": "4",
        "spark.databricks.delta.snapshotPartitions": "2",
        "spark.sql.warehouse.dir": str(root / "warehouse"),
    }
    project = Project(root, {"lake": catalog}, SparkConfig("local[2]", conf), ())
    return project, SparkRuntime(project)


def _table(arm: str, project: Project, runtime: SparkRuntime, rows: int, files: int) -> Table:
    """The table of an arm with its first rows, laid out once."""
    (project.root / "db").mkdir(exist_ok=True)
    path = project.root / "db" / arm.replace(".", "_")
    clustered = f"CLUSTER BY ({', '.join(KEYS)})" if arm.startswith("liquid") else ""
    runtime.session.sql(f"CREATE TABLE delta.`{path}` (a BIGINT, b BIGINT, payload BINARY) USING delta {clustered}")
    backend = DeltaBackend(project.catalogs["lake"], runtime)
    table = Table(runtime, backend, TableName("lake", ("db",), path.name), path, 1, files)
    table.append(_rows(arm, rows, 0, 0, 50), files)
    table.target_size = int(table.live().bytes.sum()) // files
    _mend(arm)(table)
    return table


def _mend(arm: str) -> Mend:
    return ARMS[arm.removesuffix("_dates").removesuffix("_correlated")]


def _run(table: Table, arm: str, appends: int, rows: int, files: int) -> dict[str, float]:
    appended = written = 0
    ratios = []
    for number in range(appends):
        before = _sizes(table)
        table.append(_rows(arm, rows // 50, number + 1, 50 + number), max(1, files // 50))
        fresh = _sizes(table)
        _mend(arm)(table)
        after = _sizes(table)
        appended += sum(fresh[path] for path in fresh.keys() - before.keys())
        written += sum(after[path] for path in after.keys() - fresh.keys())
        ratios.append(_touched_ratio(table))
        print(f"{arm} {number + 1}: {written / appended:.1f}x written, touched {ratios[-1]:.2f}x", flush=True)
    return {
        "write_amplification": round(written / appended, 2),
        "touched_ratio_mean": round(float(np.mean(ratios)), 3),
        "touched_ratio_max": round(max(ratios), 3),
    }


def _run_with_budget(
    arm: str, project: Project, runtime: SparkRuntime, appends: int, rows: int, files: int
) -> dict[str, float]:
    """Append to a table of one partition per day, and then spend a budget of a share of the appended bytes."""
    path, workload, unknown = project.root / "db" / arm, project.root / f"{arm}.sql", project.root / "unknown.sql"
    path.parent.mkdir(exist_ok=True)
    runtime.session.sql(
        f"CREATE TABLE delta.`{path}` (a BIGINT, b BIGINT, payload BINARY, day INT) USING delta PARTITIONED BY (day)"
    )
    backend, name = DeltaBackend(project.catalogs["lake"], runtime), TableName("lake", ("db",), arm)
    table = Table(runtime, backend, name, path, 1, files)
    random = np.random.default_rng(1)
    table.append(_with_days(_rows(arm, rows, 0, 0), random.integers(0, DAYS, rows)), 1)
    layout = Layout(
        tuple(map(ZorderColumn, KEYS)), "kd", 1000, False, int(table.live().bytes.sum()) // files, True, "zlayout"
    )
    spec = LayoutSpec(table.name, layout, Location("benchmark"))
    _apply(spec, backend, PlanOptions())
    if arm == "budget_workload":
        spec = replace(spec, workload=(workload,))
    appended = written = 0
    shares = []
    for number in range(appends):
        before, count, today = _sizes(table), rows // 50, DAYS + number
        days = np.where(np.arange(count) < count // 2, today, today - random.integers(1, DAYS, count))
        table.append(_with_days(_rows(arm, count, number + 1, 0), days), 1)
        fresh = _sizes(table)
        size = sum(fresh[file] for file in fresh.keys() - before.keys())
        for file in (workload, unknown):
            file.write_text(_queries(arm, today, random))
        _apply(spec, backend, PlanOptions(max_rewrite_bytes=int(BUDGETED[arm] * size)))
        after = _sizes(table)
        appended, written = appended + size, written + sum(after[file] for file in after.keys() - fresh.keys())
        state = backend.observe(name, KEYS)
        asked = in_partitions(queries_on(read_workload([unknown]), name, state).queries, state)
        shares.append(costs(asked, present_files(state)).mean_bytes / sum(after.values()))
        print(f"{arm} {number + 1}: {written / appended:.2f}x written, {shares[-1]:.2%} read", flush=True)
    found = {"write_amplification": round(written / appended, 2), "read_share_mean": round(float(np.mean(shares)), 5)}
    return found | {"appends": appends}


def _apply(spec: LayoutSpec, backend: DeltaBackend, options: PlanOptions) -> Applied:
    (planned,) = plan_tables([spec], {spec.table.catalog: backend}, options, Reading())
    applied = new_run(planned)
    apply_table(planned, backend, options, applied, lambda _: None, lambda *_: None)
    if applied.error is not None:
        raise applied.error
    return applied


def _with_days(rows: pa.Table, days: Int64) -> pa.Table:
    return rows.append_column("day", pa.array(days, pa.int32()))


def _queries(arm: str, today: int, random: np.random.Generator) -> str:
    asked = zip(random.integers(0, ASKED_DAYS, QUERIES), random.integers(0, RANGE, QUERIES), strict=True)
    return "".join(f"SELECT * FROM {arm} WHERE day = {today - day} AND a = {value};\n" for day, value in asked)


def _rows(arm: str, count: int, seed: int, day: int, days: int = 1) -> pa.Table:
    """Two keys of the kind of the arm, the times within the given days; and bytes that do not compress."""
    random = np.random.default_rng(seed)
    a = random.integers(0, RANGE, count)
    if arm.endswith("_dates"):
        a = np.random.default_rng(seed).integers(day * DAY, (day + days) * DAY, count)
    payload = pa.FixedSizeBinaryArray.from_buffers(
        pa.binary(PAYLOAD), count, [None, pa.py_buffer(random.bytes(count * PAYLOAD))]
    )
    b = a + random.integers(0, RANGE // 10, count) if arm.endswith("_correlated") else random.integers(0, RANGE, count)
    return pa.table({"a": a, "b": b, "payload": payload.cast(pa.binary())})


def _sizes(table: Table) -> dict[str, int]:
    files = table.live()
    return dict(zip(files.path.to_pylist(), files.bytes.tolist(), strict=True))


def _touched_ratio(table: Table) -> float:
    """touched beside that of a full rewrite into files of the target size, mean over the keys."""
    keys = np.concatenate(table.keys, axis=1)
    files = table.live()
    columns = {key: pa.array(values) for key, values in zip(KEYS, keys, strict=True)}
    count = max(1, round(int(files.bytes.sum()) / table.target_size))
    best = build(columns, {}, "kd", 1000, count, False).predict_touched()
    drawn = keys[:, np.random.default_rng(0).choice(keys.shape[1], min(DRAWN, keys.shape[1]), replace=False)]
    ratios = []
    for key, values in zip(KEYS, drawn, strict=True):
        low, high = (side.to_numpy(zero_copy_only=False) for side in (files.bounds[key].lower, files.bounds[key].upper))
        met = (values[:, None] >= low) & (values[:, None] <= high)
        ratios.append(met.sum(axis=1).mean() / best[key])
    return float(np.mean(ratios))


if __name__ == "__main__":
    os.environ.setdefault("TZ", "UTC")
    sys.exit(main())
