"""Replace the column names in layout specs and layout records by the present names of the table.

Spark ignores the letter case of names, and columns may have been renamed since files were laid out. Layout records
contain column ids, which renames do not change. Without them, a layout by a renamed column would look like another
layout. If two columns swapped their names, files that are laid out by the wrong column would look laid out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zlayout.predicate.model import columns as columns_of
from zlayout.predicate.model import renamed
from zlayout.predicate.parse import to_sql
from zlayout.spec.model import COLUMN_IDS, Layout, LayoutSpec, ZorderColumn, parsed_cuts

if TYPE_CHECKING:
    from zlayout.table.state import Column, LayoutRecord, TableState

_COLUMNS, _CUTS = "zorder.columns", "zorder.cuts"
_DROPPED = "(dropped)"


def in_case_of(spec: LayoutSpec, state: TableState) -> LayoutSpec:
    """Return the spec with column names in the letter case of the table.

    A name is replaced if the table has no column of this name, but exactly one whose name differs only in letter case.
    If two z-order columns or two partition keys of the spec would then be the same, the spec is returned unchanged.
    """
    present = _present_name([column.name for column in state.columns])
    keys = tuple(replace(column, name=present(column.name)) for column in spec.layout.columns)
    fields = spec.partition_by and tuple(replace(field, source=present(field.source)) for field in spec.partition_by)
    if len({key.name for key in keys}) < len(keys) or len(set(fields or ())) < len(fields or ()):
        return spec
    where = spec.where and renamed(spec.where, {name: present(name) for name in columns_of(spec.where)})
    cuts = tuple(replace(cut, column=present(cut.column)) for cut in spec.layout.cuts)
    layout = replace(spec.layout, columns=keys, cuts=cuts)
    return replace(spec, layout=layout, partition_by=fields, where=where)


def _present_name(names: Iterable[str]) -> Callable[[str], str]:
    exact = frozenset(names)
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
