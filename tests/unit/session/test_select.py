"""Selecting layouts: what a name that matches nothing is answered with."""

import pytest
from support.builders import make_layout, make_spec

from zlayout.errors import SpecError
from zlayout.session.project import MAX_NAMES_SHOWN, select_layouts


def test_the_hint_for_an_unknown_name_lists_a_few_tables_and_counts_the_others() -> None:
    specs = [make_spec(make_layout("a"), f"lake.db.t{number:04}") for number in range(1200)]
    with pytest.raises(SpecError) as error:
        select_layouts(specs, "nothere", ())
    (diagnostic,) = error.value.diagnostics
    shown = ", ".join(str(spec.table) for spec in specs[:MAX_NAMES_SHOWN])
    assert diagnostic.hint == f"tables with a layout: {shown} and 1,190 more"
    with pytest.raises(SpecError) as error:
        select_layouts(specs[:MAX_NAMES_SHOWN], "nothere", ())
    assert error.value.diagnostics[0].hint.endswith("lake.db.t0009")


def test_the_hint_for_a_name_without_its_catalog_is_the_whole_name() -> None:
    specs = [make_spec(make_layout("a"), table) for table in ("lake.db.orders_2026", "ice.db.orders")]
    with pytest.raises(SpecError) as error:
        select_layouts(specs, "orders", ())
    assert error.value.diagnostics[0].hint == "did you mean ice.db.orders?"
