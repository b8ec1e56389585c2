"""Compares the layout that advise recommends for TPC-H with 20 layouts chosen by hand, all applied on both formats.

The workload has queries 1, 3, 6, 12, 14, 19 and 20 on lineitem (workloads/tpch.sql) with equal weights. Every layout is
simulated on one sample and then applied by `apply`; files touched are counted from the bounds in the log or the
manifests. Prints a table and writes results/advise.json: `python benchmarks/advise.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import time
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from arms import target_size
from lineitem import DELTA, ICEBERG, Bench, open_bench

from zlayout.advisor.costs import column_shares, costs, in_partitions, queries_on
from zlayout.advisor.model import Choice, Study, TableQuery
from zlayout.advisor.query_costs import rewrite_of_table
from zlayout.advisor.study import Question, study
from zlayout.errors import Location
from zlayout.planner.diff import PlanOptions
from zlayout.session.apply import apply_table
from zlayout.session.import_ import parse_columns
from zlayout.session.plan import plan_table
from zlayout.session.results import new_run
from zlayout.session.sampling import draw_sample
from zlayout.spec.model import Layout, LayoutSpec, TableName
from zlayout.table.samples import KeySample
from zlayout.table.state import TableState
from zlayout.workload.files import read_workload
from zlayout.workload.model import Workload

HERE = Path(__file__).parent
WORKLOAD = HERE / "workloads" / "tpch.sql"
RESULT = HERE / "results" / "advise.json"
NAMES = {"delta": DELTA, "iceberg": ICEBERG}
# (curve, columns with weights). All of them give as many files as are wanted: l_shipmode alone would give seven large
# ones, of which few are opened and much is read.
BY_HAND = (
    ("kd", "l_shipdate"),
    ("kd", "l_receiptdate"),
    ("kd", "l_shipmode,l_partkey"),
    ("kd", "l_quantity"),
    ("kd", "l_orderkey"),
    ("kd", "l_shipdate,l_partkey"),
    ("kd", "l_shipdate,l_receiptdate"),
    ("kd", "l_shipdate,l_quantity"),
    ("kd", "l_shipdate,l_shipmode"),
    ("kd", "l_shipdate,l_discount"),
    ("kd", "l_shipdate=2,l_shipmode"),
    ("kd", "l_shipdate=4,l_shipmode"),
    ("kd", "l_shipdate,l_shipmode,l_quantity"),
    ("kd", "l_shipdate=4,l_shipmode,l_quantity"),
    ("kd", "l_shipdate,l_quantity,l_discount"),
    ("kd", "l_shipdate,l_shipmode,l_shipinstruct"),
    ("kd", "l_shipdate=2,l_shipmode,l_shipinstruct,l_quantity"),
    ("zorder", "l_shipdate,l_shipmode"),
    ("hilbert", "l_shipdate,l_quantity"),
    ("linear", "l_shipmode,l_shipdate"),
)


@dataclass(frozen=True, slots=True)
class Case:
    """A table of one format with its queries and sample."""

    format: str
    bench: Bench
    workload: Workload
    state: TableState
    queries: tuple[TableQuery, ...]
    sample: KeySample

    @property
    def name(self) -> TableName:
        return NAMES[self.format]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.1, help="TPC-H scale factor")
    parser.add_argument("--files", type=int, default=32, help="files in every table")
    parser.add_argument("--folder", type=Path, default=HERE.parent / "build" / "advise")
    arguments = parser.parse_args()
    started = time.monotonic()
    bench = open_bench(arguments.folder.resolve(), arguments.scale, arguments.files)
    bench.reset_delta()
    say(f"tables made after {time.monotonic() - started:.0f} s")
    machine = f"{os.cpu_count()} cores, {platform.machine()}, {date.today().isoformat()}"
    label = f"TPC-H scale {arguments.scale:g}, {arguments.files} files, {machine}"
    document: dict[str, Any] = {"label": label, "workload": "workloads/tpch.sql", "formats": {}}
    for format in NAMES:
        document["formats"][format] = run_format(bench, format)
        document["seconds"] = round(time.monotonic() - started)
        RESULT.write_text(json.dumps(document, indent=2) + "\n")
    bench.runtime.stop()
    print(as_table(document))
    shutil.rmtree(arguments.folder, ignore_errors=True)
    return 0 if all(f["recommended_is_best"] and f["within_15_percent"] for f in document["formats"].values()) else 1


def run_format(bench: Bench, format: str) -> dict[str, Any]:
    case = open_case(bench, format)
    found = recommended(case)
    best = found.choices[-1]
    rows = [measured(case, choice, choice is best) for choice in (best, *found.choices[:-1])]
    by_hand = [row["measured"] for row in rows[1:]]
    return {
        "sample_rows": len(case.sample),
        "queries": [q.location.rpartition("/")[2] for q in case.queries],
        "before": round(found.now.mean_files, 3),
        "floor": round(found.floor.mean_files, 3),
        "search": {"layouts": found.tried, "seconds": round(found.seconds, 1)},
        "recommended_is_best": rows[0]["measured"] <= min(by_hand),
        "within_15_percent": abs(rows[0]["ratio"] - 1) <= 0.15,
        "worst_ratio": max((row["ratio"] for row in rows), key=lambda r: abs(r - 1)),
        "layouts": rows,
    }


def open_case(bench: Bench, format: str) -> Case:
    """Read the workload, and draw one sample of its columns as advise does."""
    name, backend = NAMES[format], bench.backend(format)
    schema = backend.observe(name, ())
    # the benchmark's Delta table goes by another name than the queries' lineitem
    called = TableName(name.catalog, name.namespace, "lineitem")
    workload = read_workload([WORKLOAD], {"lineitem": [c.name for c in schema.columns]})
    used = column_shares(queries_on(workload, called, schema).queries)
    by_hand = [c.name for _, text in BY_HAND for c in parse_columns(text)]
    columns = tuple(dict.fromkeys([*used, *by_hand]))
    state = backend.observe(name, columns)
    queries = in_partitions(queries_on(workload, called, state).queries, state)
    sample = draw_sample(backend, name, state, columns, 2_000 * bench.files, 0)
    return Case(format, bench, workload, state, queries, sample)


def recommended(case: Case) -> Study:
    """Return the simulated layouts chosen by hand, and last the one that the search recommends."""
    base = Layout((), "kd", 1000, False, target_size(case.bench, case.format), True, "zlayout")
    given = tuple(replace(base, curve=curve, columns=parse_columns(text)) for curve, text in BY_HAND)
    spec = LayoutSpec(case.name, base, Location("benchmark"))
    rewrite = rewrite_of_table(spec, case.state, tuple(case.sample.keys), case.sample, case.bench.files)
    return study(case.state, case.queries, rewrite, Question(given, None, base, True, seconds=300.0))


def measured(case: Case, choice: Choice, is_recommended: bool) -> dict[str, Any]:
    """Apply a layout and count the files that the queries touch."""
    started = time.monotonic()
    layout = replace(choice.layout, target_size=target_size(case.bench, case.format))
    backend = case.bench.backend(case.format)
    planned = plan_table(LayoutSpec(case.name, layout, Location("benchmark")), backend, PlanOptions())
    applied = new_run(planned)
    apply_table(planned, backend, PlanOptions(), applied, lambda _progress: None, lambda _table, _outcome: None)
    if applied.error is not None:
        raise applied.error
    state = backend.observe(case.name, list(case.sample.keys))
    if not all(state.files.layouts[n].layout_id == layout.layout_id for n in state.files.layout.tolist()):
        raise RuntimeError(f"{case.name}: not all files are laid out by {choice.title}")
    found = costs(case.queries, state.files)
    seconds = time.monotonic() - started
    ratio = choice.costs.mean_files / found.mean_files
    say(f"{case.format:<8} {choice.title:<70} {choice.costs.mean_files:6.2f} {found.mean_files:6.2f}  {seconds:4.0f} s")
    return {
        "layout": choice.title,
        "recommended": is_recommended,
        "files": len(state.files),
        "predicted": round(choice.costs.mean_files, 3),
        "measured": round(found.mean_files, 3),
        "ratio": round(ratio, 4),
        "predicted_by_query": [round(v, 2) for v in choice.costs.files.tolist()],
        "measured_by_query": [int(v) for v in found.files.tolist()],
    }


def as_table(document: dict[str, Any]) -> str:
    """Return the results as a Markdown table: a row for each layout, the best measured one first."""
    lines = [document["label"], ""]
    for format, found in document["formats"].items():
        lines += [f"| {format} | files | predicted | measured | predicted / measured |", "|---|---|---|---|---|"]
        for row in sorted(found["layouts"], key=lambda r: r["measured"]):
            title = f"**{row['layout']}** (recommended)" if row["recommended"] else row["layout"]
            numbers = f"{row['predicted']:.2f} | {row['measured']:.2f} | {row['ratio']:.2f}"
            lines.append(f"| {title} | {row['files']} | {numbers} |")
        lines += [f"| before | {found['before']:.2f} | | | |", f"| floor | {found['floor']:.2f} | | | |", ""]
    return "\n".join(lines)


def say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
