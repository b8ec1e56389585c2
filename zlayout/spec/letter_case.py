"""Write the column names of a layout spec in the letter case of the table, as Spark resolves names in any case."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from zlayout.predicate.model import columns, renamed
from zlayout.spec.model import LayoutSpec

if TYPE_CHECKING:
    from zlayout.table.state import TableState


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
    where = spec.where and renamed(spec.where, {name: present(name) for name in columns(spec.where)})
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
