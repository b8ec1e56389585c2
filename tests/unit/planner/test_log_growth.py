"""The growth of the metadata by statistics that a plan enables or makes longer."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from support.builders import make_bounds, make_file_table, make_layout, make_spec, make_state

from zlayout.planner.bounds import growth_notes, log_growth
from zlayout.planner.model import PropertyChange, PropertyReason
from zlayout.table.state import Column, TableState

SPEC = make_spec(make_layout("s"))
PREFIX = "delta.dataSkippingStringPrefixLength"
LIST = "delta.dataSkippingStatsColumns"


def state(*columns: Column, truncated: bool = True, files: int = 1000) -> TableState:
    bounds = make_bounds(["a" * 32] * files, ["b"] * files, pa.string())
    bounds = replace(bounds, truncated=np.full(files, truncated))
    return make_state(make_file_table([10] * files, bounds={"s": bounds}), columns=columns)


def text(name: str, *, stats: bool = True, length: int = 32) -> Column:
    longer = ((PREFIX, "256"),)
    enable = () if stats else ((LIST, f"`{name}`"), *longer)
    return Column(name, pa.string(), True, stats, enable, longer if stats else (), length)


def changed(name: str, value: str, reason: PropertyReason) -> PropertyChange:
    return PropertyChange(name, None, value, reason, "s")


LONGER = changed(PREFIX, "256", PropertyReason.BOUNDS_TRUNCATED)


def test_a_longer_prefix_is_one_of_every_text_column() -> None:
    growth = log_growth(
        SPEC, state(text("s"), text("t"), text("u", stats=False), Column("n", pa.int64(), True)), [LONGER]
    )
    assert (len(growth), sum(growth.values())) == (2, 2 * 2 * (256 - 32))
    (note,) = growth_notes(SPEC, state(text("s"), text("t")), [LONGER])
    assert note.code == "ZL432"
    assert note.message == (
        "statistics of 2 columns grow by at most 896 characters per file, 896,000 bytes of metadata for 1,000 files "
        "if the text is ASCII"
    )


def test_bounds_that_are_not_truncated_do_not_grow() -> None:
    assert list(growth_notes(SPEC, state(text("s"), truncated=False), [LONGER])) == []


def test_iceberg_lengthens_one_column() -> None:
    names = {c: f"write.metadata.metrics.column.{c}" for c in "st"}
    columns = [Column(c, pa.string(), True, True, (), ((names[c], "truncate(256)"),), 16) for c in "st"]
    change = changed(names["s"], "truncate(256)", PropertyReason.BOUNDS_TRUNCATED)
    growth = log_growth(SPEC, state(*columns), [change])
    assert (len(growth), sum(growth.values())) == (1, 2 * (256 - 16))


@pytest.mark.parametrize(("kind", "width"), [(pa.int64(), 20), (pa.date32(), 30), (pa.decimal128(38, 2), 40)])
def test_new_statistics_have_a_name_three_times_and_two_values(kind: pa.DataType, width: int) -> None:
    column = Column("s", kind, True, False, ((LIST, "`a`,`s`"),))
    change = changed(LIST, "`a`,`s`", PropertyReason.NO_STATISTICS)
    growth = log_growth(SPEC, state(column), [change])
    assert sum(growth.values()) == 3 * 1 + 2 * width + 22


def test_new_statistics_of_text_are_long_and_lengthen_those_of_other_columns() -> None:
    changes = [
        changed(LIST, "`t`,`s`", PropertyReason.NO_STATISTICS),
        changed(PREFIX, "256", PropertyReason.NO_STATISTICS),
    ]
    growth = log_growth(SPEC, state(text("s", stats=False), text("t")), changes)
    assert (len(growth), sum(growth.values())) == (2, 3 + 2 * 256 + 22 + 2 * (256 - 32))


def test_other_properties_change_no_statistics() -> None:
    assert log_growth(SPEC, state(text("s")), []) == {}
