"""Size-limited, strict readers for untrusted files and JSON."""

from __future__ import annotations

import errno
import json
import math
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO


def open_file(path: Path) -> BinaryIO:
    """Open a regular file for reading.

    Raises:
        IsADirectoryError: The path is not a regular file. A pipe would block, and a device may never end.
        OSError: The file cannot be opened, or its path contains the character 0. Python itself raises ValueError for
            such a path.
    """
    require_usable_path(path)
    if not stat.S_ISREG(path.stat().st_mode):
        raise IsADirectoryError(errno.EISDIR, "expected a file, found a folder or a device", str(path))
    # Without O_NONBLOCK this would block if the file was concurrently replaced with a pipe.
    return os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb")


def require_usable_path(path: Path) -> None:
    """Raise OSError for a path that contains the character 0, which no system accepts."""
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "the path contains the character 0", str(path))


def read_at_most(path: Path, limit: int) -> bytes:
    """At most the first `limit` bytes of a file. Raises the errors of `open_file`."""
    with open_file(path) as file:
        return file.read(limit)


def parse_json(text: str, record: Callable[[list[tuple[str, Any]]], Any] = dict) -> Any:
    """Parse JSON text strictly.

    Args:
        text: one JSON value.
        record: converts the (key, value) pairs of each JSON object to the object that is returned for it.

    Raises:
        ValueError: For invalid JSON, nesting that is too deep, an integer of more than 64 bits, or a number that is not
            finite.
    """
    try:
        return json.loads(
            text, parse_int=_integer, parse_float=_number, parse_constant=_number, object_pairs_hook=record
        )
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _integer(text: str) -> int:
    if len(text) > 20 or not -(2**63) <= int(text) < 2**63:
        raise ValueError(f"a number of more than 64 bits: {text[:25]}")
    return int(text)


def _number(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"not a finite number: {text[:25]}")
    return number
