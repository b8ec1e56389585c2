"""What the newest commits of a log say of themselves: of each only the head is read, where Spark writes it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow.fs as pa_fs

from zlayout.formats.delta.read.log_segment import commits_in
from zlayout.formats.delta.read.tags import LOG

HEAD = 1 << 16  # bytes
AT_ONCE = 16  # reads of an object store
_INFO = re.compile(rb'^[ \t]*\{[ \t]*"commitInfo".*$', re.MULTILINE)


def commit_infos(storage: pa_fs.FileSystem, log: Sequence[str], version: int, most: int) -> Iterator[dict[str, Any]]:
    """The commitInfo of the newest `most` commits up to `version`, newest first, each with its `version`.

    log: from `zlayout.formats.delta.read.tags.log_names`. Read as they are asked for, some at once. A commit that says
    nothing is passed over. Raises OSError and ValueError.
    """
    commits = commits_in(log)
    newest = sorted((at for at in commits if at <= version), reverse=True)[:most]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for first in range(0, len(newest), AT_ONCE):
            batch = newest[first : first + AT_ONCE]
            for at, info in zip(batch, pool.map(lambda at: _info(storage, commits[at]), batch), strict=True):
                if info:
                    yield info | {"version": at}


def _info(storage: pa_fs.FileSystem, name: str) -> dict[str, Any]:
    """Empty where there is none. Writers other than Spark may put it last."""
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
    if b'"commitInfo"' not in content:  # most of a large commit is searched faster so
        return None
    found = _INFO.search(content)
    return found[0] if found else None
