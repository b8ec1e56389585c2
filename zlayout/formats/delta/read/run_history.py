"""Reads the commits of a run from the log without a JVM, because the JVM may have died during a commit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pa_fs

from zlayout.formats.base import Commit
from zlayout.formats.delta.read.log import LOG, commits_in, read_actions, read_log_file

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
    for version, content in _contents(storage, after):
        info = _commit_info(content, run_id)
        if (info.get("tags") or {}).get(RUN) == run_id or run_id in (info.get("userMetadata") or ""):
            yield _rewrite(version, content)


def version_with_marker(storage: pa_fs.FileSystem, marker: str, after: int) -> int | None:
    """Return the version above `after` whose commit has this commit marker, None if no commit has it."""
    for version, content in _contents(storage, after):
        if (_commit_info(content, marker).get("tags") or {}).get(COMMIT_MARKER) == marker:
            return version
    return None


def _contents(storage: pa_fs.FileSystem, after: int) -> Iterator[tuple[int, bytes]]:
    found = storage.get_file_info(pa_fs.FileSelector(LOG))
    for version, name in sorted(commits_in(info.base_name for info in found).items()):
        if version > after:
            yield version, read_log_file(storage, name)


def _commit_info(content: bytes, mention: str) -> dict[str, Any]:
    """Return the commitInfo of a commit. If its line does not contain `mention`, return {} without parsing it."""
    line = next((line for line in content.split(b"\n") if line.startswith(b'{"commitInfo"')), b"")
    if mention.encode() not in line:
        return {}
    info: dict[str, Any] = json.loads(line)["commitInfo"]
    return info


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
