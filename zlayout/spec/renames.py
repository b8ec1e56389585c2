"""Writes layout specs and layout records with the present column names of their table.

Spark resolves names in any letter case, and columns may have been renamed since files were laid out. A renamed column
keeps its id: on Iceberg the field id, on Delta with column mapping the physical name. Layout records have these ids.
Without them, a renamed column would look like another layout, and two columns that swapped their names would hide that
files are laid out by the wrong one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from zlayout.predicate.model import columns as columns_of
from zlayout.predicate.model import renamed
from zlayout.predicate.parse import to_sql
from zlayout.spec.layout import COLUMN_IDS, Layout, ZorderColumn, parsed_cuts
from zlayout.spec.model import LayoutSpec

if TYPE_CHECKING:
    from zlayout.table.state import Column, LayoutRecord, TableState

_COLUMNS, _CUTS = "zorder.columns", "zorder.cuts"
_DROPPED = "(dropped)"


def in_case_of(spec: LayoutSpec, state: TableState) -> LayoutSpec:
    """Return the spec with each column name as the table spells it.

    A name that the table has is kept. Another name is replaced by the only one of the table that differs in letter case
    alone. The spec is returned as it is if two of its z-order columns would be the same column.
    """
    present = _present_name([column.name for column in state.columns])
    keys = tuple(replace(column, name=present(column.name)) for column in spec.layout.columns)
    if len({key.name for key in keys}) < len(keys):
        return spec
    fields = spec.partition_by and tuple(replace(field, source=present(field.source)) for field in spec.partition_by)
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
    """Return the layout records in terms of the present columns of a table.

    The layout id of a record with renamed columns is that of the same layout under the present names. A record without
    column ids is returned as it is.
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
        # of another version of the algorithm: outdated under any name
        return replace(record, layout_id=f"{record.layout_id} renamed", settings=settings)
    changed = {a: b for a, b, one in zip(known, now, ids, strict=True) if a != b and one in names}
    return replace(record, layout_id=new.layout_id, settings=settings, renamed=changed)


def _name(column: Any) -> str:
    return str(column.get("name")) if isinstance(column, dict) else str(column)


def _renamed(column: Any, name: str) -> Any:
    return {**column, "name": name} if isinstance(column, dict) else name


def _renamed_cuts(written: Any, names: Mapping[str, str]) -> Any:
    cuts = parsed_cuts(written)
    if cuts is None or any(cut.column not in names for cut in cuts):
        return written
    return [to_sql(replace(cut, column=names[cut.column])) for cut in cuts]


def _layout(settings: Mapping[str, Any]) -> Layout | None:
    """Return the layout with these settings, None if they are not those of a layout."""
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
