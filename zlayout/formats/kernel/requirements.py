"""Checks before any write that the table is the planned one, that it may be changed, and that no file has changed.

After a command of the format, which selects the files itself, `require_only_planned` checks what the command replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zlayout.errors import CommitConflict, Diagnostic, EngineError, Refused
from zlayout.formats.base import Group, PlannedTable
from zlayout.planner.model import is_at
from zlayout.table import outside
from zlayout.table.state import FileTable, Partition, TableState


def require_allowed(state: TableState, changes: Iterable[Diagnostic]) -> None:
    """Check that zlayout may rewrite the table.

    Args:
        state: The table.
        changes: Further reasons, which concern the planned change, for example of the partitioning.

    Raises:
        Refused: With all reasons against the rewrite.
    """
    if refusals := (*state.refusals, *changes):
        raise Refused(*refusals)


def require_own_files(state: TableState) -> None:
    """Check that all files of a table are where its catalog permits them, before rows are read.

    Raises:
        Refused: ZL242.
    """
    if refusals := [refusal for refusal in state.refusals if refusal.code == outside.CODE]:
        raise Refused(*refusals)


def require_no_settings(work: PlannedTable) -> None:
    """Check that work on a branch changes neither properties nor partitioning, which all branches share.

    Raises:
        Refused: ZL239.
    """
    if work.table.branch and (work.properties or work.partition_by is not None):
        raise Refused.of("ZL239", f"{work.table}: a plan for a branch changes settings of the table", hint="plan again")


def require_table(work: PlannedTable, table_id: str, planned: str | None) -> None:
    """Check that the table that now has the name is the planned one.

    Args:
        work: The planned table.
        table_id: The id of the table.
        planned: The id of the planned table; None to accept any table.

    Raises:
        CommitConflict: ZL320, if the ids differ.
    """
    if planned not in (None, table_id):
        raise replaced(work, f"the table {planned}", table_id)


def require_location(work: PlannedTable, location: str) -> None:
    """Check that the table is at the planned location. location: what the catalog now stores for its name.

    Raises:
        CommitConflict: ZL320, if the plan requires another location.
    """
    planned = work.plan.storage_location
    if not is_at(location, planned):
        raise replaced(work, f"the table at {planned}", location)


def replaced(work: PlannedTable, expected: str, found: str) -> CommitConflict:
    """Return ZL320 for a table that replaced the planned one. expected, found: both tables, for the message."""
    message = f"{work.table}: expected {expected}, found {found}"
    return CommitConflict.of("ZL320", message, hint="the table was replaced; plan again")


def changed_files(table: object, count: int | str, of: int) -> CommitConflict:
    """Return ZL320 for pinned files that another commit changed or removed.

    Args:
        table: The table, for the message.
        count: The number of these files, or a word such as "some".
        of: The number of all pinned files.
    """
    message = f"{table} changed since the plan: {count} of {of} planned files were removed or changed"
    return CommitConflict.of("ZL320", message, hint="plan and apply again; nothing of these groups was committed")


class Replaced(NamedTuple):
    """What one commit of engine native replaced.

    Attributes:
        version: The version that the commit made.
        before: The version directly before it.
        paths: string[files], the paths of the files that it removed.
    """

    version: int
    before: int | None
    paths: pa.Array


def require_only_planned(
    work: PlannedTable,
    commits: Iterable[Replaced],
    planned: Callable[[], FileTable],
    files_at: Callable[[int | None], FileTable],
    selected: Callable[[Sequence[Partition]], Iterable[int]],
) -> None:
    """Check that commits of engine native replaced planned files only.

    The formats' commands rewrite whole partitions. Therefore files are accepted that other writers have added to the
    planned partitions since the plan, or to the table if the work covers it.

    Args:
        work: The planned table.
        commits: The commits.
        planned: Reads the live files at the version of the plan. It is called only if other files were replaced.
        files_at: Reads the live files at a version. It is called only if other files were added since the plan.
        selected: Returns the indexes of the partitions that the command was to rewrite.

    Raises:
        EngineError: ZL340, if they replaced other files.
    """
    found: dict[int, int] = {}
    for version, before, paths in commits:
        others = paths.filter(pc.invert(pc.is_in(paths, value_set=paths_of(work.groups))))
        if not len(others):
            continue
        known = pc.is_in(others, value_set=planned().path.cast(pa.string()))
        outside, new = pc.sum(known).as_py() or 0, others.filter(pc.invert(known))
        if len(new) and not work.covers_table:
            files = files_at(before)
            rows = pc.index_in(new, value_set=files.path.cast(pa.string()))
            owners = files.partition[rows.drop_null().to_numpy()]
            outside += rows.null_count + int((~np.isin(owners, list(selected(files.partitions)))).sum())
        if outside:
            found[version] = outside
    if found:
        raise EngineError.of(
            "ZL340",
            f"{work.table}: version {', '.join(map(str, found))}, committed by engine native, also replaced "
            f"{sum(found.values())} files that are not part of the plan",
            hint="the rows are the same; compare the version with the one before it, restore that one if these files "
            "must not change, and report the error",
        )


def partitions_of(groups: Iterable[Group]) -> list[Partition]:
    """Return the distinct partitions of the files of the groups."""
    found = (g.files.partitions[at] for g in groups for at in np.unique(g.files.partition).tolist())
    return list(dict.fromkeys(found))


def paths_of(groups: Iterable[Group]) -> pa.Array:
    """Return the paths of the files of the groups, in their order: string[files]."""
    return _paths(group.files for group in groups)


def planned_paths(work: PlannedTable) -> pa.Array:
    """Return the paths of the files of all groups of the plan, also if the work is only a part of it: string[files].

    What a check refuses in any part is then refused before the first part is written.
    """
    return paths_of(work.pinned.values())


def _paths(tables: Iterable[FileTable]) -> pa.Array:
    return pa.concat_arrays([pa.array([], pa.string()), *(files.path.cast(pa.string()) for files in tables)])


def split_groups(groups: Sequence[Group], unchanged: NDArray[np.bool_]) -> tuple[list[Group], list[tuple[Group, int]]]:
    """Separate the groups whose files are all unchanged from the other groups.

    Args:
        groups: The planned groups.
        unchanged: bool[files], whether each file is live and unchanged since the plan, for all files of the groups in
            their order.

    Returns:
        The groups whose files are all unchanged, and the other groups with the number of their changed files.
    """
    if not groups:
        return [], []
    changed = [int((~part).sum()) for part in np.split(unchanged, np.cumsum([len(g.files) for g in groups])[:-1])]
    pairs = list(zip(groups, changed, strict=True))
    return [group for group, count in pairs if not count], [(group, count) for group, count in pairs if count]
