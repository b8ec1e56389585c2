"""Any metadata of a table can be planned, saved, drawn and reported. The quality of the plans is not tested here."""

import math
from dataclasses import replace
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn, SearchStrategy
from unit.planner.plans import DELTA, LAYOUT, OLD, SPEC, TARGET, File, state

from zlayout.planner import document
from zlayout.planner.diff import decide
from zlayout.planner.work import PlanOptions
from zlayout.report.formats import REPORTERS
from zlayout.session.plan import as_plan
from zlayout.session.results import with_pictures
from zlayout.spec.model import LayoutSpec, Tolerance, ZorderColumn
from zlayout.table.state import Column, ColumnBounds, LayoutRecord, PartitionField, TableState

BACKENDS = (DELTA, replace(DELTA, format="iceberg", partition_evolution=True, native_by_rank=False))
VALUES: dict[pa.DataType, SearchStrategy[object]] = {
    pa.int64(): st.integers(0, 9) | st.integers(-(2**63), 2**63 - 1),
    pa.uint64(): st.integers(0, 2**64 - 1),
    pa.float64(): st.floats(width=64),
    pa.string(): st.text(max_size=3) | st.integers(0, 9).map(lambda n: f"https://example.org/{'x' * 40}{n}"),
    pa.decimal128(38, 2): st.decimals(Decimal(-(10**35)), Decimal(10**35), places=2),
    pa.date32(): st.dates(date(1900, 1, 1), date(2100, 1, 1)),
    pa.timestamp("us"): st.datetimes(datetime(1900, 1, 1), datetime(2100, 1, 1)),
    pa.bool_(): st.booleans(),
}
SHARES = st.sampled_from([0.0, 0.1, 1.0])


@st.composite
def states(draw: DrawFn, spec: LayoutSpec) -> TableState:
    """Files of up to three partitions; their numbers and bounds need not fit each other."""
    record = st.sampled_from([(-1, -1), (0, 0), (0, 0), (0, 1), (1, 0)])
    size = st.integers(0, 2 * TARGET) | st.integers(0, 2**45)
    files = [
        File(0, 0, region, layout, group, rows, deleted, size_)
        for region, (layout, group), rows, deleted, size_ in draw(
            st.lists(
                st.tuples(st.sampled_from(["", "e", "w"]), record, st.integers(0, 2**40), st.integers(0, 9), size),
                max_size=20,
            )
        )
    ]
    observed = state(*files, partitioned=draw(st.booleans()))
    kinds = [draw(st.sampled_from(list(VALUES))) for _ in spec.column_names]
    bounds = {name: draw(_bounds(kind, len(files))) for name, kind in zip(spec.column_names, kinds, strict=True)}
    columns = tuple(Column(name, kind, True) for name, kind in zip(spec.column_names, kinds, strict=True))
    layouts = (LayoutRecord(spec.layout.layout_id, spec.layout.settings()), OLD)
    table = replace(observed.files, bounds=bounds, layouts=layouts)
    return replace(observed, files=table, columns=(*columns, Column("region", pa.string(), True)))


@st.composite
def _bounds(draw: DrawFn, kind: pa.DataType, count: int) -> ColumnBounds:
    def each(values: SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=count, max_size=count))

    known = draw(st.sampled_from(["all", "some", "in order", "no value"]))
    end = {"some": st.none() | VALUES[kind], "no value": st.none()}.get(known, VALUES[kind])
    lower, upper = each(end), each(end)
    if known == "in order":
        lower, upper = list(map(min, lower, upper)), list(map(max, lower, upper))
    nulls = each(st.just(2**41) if known == "no value" else st.sampled_from([-1, 0, 5, 2**41]))
    cut = np.array(each(st.booleans()), bool) & pa.types.is_string(kind)
    return ColumnBounds(pa.array(lower, kind), pa.array(upper, kind), np.array(nulls, np.int64), cut)


@st.composite
def specs(draw: DrawFn) -> LayoutSpec:
    weights = st.sampled_from([0.1, 1.0, 7.0])
    columns = tuple(ZorderColumn(name, draw(weights)) for name in "abc"[: draw(st.integers(1, 3))])
    layout = replace(
        LAYOUT,
        columns=columns,
        curve=draw(st.sampled_from(["kd", "zorder", "hilbert", "linear"])),
        engine=draw(st.sampled_from(["zlayout", "zlayout", "native"])),
    )
    tolerance = Tolerance(draw(SHARES), draw(st.sampled_from([1.0, 1.5, 9.0])), draw(SHARES), draw(SHARES))
    return replace(
        SPEC,
        layout=layout,
        tolerance=tolerance,
        partition_by=draw(st.sampled_from([None, None, (), (PartitionField("region"),)])),
        max_group_size=draw(st.sampled_from([None, 3 * TARGET])),
    )


@settings(max_examples=50)
@given(st.data())
def test_any_state_is_planned_saved_drawn_and_reported(data: st.DataObject) -> None:
    plan_save_draw_and_report(data)


@pytest.mark.long
@settings(max_examples=1000)
@given(st.data())
def test_many_states_are_planned_saved_drawn_and_reported(data: st.DataObject) -> None:
    plan_save_draw_and_report(data)


def plan_save_draw_and_report(data: st.DataObject) -> None:
    spec = data.draw(specs())
    observed = data.draw(states(spec))
    budget = data.draw(st.sampled_from([None, None, 1, 5 * TARGET, 2**50]))
    options = PlanOptions(allow_full_rewrite=data.draw(st.booleans()), max_rewrite_bytes=budget)
    decision = decide(spec, observed, data.draw(st.sampled_from(BACKENDS)), (), options)
    paths = [path for group in decision.groups for path in group.files.path.to_pylist()]
    assert len(paths) == len(set(paths))
    assert set(paths) <= set(observed.files.path.to_pylist())
    for column in decision.plan.columns:
        assert 0 <= column.touched <= len(observed.files) + 1e-6
        assert column.floor is None or 0 <= column.floor <= column.touched + 1e-6
        assert column.predicted is None
        if column.low is not None and column.high is not None:
            assert 0 <= column.low <= column.high < math.inf
    planned = (decision,)
    plan = with_pictures(as_plan(planned), planned)
    assert document.from_json(document.to_json(plan), "plan.json") == plan
    data.draw(st.sampled_from(list(REPORTERS.values())))(plan)
