"""Whether a spec fits the table that it names; what only the table's schema and partitioning can tell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from zlayout.errors import Diagnostic
from zlayout.message_text import quoted
from zlayout.predicate.model import columns
from zlayout.spec.model import LayoutSpec
from zlayout.spec.transforms import takes
from zlayout.spec.validation import suggestion
from zlayout.table.partition import PartitionField

if TYPE_CHECKING:
    from zlayout.table.state import Column, TableState


def check(spec: LayoutSpec, state: TableState) -> tuple[Diagnostic, ...]:
    """Errors ZL012, ZL033 to ZL036 and the note ZL405, at their places in the spec, in the order of its keys."""
    return (*_partition_columns(spec, state), *_zorder_columns(spec, state), *_where_columns(spec, state))


def _partition_columns(spec: LayoutSpec, state: TableState) -> Iterator[Diagnostic]:
    for index, field in enumerate(spec.partition_by or ()):
        mark, column = f"partition_by[{index}]", state.column(field.source)
        if column is None:
            yield _unknown(spec, state, field.source, "partition_by", mark)
        elif field not in state.partition_fields and not takes(field, column.type):
            name = field.transform.partition("[")[0]
            what = "no partition key" if name == "identity" else f"no column for {name}"
            yield Diagnostic(
                "ZL036",
                f"{quoted(field.source)} in partition_by is {what}: it is of {_type(column)}",
                hint="year, month, day take dates and timestamps, hour timestamps, truncate and bucket no fractions",
                location=spec.mark(mark),
            )


def _zorder_columns(spec: LayoutSpec, state: TableState) -> Iterator[Diagnostic]:
    fields = state.partition_fields if spec.partition_by is None else spec.partition_by
    keys = {f.source for f in fields if f.transform == "identity"}
    for index, name in enumerate(spec.column_names):
        mark = f"zorder.columns[{index}]"
        column = state.column(name)
        if column is None:
            yield _unknown(spec, state, name, "zorder.columns", mark)
        elif name in keys:
            yield Diagnostic(
                "ZL035",
                f"column {quoted(name)} in zorder.columns is a partition column, where it has one value in each file",
                hint="remove it from zorder.columns",
                location=spec.mark(mark),
            )
        elif not column.orderable:
            yield Diagnostic(
                "ZL034",
                f"expected columns with an order in zorder.columns, found {quoted(name)} of {_type(column)}",
                hint="use a column of numbers, text, dates, timestamps or booleans",
                location=spec.mark(mark),
            )
        elif lacks_bounds(column, state):
            yield Diagnostic(
                "ZL405",
                f"column {quoted(name)} has no min and max in the metadata, so that no query can skip files by it",
                severity="note",
                hint="zlayout apply turns them on"
                if column.enable_stats
                else f"the format keeps none for {column.type}; use another column",
                location=spec.mark(mark),
            )


def lacks_bounds(column: Column, state: TableState) -> bool:
    """Whether the metadata has no min and max of a column, nor one value of it for each file, as of a partition key."""
    return not column.stats and PartitionField(column.name) not in state.partition_fields


def _where_columns(spec: LayoutSpec, state: TableState) -> Iterator[Diagnostic]:
    if spec.where is None:
        return
    # Files of an older partition spec are still selected by its keys.
    fields = {*state.partition_fields, *(f for p in state.files.partitions for f in p.fields)}
    keys = sorted({f.source for f in fields if f.transform != "void"})
    for name in sorted(columns(spec.where)):
        if state.column(name) is None:
            yield _unknown(spec, state, name, "where", "where")
        elif name not in keys:
            known = ", ".join(map(quoted, keys)) or "none"
            yield Diagnostic(
                "ZL033",
                f"expected partition columns in where, found {quoted(name)}",
                hint=f"partition columns: {known}",
                location=spec.mark("where"),
            )


def _type(column: Column) -> str:
    """In words; Delta's nested and odd types are none of Arrow's here."""
    return "a type without an order" if str(column.type) == "null" else f"type {column.type}"


def _unknown(spec: LayoutSpec, state: TableState, name: str, key: str, mark: str) -> Diagnostic:
    known = [c.name for c in state.columns]
    hint = suggestion(name, known)
    return Diagnostic("ZL012", f"unknown column {quoted(name)} in {key}", hint=hint, location=spec.mark(mark))
