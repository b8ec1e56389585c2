"""Commits rewritten groups: all in one commit if nothing conflicts, in several commits after a conflict."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from zlayout.errors import CommitConflict
from zlayout.formats.base import Commit, Group, GroupFailed
from zlayout.table.state import ColumnBounds, FileTable, Partition


class BusyTable(CommitConflict):
    """A conflict with commits that change none of the files: a smaller commit would lose the same race."""


@dataclass(frozen=True, slots=True)
class NewFile:
    """A new data file that is not committed yet.

    Attributes:
        handle: The format's own object for the file (py4j).
        path: The path in the form that the format uses.
        bytes: The size on storage.
        rows: The number of rows.
    """

    handle: Any
    path: str
    bytes: int
    rows: int


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A group whose new files have been written and have passed the gate.

    Attributes:
        group: The group.
        added: The new files.
        removed: The format's own objects for the old files (py4j).
        written: The new files with the bounds of the z-order columns, for metrics; None if they are unknown.
    """

    group: Group
    added: tuple[NewFile, ...]
    removed: tuple[Any, ...] = ()
    written: FileTable | None = None


def commit_apart(
    rewritten: Sequence[Rewritten], commit: Callable[[Sequence[Rewritten]], Commit]
) -> Iterator[Commit | GroupFailed]:
    """Commit all groups in one commit. After a conflict, split them into halves and commit each half in the same way.

    If k of n groups are in conflict, about k log2 n commits are tried. No set of groups is tried twice, so a commit
    never overrides the change that it is in conflict with.

    Args:
        rewritten: At least one group.
        commit: Makes one commit for some of the groups. Raises CommitConflict if another commit changed their files,
            and BusyTable if the groups are to fail together.

    Yields:
        The commits in the order of the groups, and GroupFailed for each group in conflict.
    """
    waiting = [rewritten]
    while waiting:
        some = waiting.pop()
        outcome: Commit | GroupFailed
        try:
            outcome = commit(some)
        except CommitConflict as conflict:
            if len(some) > 1 and not isinstance(conflict, BusyTable):
                middle = len(some) // 2
                waiting += [some[middle:], some[:middle]]
                continue
            outcome = GroupFailed(tuple(each.group.id for each in some), conflict)
        yield outcome


def file_table(
    files: Sequence[NewFile],
    partition: Sequence[int],
    partitions: tuple[Partition, ...],
    bounds: Mapping[str, ColumnBounds],
) -> FileTable:
    """Return new files as a file table without layout records. partition: the index of the partition of each file."""
    zeros = np.zeros(len(files), np.int64)
    none = np.full(len(files), -1, np.int32)
    return FileTable(
        path=pa.array([file.path for file in files], pa.string()),
        version_key=pa.array([""] * len(files), pa.string()),
        rows=np.array([file.rows for file in files], np.int64),
        deleted=zeros,
        shared_deletes=zeros.astype(bool),
        bytes=np.array([file.bytes for file in files], np.int64),
        partition=np.array(partition, np.int32),
        partitions=partitions,
        layout=none,
        layouts=(),
        group=none,
        bounds=bounds,
    )


def new_files(rewritten: Sequence[Rewritten]) -> list[NewFile]:
    """Return the new files of the groups."""
    return [file for each in rewritten for file in each.added]


def rewrite_commit(version: int, rewritten: Sequence[Rewritten]) -> Commit:
    """Return the event for a commit that replaced the files of these groups."""
    added = new_files(rewritten)
    return Commit(
        "rewrite",
        version,
        tuple(each.group.id for each in rewritten),
        files_removed=sum(len(each.group.files) for each in rewritten),
        files_added=len(added),
        bytes_removed=sum(int(each.group.files.bytes.sum()) for each in rewritten),
        bytes_added=sum(file.bytes for file in added),
        rows=sum(file.rows for file in added),
    )
