"""Reads the commitInfo of the newest commits of a log.

Spark writes the commitInfo first, so only the first bytes of a commit are read unless another writer made it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow.fs as pa_fs

from zlayout.formats.delta.read.log_segment import commits_in
from zlayout.formats.delta.read.tags import LOG
from zlayout.table.state import Ordering

HEAD_BYTES = 1 << 16
MAX_CONCURRENT_READS = 16
_INFO = re.compile(rb'^[ \t]*\{[ \t]*"commitInfo".*$', re.MULTILINE)


def commit_infos(
    storage: pa_fs.FileSystem, log: Sequence[str], version: int, max_commits: int
) -> Iterator[dict[str, Any]]:
    """Yield the commitInfo of the newest commits up to `version`, newest first, each with a key `version`.

    Commits without commitInfo are skipped. Commits are read on demand, several at the same time.

    Args:
        storage: The file system, rooted at the table.
        log: The result of `zlayout.formats.delta.read.tags.log_names`.
        version: The version of the newest commit to read.
        max_commits: The maximum number of commits to read.

    Raises:
        OSError: If a commit cannot be read.
        ValueError: If a commitInfo is not JSON.
    """
    commits = commits_in(log)
    newest = sorted((at for at in commits if at <= version), reverse=True)[:max_commits]
    with ThreadPoolExecutor(MAX_CONCURRENT_READS) as pool:
        for first in range(0, len(newest), MAX_CONCURRENT_READS):
            batch = newest[first : first + MAX_CONCURRENT_READS]
            for at, info in zip(batch, pool.map(lambda at: _info(storage, commits[at]), batch), strict=True):
                if info:
                    yield info | {"version": at}


def last_zorder(history: Iterable[Mapping[str, Any]]) -> Ordering | None:
    """Return the external ordering by the newest OPTIMIZE ZORDER BY, None if there is none.

    Args:
        history: The result of `commit_infos`.
    """
    for commit in history:
        parameters = commit.get("operationParameters")
        columns = parameters.get("zOrderBy") if isinstance(parameters, dict) else None
        if commit.get("operation") != "OPTIMIZE" or not columns:
            continue
        names = json.loads(columns) if isinstance(columns, str) else columns
        if isinstance(names, list) and names:
            return Ordering(tuple(map(str, names)), "zorder", f"OPTIMIZE ZORDER BY at version {commit.get('version')}")
    return None


def _info(storage: pa_fs.FileSystem, name: str) -> dict[str, Any]:
    """Return the commitInfo of a commit, empty if it has none. Other writers than Spark may write it last."""
    with storage.open_input_file(f"{LOG}/{name}") as file:
        head: bytes = file.read_at(HEAD_BYTES, 0)
        incomplete = len(head) == HEAD_BYTES
        line = _line(head[: head.rfind(b"\n") + 1] if incomplete else head)
        if line is None and incomplete:
            line = _line(file.read_at(file.size(), 0))
    info = json.loads(line)["commitInfo"] if line else {}
    return info if isinstance(info, dict) else {}


def _line(content: bytes) -> bytes | None:
    """Return the line with the commitInfo, None if there is none. content: complete lines."""
    if b'"commitInfo"' not in content:  # faster than a regular expression over a large commit
        return None
    found = _INFO.search(content)
    return found[0] if found else None
