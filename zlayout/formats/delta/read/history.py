"""Reads the history of a Delta table from its log: the commits of a run, and the rewrites of other writers.

`run_commits` returns what a run committed, `external` what other writers did, and `last_run` the metrics of the last
run. Spark writes the commitInfo of a commit first, so usually the first bytes of a commit are enough.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pa_fs

from zlayout.errors import Diagnostic, TableError
from zlayout.formats import undo
from zlayout.formats.base import TOUCHED, Commit, RunMetrics, parse_touched, run_metrics
from zlayout.formats.delta.read.log import (
    HEAD_BYTES,
    LAYOUT,
    LAYOUT_ID,
    LOG,
    MAX_CONCURRENT_READS,
    LogFiles,
    commits_in,
    read_actions,
    read_log_file,
    unreadable,
    vector_key,
)
from zlayout.formats.undo import ROLLBACK, Change, Identity, Recorded, Undo, missing_files
from zlayout.reading import parse_json
from zlayout.spec.model import TableName
from zlayout.table.external import MAX_CLOCK_SKEW, ExternalRewrite, Ordering, external_rewrites, instant_of_milliseconds
from zlayout.table.state import TableState

# The commits of a run. No JVM is needed, because it may have died during a commit.


RUN = "zlayout.run"
COMMIT_MARKER = "zlayout.commit"
_REMOVE = {"path": pa.string(), "size": pa.int64()}
_SCHEMA = pa.schema({"add": pa.struct(_REMOVE | {"stats": pa.string()}), "remove": pa.struct(_REMOVE)})


class RunCommit(NamedTuple):
    """One commit of a run.

    Attributes:
        commit: The commit. Its number of rows comes from the statistics of the added files.
        added: string[files], the paths of the added files as in the log.
        removed: The same of the removed files.
    """

    commit: Commit
    added: pa.Array
    removed: pa.Array


def run_commits(storage: pa_fs.FileSystem, run_id: str, after: int) -> Iterator[RunCommit]:
    """Yield the commits of a run with versions above `after`, in order.

    Commits by zlayout have the run id as a tag. Commits by commands of Delta have it in the userMetadata.
    """
    for version, info, content in _mentioning(storage, run_id, after):
        if (info.get("tags") or {}).get(RUN) == run_id or run_id in (info.get("userMetadata") or ""):
            yield _rewrite(version, content)


def version_with_marker(storage: pa_fs.FileSystem, marker: str, after: int) -> int | None:
    """Return the version above `after` whose commit has this commit marker, None if no commit has it."""
    found = _mentioning(storage, marker, after)
    return next((at for at, info, _ in found if (info.get("tags") or {}).get(COMMIT_MARKER) == marker), None)


def _mentioning(storage: pa_fs.FileSystem, text: str, after: int) -> Iterator[tuple[int, dict[str, Any], bytes]]:
    found = storage.get_file_info(pa_fs.FileSelector(LOG))
    for version, name in sorted(commits_in(info.base_name for info in found).items()):
        if version > after and text.encode() in (line := _line(content := read_log_file(storage, name)) or b""):
            yield version, json.loads(line)["commitInfo"], content


def _rewrite(version: int, content: bytes) -> RunCommit:
    actions = read_actions(content, _SCHEMA)
    adds, removes = actions["add"].combine_chunks(), actions["remove"].combine_chunks()
    added, removed = (pc.struct_field(files, "path").drop_null() for files in (adds, removes))
    records = pc.extract_regex(pc.struct_field(adds, "stats"), r'"numRecords":(?P<rows>\d+)')
    commit = Commit(
        "rewrite",
        version,
        files_removed=len(removed),
        files_added=len(added),
        bytes_removed=pc.sum(pc.struct_field(removes, "size")).as_py() or 0,
        bytes_added=pc.sum(pc.struct_field(adds, "size")).as_py() or 0,
        rows=pc.sum(pc.struct_field(records, "rows").cast(pa.int64())).as_py() or 0,
    )
    return RunCommit(commit, added, removed)


# The commitInfo of the newest commits, which states who made them and how.


# The maximum number of commits older than every live file that are read in search of the last rewrite by zlayout.
MAX_OLDER_COMMITS = 100
# The number of commits that are searched for the metrics of the last run.
MAX_COMMITS_WITH_METRICS = 1000
# The beginnings of the names of operations that rewrite files, including those that change rows.
_REWRITING = re.compile("OPTIMIZE|REORG|RESTORE|(CREATE OR )?REPLACE|CLONE|MERGE|UPDATE|DELETE|TRUNCATE")
_MAINTENANCE = re.compile("OPTIMIZE|REORG")  # those of them that keep all rows
# Operations that change settings and no files.
_WITHOUT_FILES = ("SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "CLUSTER BY")
_INFO = re.compile(rb'^[ \t]*\{[ \t]*"commitInfo".*$', re.MULTILINE)


def commit_infos(log: LogFiles, version: int, max_commits: int) -> Iterator[dict[str, Any]]:
    """Yield the commitInfo of the newest commits up to `version`, newest first, each with a key `version`.

    Commits without commitInfo are skipped. Commits are read on demand, several at the same time.

    Args:
        version: The version of the newest commit to read.
        max_commits: The maximum number of commits to read.

    Raises:
        OSError: If a commit cannot be read.
        ValueError: If a commitInfo is not JSON.
    """
    newest = sorted((at for at in log.commits if at <= version), reverse=True)[:max_commits]
    for first in range(0, len(newest), MAX_CONCURRENT_READS):
        batch = newest[first : first + MAX_CONCURRENT_READS]
        for at, info in zip(batch, _infos(log, [log.commits[at] for at in batch]), strict=True):
            if info:
                yield info | {"version": at}


# The layout records that commits of OPTIMIZE store, in sessions that cannot write file tags.


MAX_COMMITS_WITH_RECORDS = 1000  # newest commits that are searched
_ADDED = pa.schema({"add": pa.struct({"path": pa.string()})})


class CommitRecord(NamedTuple):
    """The layout record of the files that one commit added.

    Attributes:
        run_id: The run that made the commit.
        layout_id: The layout id.
        settings: The layout settings as JSON, as in a file tag.
        paths: string[files], the files, as in the log.
    """

    run_id: str
    layout_id: str
    settings: str
    paths: pa.Array


def commit_records(log: LogFiles, version: int, oldest: Callable[[], int]) -> Iterator[CommitRecord]:
    """Yield the layout records in the userMetadata of commits up to `version`, the newest first.

    Args:
        oldest: Returns the time of the oldest file that has no record yet, in milliseconds since 1970. An older commit
            did not add any of these files.

    Raises:
        OSError, ValueError, pa.ArrowException: If a commit cannot be read.
    """
    for info in commit_infos(log, version, MAX_COMMITS_WITH_RECORDS):
        written, text = info.get("timestamp"), info.get("userMetadata")
        if type(written) is int and written < oldest() - MAX_CLOCK_SKEW:
            return
        if info.get("operation") != "OPTIMIZE" or not isinstance(text, str) or f'"{LAYOUT_ID}"' not in text:
            continue
        try:
            stored = parse_json(text)
        except ValueError:
            continue
        if not isinstance(stored, dict):
            continue
        run_id, layout_id, settings = (stored.get(key) for key in (RUN, LAYOUT_ID, LAYOUT))
        if isinstance(run_id, str) and isinstance(layout_id, str) and isinstance(settings, str):
            added = read_actions(log.read(log.commits[info["version"]]), _ADDED)["add"].combine_chunks()
            yield CommitRecord(run_id, layout_id, settings, pc.struct_field(added, "path").drop_null())


@dataclass(frozen=True, slots=True)
class External:
    """What other writers did to the table since the last rewrite by zlayout, according to the history.

    Attributes:
        ordering: The external ordering that the newest OPTIMIZE ZORDER BY made; None if there is none.
        known: Whether a rewrite by zlayout was found.
    """

    ordering: Ordering | None
    rewrites: tuple[ExternalRewrite, ...]
    known: bool


def external(history: Iterable[Mapping[str, Any]], oldest: int | None = None) -> External:
    """Return what other writers did since the last rewrite by zlayout.

    The search ends at a rewrite by zlayout, whose commit is an OPTIMIZE too. Commits that are older than every live
    file did not add any of these files. At most MAX_OLDER_COMMITS of them are read, and only after an external rewrite
    was found, to find the rewrite by zlayout before it.

    Args:
        history: The result of `commit_infos`.
        oldest: The time of the oldest live file in milliseconds since 1970; None if it is unknown.
    """
    ordering: Ordering | None = None
    rewrites: list[ExternalRewrite] = []
    known, older = False, 0
    undone: set[str] = set()
    for commit in history:
        if _undone(commit, undone):
            continue
        if _by_zlayout(commit):
            if known := commit.get("operation") not in _WITHOUT_FILES:
                break
            continue
        written = commit.get("timestamp")
        older += oldest is not None and type(written) is int and written < oldest - MAX_CLOCK_SKEW
        if older > (MAX_OLDER_COMMITS if rewrites else 0):
            break
        ordering = ordering or _ordering(commit)
        if (operation := _rewriting(commit)) is not None:
            time = instant_of_milliseconds(written)
            maintains = _MAINTENANCE.match(operation.upper()) is not None
            version = int(commit.get("version", -1))
            rewrites.append(ExternalRewrite(operation, version, _engine(commit), time, maintenance=maintains))
    return External(ordering, external_rewrites(rewrites), known)


def _by_zlayout(commit: Mapping[str, Any]) -> bool:
    tags, text = commit.get("tags"), commit.get("userMetadata")
    return (isinstance(tags, dict) and RUN in tags) or (isinstance(text, str) and f'"{RUN}"' in text)


def _undone(commit: Mapping[str, Any], undone: set[str]) -> bool:
    """Return whether a commit is a rollback or undone by a newer one. The run that it undoes is added to `undone`."""
    made_by = recorded(commit)
    if made_by.undoes:
        undone.add(made_by.undoes)
    return bool(made_by.undoes) or made_by.run_id in undone


def _ordering(commit: Mapping[str, Any]) -> Ordering | None:
    names = _zorder_columns(commit)
    source = f"OPTIMIZE ZORDER BY at version {commit.get('version')}"
    return Ordering(names, "zorder", source) if names and commit.get("operation") == "OPTIMIZE" else None


def _zorder_columns(commit: Mapping[str, Any]) -> tuple[str, ...]:
    parameters = commit.get("operationParameters")
    columns = parameters.get("zOrderBy") if isinstance(parameters, dict) else None
    names = json.loads(columns) if isinstance(columns, str) and columns else columns
    return tuple(map(str, names)) if isinstance(names, list) else ()


def _rewriting(commit: Mapping[str, Any]) -> str | None:
    operation = commit.get("operation")
    parameters, metrics = (commit.get(name) for name in ("operationParameters", "operationMetrics"))
    if not isinstance(operation, str):
        return None
    name = operation.upper()
    if name == "WRITE" and isinstance(parameters, dict) and str(parameters.get("mode")).lower() == "overwrite":
        return "WRITE (overwrite)"
    if not _REWRITING.match(name):
        return None
    if columns := _zorder_columns(commit):
        return f"{operation} ZORDER BY ({', '.join(columns)})"
    # delta-rs does not record the columns of a z-order
    zorder = isinstance(metrics, dict) and metrics.get("plannerStrategy") == "zOrder"
    return f"{operation} (z-order)" if zorder else operation


def _engine(commit: Mapping[str, Any]) -> str:
    found = commit.get("engineInfo") or commit.get("clientVersion")
    return found if isinstance(found, str) else ""


def recorded(info: Mapping[str, Any]) -> Recorded:
    """Return the run that made a commit, and the run that the commit undid. info: an item of `commit_infos`."""
    tags = info.get("tags")
    undoes = tags.get(ROLLBACK) if isinstance(tags, dict) else None
    return Recorded(int(info.get("version", -1)), run_of(info), undoes if isinstance(undoes, str) else "")


def run_of(info: Mapping[str, Any]) -> str:
    """Return the id of the run that made a commit, '' if no run made it.

    Commits by zlayout store the id as a tag. Commits by commands of Delta store it in the userMetadata.
    """
    tags, text = info.get("tags"), info.get("userMetadata")
    if isinstance(tags, dict) and isinstance(run_id := tags.get(RUN), str):
        return run_id
    try:
        stored = parse_json(text) if isinstance(text, str) and f'"{RUN}"' in text else {}
    except ValueError:
        return ""
    run_id = stored.get(RUN) if isinstance(stored, dict) else None
    return run_id if isinstance(run_id, str) else ""


def last_run(log: LogFiles, version: int) -> RunMetrics | None:
    """Return the newest run metrics that a commit stores; None if there are none, or if a commit cannot be read.

    Args:
        version: The version of the newest commit to read.
    """
    undone: set[str] = set()
    try:
        for info in commit_infos(log, version, MAX_COMMITS_WITH_METRICS):
            tags = info.get("tags")
            if _undone(info, undone) or not isinstance(tags, dict) or not isinstance(run_id := tags.get(RUN), str):
                continue
            if columns := parse_touched(tags.get(TOUCHED)):
                return run_metrics(run_id, info["version"], columns, tags)
    except (OSError, ValueError, RecursionError):
        pass
    return None


def _infos(log: LogFiles, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    if all(0 < len(log.heads.get(name, b"")) < HEAD_BYTES for name in names):  # nothing to read, so no threads
        yield from (_info(log, name) for name in names)
        return
    with ThreadPoolExecutor(MAX_CONCURRENT_READS) as pool:
        yield from pool.map(lambda name: _info(log, name), names)


def _info(log: LogFiles, name: str) -> dict[str, Any]:
    """Return the commitInfo of a commit, empty if it has none. Writers other than Spark may write it last."""
    head = log.head(name)
    incomplete = len(head) == HEAD_BYTES
    line = _line(head[: head.rfind(b"\n") + 1] if incomplete else head)
    if line is None and incomplete:
        line = _line(log.read(name))
    info = json.loads(line)["commitInfo"] if line else {}
    return info if isinstance(info, dict) else {}


def _line(content: bytes) -> bytes | None:
    """Return the line with the commitInfo, None if there is none. content: complete lines."""
    if b'"commitInfo"' not in content:  # faster than a regular expression over a large commit
        return None
    found = _INFO.search(content)
    return found[0] if found else None


# Determines the rollback of a run from the log of a Delta table, without a JVM.


MAX_COMMITS = 10_000
_VECTOR = pa.struct({"storageType": pa.string(), "pathOrInlineDv": pa.string(), "offset": pa.int32()})
_FILE = pa.struct({"path": pa.string(), "deletionVector": _VECTOR})
_ACTIONS = pa.schema({"add": _FILE, "remove": _FILE})
VACUUMED = "VACUUM has deleted them: "  # of the hint
_ROW_TRACKING = "delta.enableRowTracking"
_ICEBERG_COMPAT = "delta.enableIcebergCompatV"


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
        runs = undo.runs_in_effect(map(recorded, history))
        if (found := undo.changes_of(runs, run, partial(_change, log))) is None:
            raise undo.no_run(table, run, runs)
        chosen, changes = found
        added, replaced = undo.net_change(changes)
        removed, missing = undo.file_rows(state, added)
        by = list(_changed_by(log, history, changes[0].version, chosen, missing)) if missing else []
    except (OSError, ValueError, RecursionError, pa.ArrowException) as error:
        raise unreadable(table, state.location, error) from error
    undo.require_unchanged(table, chosen, missing, len(added), by)
    returned, notes = _returned(table, replaced, observe, state)
    _require_stored(table, log.storage, returned)
    unknown = next((note.message for note in (*notes, *state.notes)), "")
    undo.require_rows(table, removed, returned, unknown)
    versions = tuple(change.version for change in changes)
    later = [info for info in reversed(history) if info["version"] > versions[0]]
    kept = tuple(info["version"] for info in later if run_of(info) != chosen)
    identity = state.table_id, state.location
    return Undo(table, "delta", chosen, versions, state.version, *identity, removed, returned, kept, versions[0] - 1)


def _change(log: LogFiles, version: int) -> Change | None:
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
    paths = {path for path, _ in files}
    for info in history:
        version, by = info["version"], run_of(info)
        if version <= after or by == run_id or (change := _change(log, version)) is None:
            continue
        if not paths.isdisjoint(path for path, _ in change.removed):
            yield f"{info.get('operation', 'a commit')}{f' of run {by}' if by else ''} at version {version}"


def _returned(
    table: TableName,
    replaced: Mapping[int, Sequence[Identity]],
    observe: Callable[[int], TableState],
    state: TableState,
) -> tuple[pa.Table, list[Diagnostic]]:
    found: list[pa.Table] = [undo.FILES.empty_table()]
    notes: list[Diagnostic] = []
    for version, files in replaced.items():
        try:
            before = observe(version - 1)
        except TableError as error:
            what = f"version {version - 1}, which the run changed, cannot be read"
            raise undo.gone(table, what, error.diagnostics[0].text) from error
        require_fitting(table, before, state)
        rows, missing = undo.file_rows(before, files)
        if missing:
            what = f"version {version - 1} lacks files that the run replaced"
            raise undo.gone(table, what, missing[0][0])
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
    sizes = undo.sizes_of(files)
    inside = {path: size for path, size in sizes.items() if ":/" not in path and not path.startswith("/")}

    def stored(path: str) -> int | None:
        size: int | None = storage.get_file_info(unquote(path)).size
        return size

    if missing := missing_files(inside, stored):
        raise undo.not_stored(table, missing, len(sizes), VACUUMED)
