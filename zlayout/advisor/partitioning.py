"""Choose a partitioning for the conditions through joins by which an engine skips only whole partitions.

Open Spark compares the keys of a joined table with partition values while a query runs, and not with the bounds of
files. Other conditions skip files by their bounds in any layout, so that partitions gain nothing for them. A few
partitionings are simulated, each with the z-order columns of the best layout without partitions, and the best one also
in the order of its key alone. Queries that are held out from the choice decide whether it is recommended.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pyarrow.types as pt

from zlayout.advisor.costs import measure
from zlayout.advisor.cuts import Checked, split
from zlayout.advisor.model import Choice, TableQuery
from zlayout.planner.partitions import SMALL_BELOW
from zlayout.planner.sampled import MAX_SMALL_SHARE
from zlayout.planner.simulation import Drawn, Rewrite, draws_of
from zlayout.report.words import share
from zlayout.spec.layouts import DEFAULT_CURVE
from zlayout.spec.model import Layout, ZorderColumn
from zlayout.table.partition import PartitionField
from zlayout.table.partition_values import transformed
from zlayout.table.state import Column
from zlayout.text import plural

MAX_SOURCES = 3
MAX_PARTITIONS = 200
# Widths of truncate for integers: keys of days that are numbered, or written as 20011231.
WIDTHS = (10, 30, 100, 365, 1000, 10_000)


def partition_keys(column: Column, *, transforms: bool) -> tuple[PartitionField, ...]:
    """Return the partition fields to try for a column, the finest first; none for types that have none.

    Args:
        column: The column.
        transforms: Whether the format has transforms besides identity.
    """
    names: tuple[str, ...] = ()
    if pt.is_date(column.type):
        names = ("day", "month", "year") if transforms else ("identity",)
    elif pt.is_signed_integer(column.type):
        names = ("identity", *(f"truncate[{width}]" for width in WIDTHS if transforms))
    return tuple(PartitionField(column.name, name) for name in names)


def note_on_partitions(fields: Sequence[PartitionField], checked: Checked) -> str:
    """Return the result of the check of recommended partitions in one sentence."""
    names = ", ".join(map(str, fields))
    return (
        f"Partitions by {names}: {plural(checked.queries, 'query')} that they were not chosen from read "
        f"{share(checked.share)} of the bytes that they read in the best layout without partitions. "
        "By the keys of joined tables, Spark skips partitions and no files."
    )


def search_partitions(
    fields: Sequence[PartitionField],
    layouts: Sequence[Layout],
    rewrite: Rewrite,
    queries: Sequence[TableQuery],
    with_few_rows: Callable[[Rewrite], Drawn],
    in_new_size: Callable[[Choice], Choice],
    deadline: float,
) -> tuple[Choice, Checked] | None:
    """Choose a partitioning by a part of the queries, and check it by the held-out queries.

    Args:
        fields: The partition fields to try, one at a time.
        layouts: The best layout without partitions, then others whose z-order columns may be used.
        rewrite: The rewrite of the whole table, which has no partitions.
        queries: The queries on the table.
        with_few_rows: Draws rows of a rewrite for the choice.
        in_new_size: Returns a choice with the estimated size of its files.
        deadline: The time on the monotonic clock at which the search ends.

    Returns:
        The best partitioning with its costs for all queries, and the check; None if no partitioning has files of a
        sensible size, if no query can be held out, or if the deadline passed.
    """
    chosen_from, held_out = split(queries)
    if not held_out or not chosen_from:
        return None
    tried: list[tuple[float, int, PartitionField, Layout]] = []
    for number, field in enumerate(fields):
        if time.monotonic() > deadline:
            return None
        layout = next((within for start in layouts if (within := _within(start, field)) is not None), None)
        values = transformed(rewrite.sample.keys[field.source], field.transform)
        if layout is None or not 2 <= len(values.unique()) <= MAX_PARTITIONS:
            continue
        few = with_few_rows(replace(rewrite, fields=(field,)))
        if not _are_mostly_small(few):
            cost = measure([few], layout, chosen_from, with_touched=False).costs.mean_bytes
            tried.append((cost, number, field, layout))
    if not tried:
        return None
    _, _, field, layout = min(tried, key=lambda one: one[:2])
    draws = draws_of(replace(rewrite, fields=(field,)))

    def measured(layout: Layout, asked: Sequence[TableQuery], *, with_touched: bool = False) -> Choice:
        return replace(measure(draws, layout, asked, with_touched=with_touched), partition_by=(field,))

    if field.transform != "identity" and field.source in rewrite.names:
        # Where hardly any file of a partition can be skipped, small files are best, and the key often makes them.
        by_key = replace(layout, columns=(ZorderColumn(field.source),), curve=DEFAULT_CURVE["zlayout"], cuts=())
        layout = min((layout, by_key), key=lambda one: in_new_size(measured(one, chosen_from)).costs.mean_bytes)
    choice = measured(layout, queries, with_touched=True)
    before = in_new_size(measure(draws_of(rewrite), layouts[0], held_out, with_touched=False))
    after = in_new_size(measured(layout, held_out))
    bytes_before = before.costs.mean_bytes
    return choice, Checked(layout, len(held_out), after.costs.mean_bytes / bytes_before if bytes_before else 1.0)


def _within(layout: Layout, field: PartitionField) -> Layout | None:
    """Return the layout for partitions by a field; None if no z-order column is left."""
    if field.transform != "identity":
        return layout
    kept = tuple(c for c in layout.columns if c.name != field.source)
    cuts = tuple(cut for cut in layout.cuts if cut.column != field.source)
    if not kept or (layout.cuts and not cuts):
        return None
    return replace(layout, columns=kept, cuts=cuts)


def _are_mostly_small(drawn: Drawn) -> bool:
    """Return whether most new files would be small, compared with an average file without partitions."""
    rewrite = drawn.rewrite
    whole = float(rewrite.of_groups(rewrite.files.live_bytes).sum()) / max(int(rewrite.targets.sum()), 1)
    is_small = drawn.size / np.maximum(drawn.targets, 1) < SMALL_BELOW * whole
    return int(drawn.targets[is_small].sum()) > MAX_SMALL_SHARE * int(drawn.targets.sum())
