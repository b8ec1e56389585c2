"""Determines the rollback of a run from the log of a Delta table, without a JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pa_fs

from zlayout.errors import Diagnostic, Refused, TableError
from zlayout.formats import undo
from zlayout.formats.delta.read.history import commit_infos, recorded, run_of
from zlayout.formats.delta.read.log import LogFiles, read_actions
from zlayout.formats.delta.read.opening import unreadable
from zlayout.formats.delta.read.tags import vector_key
from zlayout.formats.undo import Change, Identity, Net, Undo, missing_files
from zlayout.spec.model import TableName
from zlayout.table.state import TableState

MAX_COMMITS = 10_000
_VECTOR = pa.struct({"storageType": pa.string(), "pathOrInlineDv": pa.string(), "offset": pa.int32()})
_FILE = pa.struct({"path": pa.string(), "deletionVector": _VECTOR})
_ACTIONS = pa.schema({"add": _FILE, "remove": _FILE})
_ROW_TRACKING = "delta.enableRowTracking"
_ICEBERG_COMPAT = "delta.enableIcebergCompatV"
_GONE_HINT = "the replaced files cannot return; change the layout and apply instead"


def undo_run(
    table: TableName, log: LogFiles, state: TableState, observe: Callable[[int], TableState], run: str | None
) -> Undo:
    """Determine the rollback of a run.

    Args:
        state: The table state of the newest version.
        observe: Observes the table at another version.
        run: The id of the run; None for the newest run in effect that changed files.

    Raises:
        Refused: ZL231 to ZL235.
        TableError: ZL111, if the log cannot be read.
    """
    try:
        history = list(commit_infos(log, state.version, MAX_COMMITS))
        chosen, changes = _chosen(table, log, undo.runs_in_effect(map(recorded, history)), run)
        net = undo.net_change(changes)
        removed, missing = undo.file_rows(state, net.added)
        by = list(_changed_by(log, history, changes[0].version, chosen, missing)) if missing else []
    except (OSError, ValueError, RecursionError, pa.ArrowException) as error:
        raise unreadable(table, state.location, error) from error
    undo.require_unchanged(table, chosen, missing, len(net.added), by)
    returned, notes = _returned(table, net, observe, state)
    _require_stored(table, log.storage, returned)
    unknown = next((note.message for note in (*notes, *state.notes)), "")
    undo.require_rows(table, removed, returned, unknown)
    versions = tuple(change.version for change in changes)
    later = [info for info in reversed(history) if info["version"] > versions[0]]
    kept = tuple(info["version"] for info in later if run_of(info) != chosen)
    identity = state.table_id, state.location
    return Undo(table, "delta", chosen, versions, state.version, *identity, removed, returned, kept, versions[0] - 1)


def _chosen(
    table: TableName, log: LogFiles, runs: Mapping[str, Sequence[int]], wanted: str | None
) -> tuple[str, list[Change]]:
    """Return the run to undo and its commits that changed files. runs: versions of commits, the newest run first."""
    for run_id in [wanted] if wanted is not None else runs:
        changes = [change for at in sorted(runs.get(run_id, ())) if (change := _change(log, at)) is not None]
        if changes:
            return run_id, changes
    raise undo.no_run(table, wanted, runs)


def _change(log: LogFiles, version: int) -> Change | None:
    """Return the files that a commit changed; None if it removed none, as a change of settings or layout records."""
    actions = read_actions(log.read(log.commits[version]), _ACTIONS)
    added, removed = (_files(actions[name].combine_chunks()) for name in ("add", "remove"))
    return Change(version, added, removed) if removed else None


def _files(actions: pa.StructArray) -> tuple[Identity, ...]:
    path, vector = actions.flatten()
    pairs = zip(path.to_pylist(), pc.fill_null(vector_key(*vector.flatten()), "").to_pylist(), strict=True)
    return tuple((name, key) for name, key in pairs if name is not None)


def _changed_by(
    log: LogFiles, history: Iterable[Mapping[str, Any]], after: int, run_id: str, files: Sequence[Identity]
) -> Iterator[str]:
    """Yield the later operations, without those of the run, that removed some of `files`; the newest first."""
    paths = {path for path, _ in files}
    for info in history:
        version, by = info["version"], run_of(info)
        if version <= after or by == run_id or (change := _change(log, version)) is None:
            continue
        if not paths.isdisjoint(path for path, _ in change.removed):
            yield f"{info.get('operation', 'a commit')}{f' of run {by}' if by else ''} at version {version}"


def _returned(
    table: TableName, net: Net, observe: Callable[[int], TableState], state: TableState
) -> tuple[pa.Table, list[Diagnostic]]:
    """Return the replaced files as before the commit that removed them, and notes on estimated row counts."""
    found: list[pa.Table] = [undo.FILES.empty_table()]
    notes: list[Diagnostic] = []
    for version, files in net.removed.items():
        try:
            before = observe(version - 1)
        except TableError as error:
            what = f"version {version - 1}, which the run changed, cannot be read"
            raise undo.gone(table, what, _GONE_HINT, error.diagnostics[0].text) from error
        require_fitting(table, before, state)
        rows, missing = undo.file_rows(before, files)
        if missing:
            what = f"version {version - 1} lacks files that the run replaced"
            raise undo.gone(table, what, _GONE_HINT, missing[0][0])
        found.append(rows)
        notes += before.notes
    files = pa.concat_tables(found).combine_chunks()
    live = set(state.files.path.to_pylist())
    if back := [path for path in files["path"].to_pylist() if path in live]:
        raise undo.changed_table(table, f"{len(back)} of them are live already")
    return files, notes


def require_fitting(table: TableName, before: TableState, now: TableState) -> None:
    """Check that files of an earlier state of the table fit its current state.

    A column that was added since then is null in these files. A renamed column has kept its physical name.

    Raises:
        Refused: ZL234.
    """
    undo.require_partitioning(table, before.partition_fields, now.partition_fields)
    if before.table_id != now.table_id:
        raise undo.changed_table(table, "it was replaced by another table")
    types = {column.id or column.name: column.type for column in now.columns}
    for column in before.columns:
        if (found := types.get(column.id or column.name)) != column.type:
            what = "was dropped" if found is None else f"has type {found} instead of {column.type}"
            raise undo.changed_table(table, f"column {column.name} {what}")
    if dropped := sorted(before.features - now.features):
        raise undo.changed_table(table, f"table features were dropped: {', '.join(dropped)}")
    if enabled := sorted(_enabled(now) - _enabled(before)):
        raise undo.changed_table(table, f"{enabled[0]} was enabled")


def _enabled(state: TableState) -> set[str]:
    """Return the enabled properties that each file must satisfy. Files older than a property may violate it."""
    names = (name for name in state.properties if name == _ROW_TRACKING or name.startswith(_ICEBERG_COMPAT))
    return {name for name in names if state.properties[name].lower() == "true"}


def _require_stored(table: TableName, storage: pa_fs.FileSystem, files: pa.Table) -> None:
    """Check that files are on storage with their sizes. Files with absolute paths are checked before the commit."""
    sizes = dict(zip(files["path"].to_pylist(), files["bytes"].to_pylist(), strict=True))
    inside = {path: size for path, size in sizes.items() if ":/" not in path and not path.startswith("/")}

    def stored(path: str) -> int | None:
        size: int | None = storage.get_file_info(unquote(path)).size
        return size

    if missing := [path for path, _ in missing_files(inside, stored)]:
        raise vacuumed(table, len(missing), len(sizes), missing[0])


def vacuumed(table: TableName, missing: int, of: int, first: str) -> Refused:
    """Return ZL233 for files that are no longer on storage. of: the number of replaced files. first: a missing path."""
    what = f"{missing} of {of} files that the run replaced are no longer on storage"
    return undo.gone(table, what, f"VACUUM has deleted them: {_GONE_HINT}", first)
