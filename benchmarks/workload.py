"""Measures what queries read in arrival order, the format's own z-order, kd and cuts, applied on both formats.

Each table has 100 queries. Half of them choose the layouts (`advise`), and the others are measured: Spark scans the
table for each, and reports the bytes of the files that it opened. Prints a table and writes results/workload.json and a
section of RESULTS.md: `python benchmarks/workload.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from arms import delta_zorder, iceberg_zorder, target_size
from asked import CASES, Case
from lineitem import DELTA, ICEBERG, Bench, attach, write_base
from results import replace_section

from zlayout.advisor.costs import column_shares, in_partitions, lowest, measure, queries_on
from zlayout.advisor.model import Choice, Study, TableQuery
from zlayout.advisor.query_costs import rewrite_of_table
from zlayout.advisor.study import Question, study
from zlayout.errors import Location
from zlayout.planner.diff import PlanOptions
from zlayout.planner.simulation import Rewrite, draws_of
from zlayout.session.apply import apply_table
from zlayout.session.plan import plan_table
from zlayout.session.results import new_run
from zlayout.session.sampling import draw_sample
from zlayout.session.trial import replay
from zlayout.spec.model import Layout, LayoutSpec, TableName
from zlayout.table.state import TableState
from zlayout.workload.files import read_workload

HERE = Path(__file__).parent
RESULT = HERE / "results" / "workload.json"
SECTION = "## Workload"
NAMES = {"delta": DELTA, "iceberg": ICEBERG}
QUERIES, CHOOSING, CHECKING = 100, 11, 12  # seeds of both halves
ARMS = ("arrival order", "the format's z-order", "kd", "recommended")


@dataclass(frozen=True, slots=True)
class Asked:
    """A table of one format, with the queries that choose layouts and those that are measured."""

    bench: Bench
    format: str
    state: TableState
    choosing: tuple[TableQuery, ...]
    measured: tuple[TableQuery, ...]
    rewrite: Rewrite

    @property
    def name(self) -> TableName:
        return NAMES[self.format]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.1, help="TPC-H scale factor")
    parser.add_argument("--files", type=int, default=48, help="files in every table")
    parser.add_argument("--tables", default=",".join(case.name for case in CASES))
    parser.add_argument("--folder", type=Path, default=HERE.parent / "build" / "workload")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    tool = [str(Path(sys.executable).parent / "tpchgen-cli"), "parquet", "-s", str(arguments.scale)]
    subprocess.run([*tool, "--tables=lineitem,orders", f"--output-dir={folder}"], check=True, stdout=subprocess.DEVNULL)
    machine = f"{os.cpu_count()} cores, {platform.machine()}, {date.today().isoformat()}"
    label = f"TPC-H scale {arguments.scale:g}, {arguments.files} files in each table, {machine}"
    rows: list[dict[str, Any]] = []
    for case in CASES:
        if case.name in arguments.tables.split(","):
            rows += run_case(case, folder, arguments.files)
            RESULT.write_text(json.dumps({"label": label, "rows": rows}, indent=1) + "\n")
    replace_section(HERE / "RESULTS.md", SECTION, "\n".join(as_section(label, rows)) + "\n")
    print("\n".join(as_section(label, rows)))
    shutil.rmtree(folder, ignore_errors=True)
    return 0


def run_case(case: Case, folder: Path, files: int) -> list[dict[str, Any]]:
    root = folder / case.name
    root.mkdir()
    bench = attach(root, files)
    write_base(bench, case.rows(bench.runtime.session, folder))
    bench.reset_delta()
    found = [run_format(case, bench, format) for format in NAMES]
    bench.runtime.stop()
    shutil.rmtree(root)
    return found


def run_format(case: Case, bench: Bench, format: str) -> dict[str, Any]:
    asked = open_case(case, bench, format)
    best = advised(asked)
    without = best.choices[-2] if best.choices[-1].layout.cuts else best.choices[-1]
    recommended = best.choices[-1]
    row: dict[str, Any] = {
        "table": case.name,
        "format": format,
        "files": bench.files,
        "queries": len(asked.measured),
        "kd": without.title,
        "cuts": len(recommended.layout.cuts),
        "check": list(best.notes),
        "bytes": {},
        "predicted": {},
        "floor": round(float(total(lowest(asked.measured, draws_of(asked.rewrite)[0]).bytes, asked.measured))),
    }
    row["bytes"]["arrival order"] = read(asked)
    run_native = delta_zorder if format == "delta" else iceberg_zorder
    natives = {}
    for keys in case.native:
        reset(bench, format)
        run_native(bench, keys)
        natives[", ".join(keys)] = read(asked)
    row["native"] = natives
    row["bytes"]["the format's z-order"] = min(natives.values())
    for arm, choice in (("kd", without), ("recommended", recommended)):
        if arm == "recommended" and choice is without:
            row["bytes"][arm], row["predicted"][arm] = row["bytes"]["kd"], row["predicted"]["kd"]
            continue
        reset(bench, format)
        apply(asked, choice)
        row["bytes"][arm] = read(asked)
        row["predicted"][arm] = predicted(asked, choice.layout)
    reset(bench, format)
    print(json.dumps(row), file=sys.stderr, flush=True)
    return row


def open_case(case: Case, bench: Bench, format: str) -> Asked:
    """Read both halves of the workload, and draw one sample of their columns as advise does."""
    name, backend = NAMES[format], bench.backend(format)
    schema = backend.observe(name, ())
    called = TableName(name.catalog, name.namespace, case.name)
    columns = {case.name: [c.name for c in schema.columns]}
    halves = []
    for seed in (CHOOSING, CHECKING):
        path = bench.root / f"{seed}.sql"
        path.write_text(";\n".join(case.queries(QUERIES // 2, seed)) + ";\n")
        halves.append(queries_on(read_workload([path], columns), called, schema).queries)
    used = tuple(dict.fromkeys(name for half in halves for name in column_shares(half)))
    state = backend.observe(name, used)
    choosing, measured = (in_partitions(half, state) for half in halves)
    sample = draw_sample(backend, name, state, used, 2_000 * bench.files, 0)
    base = Layout((), "kd", 1000, False, target_size(bench, format), True, "zlayout")
    spec = LayoutSpec(name, base, Location("benchmark"))
    return Asked(bench, format, state, choosing, measured, rewrite_of_table(spec, state, used, sample, bench.files))


def advised(asked: Asked) -> Study:
    """Return what advise recommends for the queries that choose, and its best layout without cuts."""
    question = Question((), None, asked.rewrite.layout, search=True, curve="kd", seconds=120.0, cuts=True)
    return study(asked.state, asked.choosing, asked.rewrite, question)


def reset(bench: Bench, format: str) -> None:
    (bench.reset_delta if format == "delta" else bench.reset_iceberg)()


def apply(asked: Asked, choice: Choice) -> None:
    """Apply a layout as the product does."""
    backend = asked.bench.backend(asked.format)
    layout = replace(choice.layout, target_size=target_size(asked.bench, asked.format))
    planned = plan_table(LayoutSpec(asked.name, layout, Location("benchmark")), backend, PlanOptions())
    applied = new_run(planned)
    apply_table(planned, backend, PlanOptions(), applied, lambda _progress: None, lambda _table, _outcome: None)
    if applied.error is not None:
        raise applied.error


def read(asked: Asked) -> int:
    """Return the bytes of the files that Spark opens for all measured queries together."""
    spark = asked.bench.runtime.session
    started = time.monotonic()
    frame = (
        spark.read.format("delta").load(str(asked.bench.work)) if asked.format == "delta" else spark.table(str(ICEBERG))
    )
    opened = replay(frame, asked.measured)
    print(f"{asked.format}: scanned in {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)
    return round(total([found.bytes for found in opened], asked.measured))


def predicted(asked: Asked, layout: Layout) -> int:
    """Return the bytes that the measured queries read according to the simulation by which advise chose the layout."""
    choice = measure(draws_of(asked.rewrite), layout, asked.measured)
    return round(total(choice.costs.bytes.tolist(), asked.measured))


def total(values: Sequence[float], queries: Sequence[TableQuery]) -> float:
    return float(sum(value * query.weight for value, query in zip(values, queries, strict=True)))


def as_section(label: str, rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of the section in Markdown: a row for each table and format, also those that are worse."""
    yield f"{SECTION}: what held-out queries read"
    yield ""
    yield f"Made by `python benchmarks/workload.py`. {label}."
    yield "The numbers are the bytes of the files that Spark opens for 50 queries (for those that read the table),"
    yield "divided by the bytes in arrival order. The layouts were chosen for 50 other queries from the same templates."
    yield "*z-order* is that of the format, with the best of three column choices for the measured queries."
    yield "*recommended* is the layout that `advise` recommends, which is kd if it recommends no cuts."
    yield ""
    yield "| table | format | z-order | kd | recommended | cuts | floor | predicted / measured |"
    yield "|---|---|---|---|---|---|---|---|"
    for row in rows:
        base = row["bytes"]["arrival order"]
        shares = " | ".join(f"{row['bytes'][arm] / base:.3f}" for arm in ARMS[1:])
        last = f"{row['floor'] / base:.3f} | {row['predicted']['recommended'] / row['bytes']['recommended']:.2f}"
        yield f"| {row['table']} | {row['format']} | {shares} | {row['cuts']} | {last} |"


if __name__ == "__main__":
    sys.exit(main())
