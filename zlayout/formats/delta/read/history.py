"""Reads the commitInfo of the newest commits of a log. Spark writes it first, so only the head of each is read."""

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

HEAD = 1 << 16  # bytes
AT_ONCE = 16  # reads of an object store
_INFO = re.compile(rb'^[ \t]*\{[ \t]*"commitInfo".*$', re.MULTILINE)


def commit_infos(storage: pa_fs.FileSystem, log: Sequence[str], version: int, most: int) -> Iterator[dict[str, Any]]:
    """Yield the commitInfo of the newest `most` commits up to `version`, newest first, each with its `version`.

    Commits are read on demand, several at once; a commit without commitInfo is skipped. log: from
    `zlayout.formats.delta.read.tags.log_names`. Raises OSError and ValueError.
    """
    commits = commits_in(log)
    newest = sorted((at for at in commits if at <= version), reverse=True)[:most]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for first in range(0, len(newest), AT_ONCE):
            batch = newest[first : first + AT_ONCE]
            for at, info in zip(batch, pool.map(lambda at: _info(storage, commits[at]), batch), strict=True):
                if info:
                    yield info | {"version": at}


def last_zorder(history: Iterable[Mapping[str, Any]]) -> Ordering | None:
    """Return the z-order of the newest OPTIMIZE that has one, None if there is none.

    Args:
        history: The commitInfo of each commit with its `version`, newest first.
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
    """The commitInfo, empty if there is none. Writers other than Spark may write it last."""
    with storage.open_input_file(f"{LOG}/{name}") as file:
        head: bytes = file.read_at(HEAD, 0)
        cut = len(head) == HEAD
        line = _line(head[: head.rfind(b"\n") + 1] if cut else head)
        if line is None and cut:
            line = _line(file.read_at(file.size(), 0))
    info = json.loads(line)["commitInfo"] if line else {}
    return info if isinstance(info, dict) else {}


def _line(content: bytes) -> bytes | None:
    """The line with the commitInfo, of whole lines."""
    if b'"commitInfo"' not in content:  # faster than a regular expression over a large commit
        return None
    found = _INFO.search(content)
    return found[0] if found else None
