"""What a rollback undoes: the commits of one run, the files that it removes, and the files that return.

A rollback removes exactly the files that the run added and has not replaced itself, and adds the files that the run
replaced, as they were. The functions of this module decide which files these are, given what a format has read. They
refuse a rollback that would undo a change of another writer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from zlayout.errors import Refused
from zlayout.spec.model import TableName
from zlayout.table.state import FileTable, PartitionField, TableState

# The files on storage, whose sizes must be those that the table records.


MAX_CONCURRENT_REQUESTS = 16  # a request to an object store takes about 20 ms


def missing_files(sizes: Mapping[str, int], stored: Callable[[str], int | None]) -> list[str]:
    """Return the paths of the files that are missing or have another size on storage.

    Args:
        sizes: The recorded sizes in bytes, by path.
        stored: Returns the size in bytes on storage, given the path; None if there is no file. It is called by several
            threads.
    """
    with ThreadPoolExecutor(MAX_CONCURRENT_REQUESTS) as pool:
        pairs = zip(sizes.items(), pool.map(stored, sizes), strict=True)
        return [path for (path, size), found in pairs if found != size]


# Runs, their changes, and the rollback of a run.


# The property of a commit that undoes a run: the id of that run.
ROLLBACK = "zlayout.rollback"
FILES = pa.schema(
    [
        ("path", pa.string()),
        ("version_key", pa.string()),
        ("rows", pa.int64()),  # live rows
        ("bytes", pa.int64()),
        ("version", pa.int64()),  # a version of the table that has the file with these deletes
    ]
)
MAX_NAMED = 3  # maximum number of commits or runs that a message lists

# A file with its deletes at one version: `path` and `version_key` of `FileTable`.
Identity = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Recorded:
    """A commit of the table's history.

    Attributes:
        version: The version that it made.
        run_id: The run that made it; '' if no run did.
        undoes: The run that it undid; '' if it is not a rollback.
    """

    version: int
    run_id: str = ""
    undoes: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """The files that one commit of a run added and removed."""

    version: int
    added: tuple[Identity, ...]
    removed: tuple[Identity, ...]


@dataclass(frozen=True, slots=True)
class Undo:
    """The rollback of one run, as it was determined from the metadata of one version.

    Attributes:
        run_id: The run that is undone.
        commits: The versions of the run's commits that changed files, the oldest first.
        version: The version that was read.
        removed: The files of the run, which the rollback removes, with the columns of FILES.
        returned: The files that return, with the columns of FILES.
        kept: The versions of later commits of other writers, which are kept, the oldest first.
        before: The version directly before the run.
    """

    table: TableName
    format: str
    run_id: str
    commits: tuple[int, ...]
    version: int
    table_id: str
    location: str
    removed: pa.Table
    returned: pa.Table
    kept: tuple[int, ...]
    before: int

    def __repr__(self) -> str:
        files = f"removes {len(self.removed):,} and returns {len(self.returned):,} files"
        return f"<{type(self).__name__} of run {self.run_id} of {self.table}: {files}>"

    @property
    def rows(self) -> int:
        """The number of live rows in the files of the run, which equals that in the files that return."""
        return total(self.removed, "rows")

    def same_as(self, other: Undo) -> bool:
        """Return whether another rollback undoes the same commits and files of the same table."""
        return (
            (self.table_id, self.location, self.commits) == (other.table_id, other.location, other.commits)
            and _identities(self.removed) == _identities(other.removed)
            and _identities(self.returned) == _identities(other.returned)
        )


def total(files: pa.Table, column: str) -> int:
    """Return the sum of a column of FILES."""
    return int(files[column].to_numpy().sum())


def file_rows(state: TableState, chosen: Iterable[Identity]) -> tuple[pa.Table, list[Identity]]:
    """Find files in a table state.

    Returns:
        Of the chosen files, those that are live in the state, with the columns of FILES, and the identities of others.
    """
    at = {identity: number for number, identity in enumerate(identities_of(state.files))}
    wanted = list(chosen)
    found = state.files.take(np.array([at[file] for file in wanted if file in at], np.int64))
    table = pa.Table.from_arrays(
        [
            found.path.cast(pa.string()),
            found.version_key.cast(pa.string()),
            pa.array(found.live_rows),
            pa.array(found.bytes),
            pa.array(np.full(len(found), state.version, np.int64)),
        ],
        schema=FILES,
    )
    return table, [file for file in wanted if file not in at]


def identities_of(files: FileTable) -> list[Identity]:
    """Return the identity of each file."""
    return list(zip(files.path.to_pylist(), files.version_key.to_pylist(), strict=True))


def _identities(files: pa.Table) -> set[Identity]:
    return set(zip(files["path"].to_pylist(), files["version_key"].to_pylist(), strict=True))


def runs_in_effect(newest_first: Iterable[Recorded]) -> dict[str, list[int]]:
    """Return the versions that each run in effect committed, the newest run first and the newest version first.

    Rollbacks, and runs that were rolled back, are not in effect.
    """
    undone: set[str] = set()
    runs: dict[str, list[int]] = {}
    for commit in newest_first:
        if commit.undoes:
            undone |= {commit.undoes, commit.run_id}
        elif commit.run_id and commit.run_id not in undone:
            runs.setdefault(commit.run_id, []).append(commit.version)
    return runs


def net_change(changes: Iterable[Change]) -> tuple[tuple[Identity, ...], dict[int, tuple[Identity, ...]]]:
    """Return what the commits of a run changed together.

    changes: those of each commit, the oldest first.

    Returns:
        The files of the run that it has not replaced itself, and the files that the run replaced, by the version whose
        commit removed them.
    """
    added: dict[Identity, None] = {}
    removed: dict[int, tuple[Identity, ...]] = {}
    for change in changes:
        others = tuple(file for file in change.removed if file not in added)
        for file in change.removed:
            added.pop(file, None)
        added |= dict.fromkeys(change.added)
        if others:
            removed[change.version] = others
    return tuple(added), removed


def changes_of(
    runs: Mapping[str, Sequence[int]], wanted: str | None, change: Callable[[int], Change | None]
) -> tuple[str, list[Change]] | None:
    """Return the run to undo, and the changes of its commits, the oldest first; None if there is none.

    Args:
        runs: The versions of the commits of the runs in effect, the newest first.
        wanted: The id of the run; None for the newest one that changed files.
        change: Reads the files that a commit changed; None if it removed none.
    """
    for run_id in [wanted] if wanted is not None else runs:
        if found := [each for version in reversed(runs.get(run_id, ())) if (each := change(version)) is not None]:
            return run_id, found
    return None


def no_run(table: TableName, wanted: str | None, found: Mapping[str, object]) -> Refused:
    """Return ZL231: there is no run to undo.

    Args:
        table: The table.
        wanted: The id of the run to undo; None for the newest one.
        found: The runs in effect, by id, the newest first.
    """
    if wanted is None:
        return Refused.of(
            "ZL231",
            f"{table} has no run of zlayout in effect that rewrote files, or the history no longer has its commits",
            hint="see the history of the table",
        )
    known = ", ".join(list(found)[:MAX_NAMED])
    return Refused.of(
        "ZL231",
        f"{table}: run {wanted} is not in effect: the history has no commit of it, it rewrote no files, or it was "
        "rolled back",
        hint=f"use one of the runs in effect: {known}" if known else "see the history of the table",
    )


def require_unchanged(table: TableName, run_id: str, missing: Sequence[Identity], of: int, by: Sequence[str]) -> None:
    """Check that all files of the run are live as the run wrote them.

    Args:
        table: The table.
        run_id: The run.
        missing: The files of the run that were changed or removed.
        of: The number of files of the run.
        by: The commits that changed or removed them, if they are known.

    Raises:
        Refused: ZL232.
    """
    if not missing:
        return
    named = f" by {', '.join(by[:MAX_NAMED])}{' and others' if len(by) > MAX_NAMED else ''}" if by else ""
    raise Refused.of(
        "ZL232",
        f"{table}: {len(missing)} of {of} files that run {run_id} wrote were changed or removed{named}; a rollback "
        "would lose these changes",
        hint="roll back later runs of zlayout first; changes of other writers cannot be kept",
        detail=missing[0][0],
    )


def require_partitioning(table: TableName, before: tuple[PartitionField, ...], now: tuple[PartitionField, ...]) -> None:
    """Check that the partitioning is the same as before the run. Raises Refused ZL234."""
    if before != now:
        was, found = (", ".join(map(str, fields)) or "nothing" for fields in (before, now))
        raise changed_table(table, f"it was partitioned by {was} and is now partitioned by {found}")


def specs_of(files: FileTable) -> set[int]:
    """Return the ids of the partition specs of files. Only files of the table's own partition spec can return."""
    return {files.partitions[at].spec_id for at in np.unique(files.partition).tolist()}


def changed_table(table: TableName, what: str) -> Refused:
    """Return ZL234: the files that would return no longer fit the table. what: what has changed, as a clause."""
    return Refused.of(
        "ZL234",
        f"{table} has changed since the run, so that the replaced files no longer fit it: {what}",
        hint="change the layout and apply instead",
    )


def is_excluded(state: TableState, replaced: FileTable) -> bool:
    """Return whether a run that replaces these files of a table cannot be undone: its rollback would be ZL234 or ZL235.

    A later change of the table may exclude the rollback too.
    """
    # A rollback of a Delta table needs a state without notes. That of an Iceberg table does not look at them.
    has_notes = state.format == "delta" and bool(state.notes)
    return has_notes or bool(specs_of(replaced) - {state.spec_id} or why_unknown([state]))


def gone(table: TableName, what: str, detail: str = "", why: str = "") -> Refused:
    """Return ZL233: what the run replaced no longer exists. what: what is missing; why: the cause, for the hint."""
    hint = f"{why}the replaced files cannot return; change the layout and apply instead"
    return Refused.of("ZL233", f"{table}: {what}", hint=hint, detail=detail)


def not_stored(table: TableName, missing: Sequence[str], of: int, why: str = "") -> Refused:
    """Return ZL233 for files that are no longer on storage. of: the number of replaced files."""
    what = f"{len(missing)} of {of} files that the run replaced are no longer on storage"
    return gone(table, what, missing[0], why)


def needs_jvm(table: TableName, what: str) -> Refused:
    """Return ZL204: a rollback is not possible without a JVM. what: which one, as an attribute."""
    message = f"{table}: a rollback {what} needs the driver's JVM, which Spark Connect does not give"
    return Refused.of("ZL204", message, hint="run `zlayout rollback` inside spark-submit on the cluster")


def sizes_of(files: pa.Table) -> dict[str, int]:
    """Return the recorded sizes of FILES in bytes, by path."""
    return dict(zip(files["path"].to_pylist(), files["bytes"].to_pylist(), strict=True))


def why_unknown(states: Sequence[TableState]) -> str:
    """Return why the numbers of live rows are not known exactly, '' if they are."""
    if any("equality-deletes" in state.features for state in states):
        return "the table has equality deletes"
    if any(state.files.shared_deletes.any() for state in states):
        return "the table has position deletes that apply to several files"
    return ""


def require_rows(table: TableName, removed: pa.Table, returned: pa.Table, unknown: str = "") -> None:
    """Check that the files of the run have as many live rows as the files that return.

    Args:
        table: The table.
        removed: The files of the run, with the columns of FILES.
        returned: The files that return, with the columns of FILES.
        unknown: Why a number of rows is not known exactly; '' if all are.

    Raises:
        Refused: ZL235, if the numbers differ or are unknown.
    """
    new, old = (total(files, "rows") for files in (removed, returned))
    if not unknown and new == old:
        return
    what = unknown or f"the files of the run have {new} live rows, and those that it replaced have {old}"
    raise Refused.of(
        "ZL235",
        f"{table}: the rows cannot be compared, or differ: {what}",
        hint="keep the rewrite; report this error if no other writer changed files of the table",
    )
