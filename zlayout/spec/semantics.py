"""Checks of a layout spec that need the schema and the partitioning of its table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from zlayout.errors import Diagnostic
from zlayout.predicate.coercion import comparable
from zlayout.predicate.model import Compare, TextOnly, columns, leaves, literal
from zlayout.spec.check import column_hint
from zlayout.spec.model import LayoutSpec
from zlayout.table.partition import PartitionField, source_columns
from zlayout.text import quote_value

if TYPE_CHECKING:
    import pyarrow as pa

    from zlayout.table.state import Column, TableState

_EXACT, _TEXT = ("int32", "int64", "decimal"), ("string", "binary")
_WITHOUT_ORDER = ("list", "struct", "map", "null")  # types such as variant are represented as Arrow's null type
# The types that each transform can be applied to ("Partition Transforms" of the Iceberg table specification).
_TYPES = {
    "year": ("date", "timestamp"),
    "month": ("date", "timestamp"),
    "day": ("date", "timestamp"),
    "hour": ("timestamp",),
    "truncate": (*_EXACT, *_TEXT),
    "bucket": (*_EXACT, *_TEXT, "date", "time"),
}


def check(spec: LayoutSpec, state: TableState) -> tuple[Diagnostic, ...]:
    """Check a layout spec against its table.

    Returns:
        The errors ZL012, ZL016, ZL023, ZL033 to ZL036 and ZL057, and the note ZL405.
    """
    of_cuts = _cut_types(spec, state)
    return (*_partition_columns(spec, state), *_zorder_columns(spec, state), *of_cuts, *_where_columns(spec, state))


def _error(spec: LayoutSpec, key: str, code: str, message: str, hint: str) -> Diagnostic:
    return Diagnostic(code, message, hint=hint, location=spec.location_of(key))


def _partition_columns(spec: LayoutSpec, state: TableState) -> Iterator[Diagnostic]:
    for index, field in enumerate(spec.partition_by or ()):
        key, column = f"partition_by[{index}]", state.column(field.source)
        if column is None:
            others = [other.source for other in spec.partition_by or () if other.transform == field.transform]
            yield _repeated(spec, state, field.source, others, key) or _unknown(spec, state, field.source, key)
        elif field not in state.partition_fields and not _applies_to(field, column.type):
            name, found = field.transform.partition("[")[0], f"column {quote_value(field.source)} ({_type(column)})"
            hint = (
                "use year, month and day on dates and timestamps, hour on timestamps, truncate and bucket on "
                "strings, binary, integers and decimals"
            )
            yield _error(spec, key, "ZL036", f"cannot apply transform {name} to {found} in partition_by", hint)


def _applies_to(field: PartitionField, type: pa.DataType) -> bool:
    transform, name = field.transform.partition("[")[0], str(type)
    return not name.startswith(_WITHOUT_ORDER) if transform == "identity" else name.startswith(_TYPES[transform])


def _zorder_columns(spec: LayoutSpec, state: TableState) -> Iterator[Diagnostic]:
    fields = state.partition_fields if spec.partition_by is None else spec.partition_by
    keys = {f.source for f in fields if f.transform == "identity"}
    for index, name in enumerate(spec.column_names):
        key, column = f"zorder.columns[{index}]", state.column(name)
        if column is None:
            yield _repeated(spec, state, name, spec.column_names, key) or _unknown(spec, state, name, key)
        elif name in keys:
            found = f"column {quote_value(name)} in zorder.columns is a partition column"
            message = f"{found}, and has one value in each file"
            yield _error(spec, key, "ZL035", message, "remove it from zorder.columns")
        elif not column.orderable:
            message = f"expected an orderable column in zorder.columns, found {quote_value(name)} ({_type(column)})"
            hint = "use a column of numbers, strings, dates, timestamps or booleans"
            yield _error(spec, key, "ZL034", message, hint)
        elif lacks_bounds(column, state):
            message = f"column {quote_value(name)} has no min and max in the metadata: queries cannot skip files by it"
            hint = (
                "run zlayout apply, which enables them"
                if column.enable_stats
                else f"use another column: the format stores none for {column.type}"
            )
            yield Diagnostic("ZL405", message, "note", hint, spec.location_of(key))


def lacks_bounds(column: Column, state: TableState) -> bool:
    """Return whether the metadata of files has no bounds of a column, and no partition value that replaces them."""
    return not column.stats and PartitionField(column.name) not in state.partition_fields


def _where_columns(spec: LayoutSpec, state: TableState) -> Iterator[Diagnostic]:
    if spec.where is None:
        return
    # `where` selects files of an older partition spec by the fields of that partition spec.
    fields = {*state.partition_fields, *(f for p in state.files.partitions for f in p.fields)}
    keys = sorted({*source_columns(fields)})
    for name in sorted(columns(spec.where)):
        if state.column(name) is None:
            yield _unknown(spec, state, name, "where")
        elif name not in keys:
            message = f"expected partition columns in where, found {quote_value(name)}"
            hint = f"partition columns: {', '.join(map(quote_value, keys))}"
            hint = hint if keys else "remove where, because the table is not partitioned"
            yield _error(spec, "where", "ZL033", message, hint)
    for leaf in leaves(spec.where):
        column = state.column(leaf.column)
        is_like = isinstance(leaf, Compare) and isinstance(leaf.value, TextOnly)
        if is_like and column is not None and str(column.type) not in ("string", "large_string"):
            found = f"{quote_value(leaf.column)} ({_type(column)})"
            message = f"expected a string column for LIKE in where, found {found}"
            yield _error(spec, "where", "ZL033", message, "compare the column with a literal of its type")
            break


def _cut_types(spec: LayoutSpec, state: TableState) -> Iterator[Diagnostic]:
    for index, cut in enumerate(spec.layout.cuts):
        column = state.column(cut.column)
        if column is not None and column.orderable and not comparable(cut.value, column.type):
            found = f"column {quote_value(cut.column)} (type {column.type}) with {literal(cut.value)}"
            hint = "write a literal of the type of the column"
            yield _error(spec, f"zorder.cuts[{index}]", "ZL057", f"cannot compare {found} in zorder.cuts", hint)


def _type(column: Column) -> str:
    return "a type without an order" if str(column.type) == "null" else f"type {column.type}"


def _repeated(spec: LayoutSpec, state: TableState, name: str, names: Iterable[str], key: str) -> Diagnostic | None:
    """Return the error for a name that the table has in another letter case, as another one of `names` also does."""
    is_same = any(other != name and other.lower() == name.lower() for other in names)
    present = next((column.name for column in state.columns if column.name.lower() == name.lower()), None)
    if present is None or not is_same:
        return None
    of = key.partition("[")[0]
    code, what = ("ZL023", "partition key") if of == "partition_by" else ("ZL016", "column")
    hint = f"keep one of the names that mean column {quote_value(present)} of the table"
    return _error(spec, key, code, f"duplicate {what} {quote_value(name)} in {of}", hint)


def _unknown(spec: LayoutSpec, state: TableState, name: str, key: str) -> Diagnostic:
    renamed = next((r.renamed[name] for r in state.files.layouts if name in r.renamed), None)
    known = [c.name for c in state.columns]
    hint = f"it was renamed to {quote_value(renamed)}" if renamed is not None else column_hint(name, known)
    return _error(spec, key, "ZL012", f"unknown column {quote_value(name)} in {key.partition('[')[0]}", hint)
