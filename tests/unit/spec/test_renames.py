"""Layout records of columns that were renamed since: a rename is no drift, a swap of names is."""

from dataclasses import replace
from datetime import date

import pyarrow as pa
import pytest
from support.builders import make_bounds, make_file_table, make_layout, make_spec, make_state

from zlayout.planner.diff import decide
from zlayout.planner.model import TablePlan
from zlayout.planner.work import Capabilities
from zlayout.predicate.model import Compare
from zlayout.session.import_ import recorded_settings
from zlayout.spec.model import Layout, ZorderColumn
from zlayout.spec.semantics import check, present_records
from zlayout.table.state import Column, LayoutRecord, TableState

KIND = pa.int64()
ICEBERG = Capabilities("iceberg", partition_evolution=True, native_by_rank=False)


def columns(**names: str) -> tuple[Column, ...]:
    """The present columns: their id by name."""
    return tuple(Column(name, KIND, True, id=known) for name, known in names.items())


def record(layout: Layout, *ids: str) -> LayoutRecord:
    return LayoutRecord(layout.layout_id, layout.identified(ids).recorded_settings())


def table(stored: LayoutRecord, *known: Column) -> TableState:
    """Two files of one rewrite, out of order, so that only the record says that they are laid out."""
    bounds = {c.name: make_bounds([0, 0], [9, 9], KIND) for c in known}
    files = make_file_table([10, 10], layout=0, group=0, layouts=present_records([stored], known), bounds=bounds)
    return make_state(files, columns=tuple(known))


def plan(layout: Layout, observed: TableState) -> TablePlan:
    return decide(make_spec(layout), observed, ICEBERG).plan


def test_cuts_follow_a_renamed_column() -> None:
    old, new = (
        make_layout(name, "b", curve="workload", cuts=(Compare(name, "<=", "x y"), Compare("b", "<", date(2026, 1, 1))))
        for name in ("a", "customer id")
    )
    observed = table(record(old, "1", "2"), *columns(**{"customer id": "1", "b": "2"}))
    (found,) = observed.files.layouts
    assert (found.layout_id, found.renamed) == (new.layout_id, {"a": "customer id"})
    assert found.settings["zorder.cuts"] == ["`customer id` <= 'x y'", "`b` < DATE '2026-01-01'"]


@pytest.mark.parametrize("curve", ["kd", "zorder", "hilbert", "linear"])
def test_a_rename_is_neither_a_rewrite_nor_drift(curve: str) -> None:
    old, new = (make_layout(ZorderColumn(name, 3.0), "b", curve=curve) for name in ("a", "customer"))
    observed = table(record(old, "1", "2"), *columns(customer="1", b="2"))
    (found,) = observed.files.layouts
    assert (found.layout_id, found.renamed) == (new.layout_id, {"a": "customer"})
    assert (plan(new, observed).status, plan(new, observed).drift) == ("unchanged", ())


def test_a_swap_of_two_names_is_drift() -> None:
    layout = make_layout("a")
    observed = table(record(layout, "1"), *columns(a="2", b="1"))
    found = plan(layout, observed)
    assert found.status == "changes"
    assert [(d.key, d.before, d.after) for d in found.drift] == [("zorder.columns", ["b"], ["a"])]
    assert plan(make_layout("b"), observed).status == "unchanged"


def test_a_column_that_was_dropped_and_added_again_is_another_one() -> None:
    layout = make_layout("a", "b")
    observed = table(record(layout, "1", "2"), *columns(a="3", b="2"))
    assert plan(layout, observed).status == "changes"
    assert [d.before for d in plan(layout, observed).drift] == [["a (dropped)", "b"]]
    assert recorded_settings(observed) is None


def test_a_record_without_ids_is_by_name() -> None:
    layout = make_layout("a")
    plain = LayoutRecord(layout.layout_id, layout.settings())
    assert present_records([plain], columns(a="2", b="1")) == (plain,)
    assert "column_ids" not in layout.recorded_settings()
    assert present_records([record(layout, "1")], columns(a="")) == (record(layout, "1"),)


def test_column_ids_are_no_part_of_the_layout_id() -> None:
    layout = make_layout("a", "b")
    known = layout.identified(["7", "8"])
    assert (known.layout_id, known.settings(), known) == (layout.layout_id, layout.settings(), layout)
    assert known.recorded_settings() == {**layout.settings(), "column_ids": ["7", "8"]}


def test_a_record_of_another_version_of_the_algorithm_stays_outdated() -> None:
    layout = make_layout("a")
    other = replace(record(layout, "1"), layout_id="0123456789abcdef")
    (found,) = present_records([other], columns(b="1"))
    assert (found.settings["zorder.columns"], found.layout_id) == (["b"], "0123456789abcdef renamed")
    assert (
        present_records([replace(other, settings={"column_ids": ["1"]})], columns(b="1"))[0].layout_id
        == other.layout_id
    )
    partly = {"column_ids": ["1"], "zorder.columns": ["a"]}
    assert present_records([replace(other, settings=partly)], columns(b="1"))[0].settings["zorder.columns"] == ["b"]


def test_import_finds_the_present_names_and_a_layout_under_the_old_ones_is_told() -> None:
    layout = make_layout("a", ZorderColumn("b", 2.0))
    observed = table(record(layout, "1", "2"), *columns(customer="1", b="2"))
    settings = recorded_settings(observed)
    assert settings["zorder.columns"] == ["customer", {"name": "b", "weight": 2.0}]
    (error,) = check(make_spec(layout), observed)
    assert (error.code, error.hint) == ("ZL012", "it was renamed to 'customer'")
