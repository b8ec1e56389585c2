"""What a layout spec means for its table: the present names of its columns, and checks against schema and partitioning.

Spark ignores the letter case of names, and columns may have been renamed since files were laid out. Layout records
contain column ids, which renames do not change. Without them, a layout by a renamed column would look like another
layout. If two columns swapped their names, files that are laid out by the wrong column would look laid out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zlayout.errors import Diagnostic
from zlayout.predicate.coercion import comparable
from zlayout.predicate.model import Compare, TextOnly, columns, leaves, literal, renamed
from zlayout.predicate.model import columns as columns_of
from zlayout.predicate.parse import to_sql
from zlayout.spec.check import column_hint
from zlayout.spec.model import COLUMN_IDS, Layout, LayoutSpec, ZorderColumn, parsed_cuts
from zlayout.table.partition import PartitionField, source_columns
from zlayout.text import quote_value

if TYPE_CHECKING:
    import pyarrow as pa

    from zlayout.table.state import Column, LayoutRecord, TableState

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
        before = [other.source for other in (spec.partition_by or ())[:index] if other.transform == field.transform]
        if repeated := _repeated(spec, state, field.source, before, key):
            yield repeated
        elif column is None:
            yield _unknown(spec, state, field.source, key)
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
        if repeated := _repeated(spec, state, name, spec.column_names[:index], key):
            yield repeated
        elif column is None:
            yield _unknown(spec, state, name, key)
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


def _repeated(spec: LayoutSpec, state: TableState, name: str, before: Sequence[str], key: str) -> Diagnostic | None:
    """Return the error for a name that means the same column of the table as one of the names before it."""
    has_name = state.column(name) is not None
    is_same = name in before if has_name else any(other.lower() == name.lower() for other in before)
    present = next((column.name for column in state.columns if column.name.lower() == name.lower()), None)
    if present is None or not is_same:
        return None
    present = name if has_name else present
    of = key.partition("[")[0]
    code, what = ("ZL023", "partition key") if of == "partition_by" else ("ZL016", "column")
    hint = f"keep one of the names that mean column {quote_value(present)} of the table"
    return _error(spec, key, code, f"duplicate {what} {quote_value(name)} in {of}", hint)


def _unknown(spec: LayoutSpec, state: TableState, name: str, key: str) -> Diagnostic:
    renamed = next((r.renamed[name] for r in state.files.layouts if name in r.renamed), None)
    known = [c.name for c in state.columns]
    hint = f"it was renamed to {quote_value(renamed)}" if renamed is not None else column_hint(name, known)
    return _error(spec, key, "ZL012", f"unknown column {quote_value(name)} in {key.partition('[')[0]}", hint)


# The present names of columns.


_COLUMNS, _CUTS = "zorder.columns", "zorder.cuts"
_DROPPED = "(dropped)"


def in_case_of(spec: LayoutSpec, state: TableState) -> LayoutSpec:
    """Return the spec with column names in the letter case of the table.

    A name is replaced if the table has no column of this name, but exactly one whose name differs only in letter case.
    A name is kept if a z-order column or a partition key before it is the same column, which `check` reports.
    """
    present = names_in_case_of(state)
    found: set[tuple[str, str]] = set()

    def once(name: str, transform: str) -> str:
        one = present(name), transform
        if one in found:
            return name
        found.add(one)
        return one[0]

    keys = tuple(replace(column, name=once(column.name, "")) for column in spec.layout.columns)
    fields = spec.partition_by and tuple(replace(f, source=once(f.source, f.transform)) for f in spec.partition_by)
    where = spec.where and renamed(spec.where, {name: present(name) for name in columns_of(spec.where)})
    cuts = tuple(replace(cut, column=present(cut.column)) for cut in spec.layout.cuts)
    layout = replace(spec.layout, columns=keys, cuts=cuts)
    return replace(spec, layout=layout, partition_by=fields, where=where)


def names_in_case_of(state: TableState) -> Callable[[str], str]:
    """Return a function that returns the name of a column in the letter case of the table, as `in_case_of` does."""
    exact = frozenset(column.name for column in state.columns)
    folded: dict[str, list[str]] = {}
    for name in sorted(exact):
        folded.setdefault(name.lower(), []).append(name)

    def present(name: str) -> str:
        found = [] if name in exact else folded.get(name.lower(), [])
        return found[0] if len(found) == 1 else name

    return present


def present_records(records: Iterable[LayoutRecord], columns: Sequence[Column]) -> tuple[LayoutRecord, ...]:
    """Return layout records with the present names of their columns.

    The layout id of a record with renamed columns is replaced by that of the same layout with the present names. A
    record without column ids is returned unchanged.

    Args:
        records: The layout records of a table.
        columns: The present columns of the table.
    """
    names = {column.id: column.name for column in columns if column.id}
    return tuple(_present(record, names) for record in records)


def _present(record: LayoutRecord, names: Mapping[str, str]) -> LayoutRecord:
    ids, before = record.settings.get(COLUMN_IDS), record.settings.get(_COLUMNS)
    if not names or not isinstance(ids, list) or not isinstance(before, list) or len(ids) != len(before):
        return record
    known = [_name(column) for column in before]
    now = [names.get(str(one), f"{name} {_DROPPED}") for one, name in zip(ids, known, strict=True)]
    if now == known:
        return record
    settings = {**record.settings, _COLUMNS: [_renamed(c, name) for c, name in zip(before, now, strict=True)]}
    if _CUTS in settings:
        settings[_CUTS] = _renamed_cuts(settings[_CUTS], dict(zip(known, now, strict=True)))
    old, new = _layout(record.settings), _layout(settings)
    if old is None or new is None or old.layout_id != record.layout_id:
        # The record was written by another version of the algorithm, and is outdated with any names.
        return replace(record, layout_id=f"{record.layout_id} renamed", settings=settings)
    changed = {a: b for a, b, one in zip(known, now, ids, strict=True) if a != b and one in names}
    return replace(record, layout_id=new.layout_id, settings=settings, renamed=changed)


def _name(column: Any) -> str:
    return str(column.get("name")) if isinstance(column, dict) else str(column)


def _renamed(column: Any, name: str) -> Any:
    return {**column, "name": name} if isinstance(column, dict) else name


def _renamed_cuts(recorded: Any, names: Mapping[str, str]) -> Any:
    cuts = parsed_cuts(recorded)
    if cuts is None or any(cut.column not in names for cut in cuts):
        return recorded
    return [to_sql(replace(cut, column=names[cut.column])) for cut in cuts]


def _layout(settings: Mapping[str, Any]) -> Layout | None:
    try:
        columns = tuple(
            ZorderColumn(_name(c), c.get("weight", 1.0) if isinstance(c, dict) else 1.0) for c in settings[_COLUMNS]
        )
        return Layout(
            columns=columns,
            curve=settings["zorder.curve"],
            range_ids=settings.get("zorder.range_ids", 0),
            noise=settings["zorder.noise"],
            target_size=settings["files.target_size"],
            sort_within=settings["files.sort_within"],
            engine=settings["engine"],
            cuts=parsed_cuts(settings.get(_CUTS, [])) or (),
        )
    except KeyError:
        return None
