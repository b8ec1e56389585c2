"""Measures the rewrites of a table that grows: 50 appends of 2 %, each followed by a run that restores the layout.

Arms: zlayout at tolerance 1.5x and 2x, Delta's OPTIMIZE ZORDER BY, and Delta's liquid clustering; each with uniform
keys, with a first key that is a time and grows with each append (suffix _dates), and with a second key that is at most
a tenth of the range above the first (suffix _correlated). Writes results/incremental.json: {arm: {write_amplification,
touched_ratio_mean, touched_ratio_max}}.

Six more arms have a table of one partition per day: benchmarks/by_day.py.

write_amplification: bytes of files written by the rewrites, divided by bytes appended. touched_ratio: touched after the
rewrite, divided by touched of a full rewrite of the same rows by kd; mean over both keys. touched is exact: values are
drawn from the rows, and files are counted by their bounds.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import numpy as np
import pyarrow as pa
from by_day import BY_DAY, run_by_day
from growing import KEYS, Table, apply, rows_of, session, sizes
from support.boxes import touched_of

from zlayout.curve.layout import build
from zlayout.errors import Location
from zlayout.formats.delta.backend import DeltaBackend
from zlayout.planner.work import PlanOptions
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import Layout, LayoutSpec, Project, TableName, Tolerance, ZorderColumn

OUT = Path(__file__).parent / "results" / "incremental.json"
DRAWN = 2_000
KINDS = ("", "_dates", "_correlated")

Mend = Callable[[Table], None]


def zlayout(tolerance: float) -> Mend:
    """Plan and apply; the plan must be empty afterwards."""

    def mend(table: Table) -> None:
        layout = Layout(tuple(map(ZorderColumn, KEYS)), "kd", 1000, False, table.target_size, True, "zlayout")
        spec = LayoutSpec(table.name, layout, Location("benchmark"), tolerance=Tolerance(touched=tolerance))
        applied = apply(spec, table.backend, PlanOptions())
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
    options.add_argument("--arms", nargs="*", default=[*(f"{arm}{kind}" for kind in KINDS for arm in ARMS), *BY_DAY])
    options.add_argument("--appends", type=int, default=50)
    options.add_argument("--rows", type=int, default=100_000, help="rows to begin with; an append is 2 %% of them")
    options.add_argument("--files", type=int, default=100, help="files to begin with; an append is 2 %% of them")
    options.add_argument("--out", type=Path, default=OUT)
    given = options.parse_args()
    results: dict[str, dict[str, float]] = json.loads(given.out.read_text()) if given.out.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        project, runtime = session(Path(folder))
        try:
            for arm in given.arms:
                if arm in BY_DAY:
                    results[arm] = run_by_day(arm, project, runtime, given.appends, given.rows, given.files)
                else:
                    table = _table(arm, project, runtime, given.rows, given.files)
                    results[arm] = _run(table, arm, given.appends, given.rows, given.files)
                print(arm, results[arm], flush=True)
                given.out.parent.mkdir(exist_ok=True)
                given.out.write_text(json.dumps(results, indent=1) + "\n")
        finally:
            runtime.stop()
    return 0


def _table(arm: str, project: Project, runtime: SparkRuntime, rows: int, files: int) -> Table:
    """The table of an arm with its first rows, laid out once."""
    (project.root / "db").mkdir(exist_ok=True)
    path = project.root / "db" / arm.replace(".", "_")
    clustered = f"CLUSTER BY ({', '.join(KEYS)})" if arm.startswith("liquid") else ""
    runtime.session.sql(f"CREATE TABLE delta.`{path}` (a BIGINT, b BIGINT, payload BINARY) USING delta {clustered}")
    backend = DeltaBackend(project.catalogs["lake"], runtime)
    table = Table(runtime, backend, TableName("lake", ("db",), path.name), path, 1, files)
    table.append(rows_of(arm, rows, 0, 0, 50), files)
    table.target_size = int(table.live().bytes.sum()) // files
    _mend(arm)(table)
    return table


def _mend(arm: str) -> Mend:
    return ARMS[arm.removesuffix("_dates").removesuffix("_correlated")]


def _run(table: Table, arm: str, appends: int, rows: int, files: int) -> dict[str, float]:
    appended = written = 0
    ratios = []
    for number in range(appends):
        before = sizes(table)
        table.append(rows_of(arm, rows // 50, number + 1, 50 + number), max(1, files // 50))
        fresh = sizes(table)
        _mend(arm)(table)
        after = sizes(table)
        appended += sum(fresh[path] for path in fresh.keys() - before.keys())
        written += sum(after[path] for path in after.keys() - fresh.keys())
        ratios.append(_touched_ratio(table))
        print(f"{arm} {number + 1}: {written / appended:.1f}x written, touched {ratios[-1]:.2f}x", flush=True)
    return {
        "write_amplification": round(written / appended, 2),
        "touched_ratio_mean": round(float(np.mean(ratios)), 3),
        "touched_ratio_max": round(max(ratios), 3),
    }


def _touched_ratio(table: Table) -> float:
    """Return touched divided by that of a full rewrite into files of the target size, mean over the keys."""
    keys = np.concatenate(table.keys, axis=1)
    files = table.live()
    columns = {key: pa.array(values) for key, values in zip(KEYS, keys, strict=True)}
    count = max(1, round(int(files.bytes.sum()) / table.target_size))
    best = touched_of(build(columns, {}, "kd", 1000, count, False), columns)
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
