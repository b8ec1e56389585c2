"""Reading what others wrote: of a regular file so many bytes, of JSON what can be written as JSON again."""

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
    """The file, for reading. Raises OSError, and ValueError for a path that no file can have.

    What is no regular file is an IsADirectoryError: a pipe would be waited for, and a device may never end.
    """
    if not stat.S_ISREG(path.stat().st_mode):
        raise IsADirectoryError(errno.EISDIR, "expected a file, found a folder or a device", str(path))
    # Without O_NONBLOCK a pipe that took the file's place meanwhile would be waited for.
    return os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb")


def read_at_most(path: Path, most: int) -> bytes:
    """The first `most` bytes of a file. Raises as `open_file`."""
    with open_file(path) as file:
        return file.read(most)


def parse_json(text: str, record: Callable[[list[tuple[str, Any]]], Any] = dict) -> Any:
    """Plain values of JSON. Raises ValueError for what is none, and for what Python takes all the same.

    That is numbers that are not finite or of more than 64 bits, and lists in lists until the stack is full.
    record: makes an object of its pairs of keys and values.
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
