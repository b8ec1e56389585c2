"""Make the pictures and tables of docs/choosing-columns.md from simulated layouts of three data sets. No Spark.

Run it with `python examples/choosing_columns.py`; it generates TPC-H lineitem (scale 0.2) with tpchgen-cli, simulates
layouts of 256 files with the curve code of the rewrite, writes docs/pictures/choosing-*.svg and prints the tables.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from zlayout.advisor.costs import column_shares, lowest, measure, queries_on
from zlayout.advisor.model import Choice, TableQuery
from zlayout.advisor.study import Search, correlated_pairs
from zlayout.planner.simulation import MAX_ROWS, Drawn, whole_rewrite
from zlayout.planner.simulation import draw as draw_rows
from zlayout.predicate.model import And, Compare
from zlayout.report import html
from zlayout.report.html import lines
from zlayout.spec.model import CURVES, Layout, TableName, ZorderColumn
from zlayout.table.partition import Partition
from zlayout.table.samples import KeySample, RowGroups
from zlayout.table.state import Column, FileTable, TableState
from zlayout.workload.files import read_workload
from zlayout.workload.model import Query

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ROOT / "docs" / "pictures"
FILES = 256
ROWS = 200_000
SEARCH_ROWS = 50_000
TPCH = ("l_shipdate", "l_receiptdate", "l_discount", "l_quantity", "l_shipmode", "l_shipinstruct")
NUMBERS = {2: "1", 5: "3", 11: "6", 15: "12", 21: "14", 25: "19", 36: "20"}
BASE = Layout((), "kd", 1000, False, 2**27, True, "zlayout")
INK = {
    "currentColor": "#1c2430",
    "var(--before)": "#b4501e",
    "var(--after)": "#16777f",
    "var(--link)": "#0b57a4",
    "var(--ok)": "#1d6b36",
    "var(--warn)": "#7a4b00",
    "var(--bad)": "#a31621",
    "var(--line)": "#c9d1da",
}
Data = Mapping[str, pa.Array]


class Bench:
    """One data set and its queries, for which layouts can be simulated."""

    def __init__(self, data: Data, queries: Sequence[TableQuery], base: Layout = BASE) -> None:
        self.base = base
        self.queries = tuple(queries)
        self.data = data
        self.drawn = every_row(data, base)

    def choice(self, layout: Layout) -> Choice:
        return measure([self.drawn], layout, self.queries)

    def by(self, *columns: str, curve: str = "kd", **weights: float) -> Choice:
        chosen = tuple(ZorderColumn(c, weights.get(c, 1.0)) for c in columns)
        return self.choice(replace(self.base, columns=chosen, curve=curve))

    def search(self) -> Search:
        """Search on a part of the rows, as advise does, and measure the result on all rows."""
        rows = np.sort(np.random.default_rng(0).permutation(len(self.drawn))[:SEARCH_ROWS])
        few = Bench({n: v.take(pa.array(rows)) for n, v in self.data.items()}, self.queries, self.base)
        pairs = correlated_pairs(few.drawn.ranked)
        found = Search(few.choice, self.base, float("inf"), lambda _progress: None, pairs)
        found.run(column_shares(self.queries), CURVES)
        assert found.best is not None
        found.steps = [self.choice(step.layout) for step in found.steps]
        found.best = found.choose([self.choice(layout) for layout in found.finalists()])
        return found


def main() -> int:
    tpch()
    correlated()
    skewed()
    return 0


def tpch() -> None:
    with tempfile.TemporaryDirectory() as folder:
        tool = str(Path(sys.executable).parent / "tpchgen-cli")
        command = [tool, "parquet", "-s", "0.2", "--tables=lineitem", f"--output-dir={folder}"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        table = pq.read_table(Path(folder) / "lineitem.parquet", columns=list(TPCH))
    text = [f.name for f in table.schema if pa.types.is_string_view(f.type)]
    for name in text:
        table = table.set_column(table.schema.get_field_index(name), name, table[name].cast(pa.string()))
    data = drawn({name: table[name].combine_chunks() for name in TPCH})
    workload = read_workload([ROOT / "benchmarks" / "workloads" / "tpch.sql"], {"lineitem": list(TPCH)})
    queries = queries_on(workload, TableName("lake", ("tpch",), "lineitem"), bare(data)).queries
    every = np.ones(1, bool)
    bench = Bench(data, tuple(TableQuery(q.query, q.predicates, (every,) * len(q.predicates)) for q in queries))
    found = bench.search()
    assert found.best is not None
    draw("tpch", "z-order columns", {"the workload": [s.costs.mean_files for s in found.steps]} | touched(found))
    numbers = [f"Q{NUMBERS[int(q.location.rpartition(':')[2])]}" for q in bench.queries]
    ship, best = bench.by("l_shipdate"), found.best
    bars = [[(n, round(v)) for n, v in zip(numbers, c.costs.files, strict=True)] for c in (ship, best)]
    write("tpch-queries", html.bars(bars[0], bars[1], "query", 2 * html.MAP_SIDE))
    three = bench.by("l_shipdate", "l_shipmode", "l_quantity")
    every = bench.by(*TPCH)
    rows = {c.title: c for c in (ship, three, every, best)}
    table_of("TPC-H", rows, numbers, lowest(bench.queries, bench.drawn).files.tolist())
    for n, step in enumerate(found.steps, 1):
        print(f"{n} columns: {step.costs.mean_files:.1f} files  {step.title}")


def correlated() -> None:
    """Study orders that are delivered one to thirty days later. Queries filter on both dates and on the customer."""
    rng = np.random.default_rng(1)
    ordered = rng.integers(0, 2_000, ROWS)
    data = {
        "ordered": days(ordered),
        "delivered": days(ordered + rng.integers(1, 31, ROWS)),
        "customer": pa.array(rng.integers(0, 50_000, ROWS)),
    }
    queries = [*equal("ordered", data, 100), *equal("delivered", data, 100), *equal("customer", data, 100)]
    bench = Bench(data, queries)
    layouts = [
        bench.by("ordered", "customer"),
        bench.by("delivered", "customer"),
        bench.by("ordered", "delivered"),
        bench.by("ordered", "delivered", "customer"),
    ]
    print("\ncorrelated: files opened")
    for choice in layouts:
        print(
            f"{choice.title:<40} {choice.files} files  "
            + "  ".join(f"{n} {v:.1f}" for n, v in per_column(bench, choice).items())
        )
    series = {
        name: [per_column(bench, c)[name] for c in (bench.by("ordered"), layouts[0], layouts[3])]
        for name in ("ordered", "delivered", "customer")
    }
    draw("correlated", "z-order columns", series)
    print("best:", bench.search().best.title)  # type: ignore[union-attr]


def skewed() -> None:
    """Study rows of which half belong to a few large customers. Queries filter on customers as often as they occur."""
    rng = np.random.default_rng(2)
    large = rng.zipf(1.3, ROWS)
    customer = np.where(rng.random(ROWS) < 0.8, np.minimum(large, 10**6), rng.integers(10**6, 2 * 10**6, ROWS))
    data = {"customer": pa.array(customer), "day": days(rng.integers(0, 2_000, ROWS))}
    # With noise, the largest customers are in several files instead of one large file.
    queries = [*equal("customer", data, 200), *equal("day", data, 200)]
    bench = Bench(data, queries, replace(BASE, noise=True))
    shares = np.sort(np.unique(customer, return_counts=True)[1])[::-1] / ROWS
    print(f"\nskewed: largest customers {', '.join(f'{s:.0%}' for s in shares[:3])}")
    for choice in (bench.by("customer"), bench.by("customer", "day"), bench.by("customer", "day", curve="zorder")):
        print(
            f"{choice.title:<40} {choice.files} files  "
            + "  ".join(f"{n} {v:.1f}" for n, v in per_column(bench, choice).items())
        )
    factors = (1, 2, 4, 8, 16)
    found = [bench.by("customer", "day", customer=float(f)) for f in factors]
    series = {name: [per_column(bench, c)[name] for c in found] for name in ("customer", "day")}
    draw("skewed", "weight of customer", series, factors)
    print("best:", bench.search().best.title)  # type: ignore[union-attr]


def per_column(bench: Bench, choice: Choice) -> dict[str, float]:
    """Return the mean number of files per query on each column. Locations of queries begin with the column name."""
    found: dict[str, list[float]] = {}
    for query, files in zip(bench.queries, choice.costs.files.tolist(), strict=True):
        found.setdefault(query.location.partition(":")[0], []).append(files)
    return {name: float(np.mean(files)) for name, files in found.items()}


def equal(column: str, data: Data, count: int) -> list[TableQuery]:
    """Make equality queries for values drawn from the rows."""
    rows = np.random.default_rng(7).integers(0, len(data[column]), count)
    values = data[column].take(pa.array(rows)).to_pylist()
    every = (np.ones(1, bool),)
    asked = [And((Compare(column, "=", value),)) for value in values]
    return [TableQuery(Query("", f"{column}:{n}"), (predicate,), every) for n, predicate in enumerate(asked)]


def days(number: np.ndarray) -> pa.Array:
    start = (date(2020, 1, 1) - date(1970, 1, 1)) // timedelta(days=1)
    return pa.array(number + start, pa.int32()).cast(pa.date32())


def drawn(data: Data) -> dict[str, pa.Array]:
    rows = np.sort(np.random.default_rng(0).permutation(len(next(iter(data.values()))))[:ROWS])
    return {name: values.take(pa.array(rows)) for name, values in data.items()}


def every_row(data: Data, base: Layout) -> Drawn:
    """Draw all rows of a table whose only file becomes FILES files."""
    state, rows = bare(data, 1), len(next(iter(data.values())))
    first, nothing = np.zeros(rows, np.int64), np.zeros(0, np.int64)
    footers = RowGroups(nothing, nothing, nothing, {})
    sample = KeySample(data, first, np.arange(rows), rows, 1, 0, 0, True, footers, by_row=True)
    rewrite = whole_rewrite(base, state, state.columns, sample, FILES)
    return draw_rows(rewrite, rewrite.weights, rows_per_file=MAX_ROWS)


def bare(data: Data, number: int = 0) -> TableState:
    """Make the state of a table with these columns and no file, or one with all rows, of one byte each."""
    none, nothing = np.zeros(number, np.int32), pa.nulls(number, pa.string())
    part = (Partition(0, (), ()),)
    rows = np.full(number, len(next(iter(data.values()))), np.int64)
    files = FileTable(nothing, nothing, rows, 0 * rows, none.astype(bool), rows, none, part, none, (), none, {})
    columns = tuple(Column(n, v.type, True) for n, v in data.items())
    return TableState("t", "delta", "/t", "", 0, "", columns, (), 0, {}, frozenset(), (), files)


def touched(found: Search) -> dict[str, list[float | None]]:
    names = list(dict.fromkeys(c.name for s in found.steps for c in s.layout.columns))
    return {n: [s.touched.get(n) for s in found.steps] for n in names}


def draw(
    name: str, across: str, series: Mapping[str, Sequence[float | None]], at: Sequence[int] = range(1, 99)
) -> None:
    points = {n: [(x, v) for x, v in zip(at, values, strict=False) if v is not None] for n, values in series.items()}
    write(name, lines(points, across, "files opened, of 256"))


def write(name: str, svg: str) -> None:
    for variable, color in INK.items():
        svg = svg.replace(variable, color)
    # The background is white even if the page of the reader is dark.
    head, _, rest = svg.partition(">")
    path = PICTURES / f"choosing-{name}.svg"
    path.write_text(f'{head}><rect width="100%" height="100%" fill="#ffffff"/>{rest}\n')


def table_of(title: str, rows: Mapping[str, Choice], numbers: Sequence[str], floor: Sequence[float]) -> None:
    print(f"\n{title}: files opened of {FILES}")
    print("| layout | mean | " + " | ".join(numbers) + " |")
    print("|---|---|" + "---|" * len(numbers))
    for name, choice in rows.items():
        print(
            f"| {name} | {choice.costs.mean_files:.1f} | " + " | ".join(f"{v:.0f}" for v in choice.costs.files) + " |"
        )
    print(f"| floor | {np.mean(floor):.1f} | " + " | ".join(f"{v:.0f}" for v in floor) + " |")


if __name__ == "__main__":
    sys.exit(main())
