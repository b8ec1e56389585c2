"""Opening what others wrote: never more than so many bytes, never anything but a regular file."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


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
