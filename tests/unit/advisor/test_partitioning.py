"""Partitions are recommended for join keys by which an engine skips partitions only, if held-out queries gain."""

from dataclasses import replace
from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pytest
from support.builders import make_layout
from unit.advisor.tables import sample_of, table_state

from zlayout.advisor import partitioning
from zlayout.advisor import study as search
from zlayout.advisor.compare import to_document, verdict, zorder_block
from zlayout.advisor.costs import EVERY_ROW, in_partitions, lowest, measure
from zlayout.advisor.model import Study, TableQuery
from zlayout.advisor.partitioning import partition_keys
from zlayout.advisor.study import Question, study
from zlayout.planner.simulation import draws_of, whole_rewrite
from zlayout.predicate.model import And, Compare, In, Predicate
from zlayout.spec.model import Layout, ZorderColumn
from zlayout.spec.yaml import parse
from zlayout.table.partition import PartitionField
from zlayout.table.state import Column
from zlayout.workload.model import Query

ROWS, FILES, MONTHS, ROW_BYTES = 24_000, 48, 24, 10
RANDOM = np.random.default_rng(4)
DAY = RANDOM.integers(0, 730, ROWS)  # since 2001-01-01
FIRST = date(2001, 1, 1)
DATA = {
    "sold": pa.array((DAY + (FIRST - date(1970, 1, 1)).days).astype(np.int32)).cast(pa.date32()),
    "item": pa.array(RANDOM.integers(0, 1000, ROWS)),
}
FILE = RANDOM.integers(0, FILES, ROWS)
STATE = table_state(DATA, FILE, bytes_per_row=ROW_BYTES, format="iceberg")
BASE = make_layout(target_size=ROWS * ROW_BYTES // FILES)
KEYS = partition_keys(Column("sold", pa.date32(), True), transforms=True)


def month(number: int) -> tuple[date, date]:
    """The first and the last day of a month, counted from the first one."""
    first = date(2001 + number // 12, number % 12 + 1, 1)
    return first, date(2001 + (number + 1) // 12, (number + 1) % 12 + 1, 1) - timedelta(days=1)


def through(number: int, predicate: Predicate = EVERY_ROW) -> TableQuery:
    """A query for one month through a dimension, by which the engine skips partitions only."""
    low, high = month(number)
    limit = And((Compare("sold", ">=", low), Compare("sold", "<=", high)))
    return TableQuery(Query("", f"q.sql:{number}"), (predicate,), (), (limit,))


def item(number: int) -> TableQuery:
    return TableQuery(Query("", f"item.sql:{number}"), (Compare("item", "=", number),))


def studied(queries: list[TableQuery], keys: tuple[PartitionField, ...] = KEYS) -> Study:
    rewrite = whole_rewrite(BASE, STATE, STATE.columns, sample_of(DATA, FILE, 7))
    question = Question((), None, BASE, True, partitions=keys)
    return study(STATE, in_partitions(queries, STATE), rewrite, question)


MIXED = [*(through(n) for n in range(0, MONTHS, 2)), *(item(n) for n in range(50, 1000, 200))]


def test_months_are_recommended_where_most_queries_select_one() -> None:
    found = studied(MIXED)
    assert found.best is not None
    assert found.best.partition_by == (PartitionField("sold", "month"),)
    assert [c.name for c in found.best.layout.columns] == ["item"]
    # A month is two of 48 files, and an item is in one file of each month.
    assert found.best.costs.files[:12] == pytest.approx([2.0] * 12, abs=0.5)
    assert found.best.costs.files[12:] == pytest.approx([MONTHS] * 5, abs=1)
    rows = [np.count_nonzero(((a - FIRST).days <= DAY) & ((b - FIRST).days >= DAY)) for a, b in map(month, range(24))]
    assert found.best.costs.bytes[:12] == pytest.approx(np.array(rows[::2]) * ROW_BYTES, rel=0.01)
    assert (found.now.files[:12] == FILES).all()
    assert (found.floor.bytes <= found.best.costs.bytes * 1.01).all()
    assert any(note.startswith("Partitions by month(sold): 8 queries ") for note in found.notes), found.notes
    assert "in partitions by month(sold)" in verdict(found)


@pytest.mark.parametrize(("growth", "column"), [(1.0, "item"), (2.0, "sold")])
def test_the_key_orders_partitions_where_another_order_makes_files_larger(
    growth: float, column: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ratio(layout: Layout) -> float:
        return growth if layout.columns[0].name == "item" else 1.0

    monkeypatch.setattr(search, "size_ratios", lambda *_: ratio)
    found = studied([*(through(n) for n in range(MONTHS)), *(item(n) for n in range(50, 1000, 500))])
    assert found.best is not None
    assert found.best.partition_by == (PartitionField("sold", "month"),)
    assert [c.name for c in found.best.layout.columns] == [column]


def test_the_keys_and_the_document_name_the_partitions() -> None:
    found = studied(MIXED)
    assert found.best is not None
    assert parse(zorder_block(found.best).encode(), "pasted").data["partition_by"] == ["month(sold)"]
    layouts = to_document(found)["layouts"]
    assert [layout.get("partition_by") for layout in layouts] == [*[None] * (len(layouts) - 1), ["month(sold)"]]


def test_bounds_of_files_need_no_partitions() -> None:
    of_files = [replace(q, predicates=(q.of_partitions[0],), of_partitions=()) for q in MIXED[:12]]
    found = studied([*of_files, *MIXED[12:]])  # type: ignore[list-item]
    assert all(choice.partition_by is None for choice in found.choices)


def test_held_out_queries_decide() -> None:
    # Each of the queries has another shape, so that none can be held out.
    shapes = [Compare("item", "<", 5), Compare("item", ">", 990), Compare("item", "=", 7), EVERY_ROW]
    found = studied([through(n, shape) for n, shape in enumerate(shapes)])
    assert all(choice.partition_by is None for choice in found.choices)
    # The held-out queries are those for items, each of which reads more than without partitions.
    month_of_each, items = [through(0), *(item(n) for n in range(50))], range(3)
    assert all(choice.partition_by is None for choice in studied([*month_of_each, *map(item, items)]).choices)


@pytest.mark.parametrize(("width", "recommended"), [(8, False), (25, True)])
def test_partitions_have_files_of_a_sensible_size(width: int, recommended: bool) -> None:
    # Partitions of 192 and of 600 rows, where a file has 500.
    limits = [And((Compare("item", ">=", n), Compare("item", "<", n + width))) for n in range(0, 10 * width, width)]
    queries = [TableQuery(Query("", str(limit)), (EVERY_ROW,), (), (limit,)) for limit in limits]
    found = studied(queries, (PartitionField("item", f"truncate[{width}]"),))
    assert (found.best is not None) == recommended


def test_partitions_are_not_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partitioning, "MAX_PARTITIONS", MONTHS - 1)
    best = studied(MIXED).best
    assert best is not None
    assert best.partition_by == (PartitionField("sold", "year"),)


def test_a_query_opens_a_file_of_new_partitions_if_the_table_may_have_its_rows() -> None:
    rows = np.flatnonzero((DATA["item"].to_numpy() != 77) & (np.arange(ROWS) % 2 == 0))
    some = {name: values.take(pa.array(rows)) for name, values in DATA.items()}
    rewrite = whole_rewrite(BASE, STATE, STATE.columns, sample_of(some, FILE[rows], 7, ROWS))
    draws = draws_of(replace(rewrite, fields=(PartitionField("sold", "month"),)))
    queries = in_partitions([item(77), item(5000)], STATE)
    found = measure(draws, replace(BASE, columns=(ZorderColumn("item"),)), queries).costs.files
    assert found[0] >= 1
    assert found[1] == 0, "no present file has such an item"
    before = np.flatnonzero(DAY < 350)
    early = {name: values.take(pa.array(before)) for name, values in DATA.items()}
    rewrite = whole_rewrite(BASE, STATE, STATE.columns, sample_of(early, FILE[before], 7, ROWS))
    draws = draws_of(replace(rewrite, fields=(PartitionField("sold", "month"),)))
    found = measure(draws, replace(BASE, columns=(ZorderColumn("item"),)), in_partitions([through(20)], STATE))
    assert found.costs.files.tolist() == [1], "no sampled row is in this month"
    assert lowest(in_partitions([through(20)], STATE), draws[0]).files.tolist() == [1]


def test_an_unknown_size_in_partitions_is_that_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "size_ratios", lambda *_: lambda _layout: None)
    unknown = studied(MIXED).best
    without = lambda rewrite, _stored: lambda _layout: None if rewrite.fields else 0.5  # noqa: E731
    monkeypatch.setattr(search, "size_ratios", without)
    found = studied(MIXED).best
    assert found.partition_by == unknown.partition_by == (PartitionField("sold", "month"),)
    assert found.costs.bytes == pytest.approx(unknown.costs.bytes / 2)


def test_the_keys_of_types_and_formats() -> None:
    day, number, text = (Column("c", kind, True) for kind in (pa.date32(), pa.int64(), pa.string()))
    assert [str(k) for k in partition_keys(day, transforms=True)] == ["day(c)", "month(c)", "year(c)"]
    assert [str(k) for k in partition_keys(number, transforms=True)][:3] == ["c", "truncate(10, c)", "truncate(30, c)"]
    assert [str(k) for kind in (day, number) for k in partition_keys(kind, transforms=False)] == ["c", "c"]
    assert partition_keys(text, transforms=True) == ()


def test_a_condition_without_keys_skips_only_partitions_by_its_column() -> None:
    none = [TableQuery(Query("", f"{n}"), (EVERY_ROW,), (), (In("sold", ()),)) for n in range(4)]
    found = studied([*MIXED, *none])
    assert found.best is not None
    assert found.best.partition_by == (PartitionField("sold", "month"),)
    assert found.now.files[-4:].tolist() == [FILES] * 4
    assert found.best.costs.files[-4:].tolist() == [0] * 4
