"""Redirects the standard error of the JVM to a log file."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


@contextmanager
def jvm_log() -> Iterator[Path]:
    """Redirect the file descriptor of stderr to a new file during the block. A JVM that starts in it inherits the file.

    `sys.stderr` itself is not redirected, so that progress stays visible.

    Yields:
        The path of the file.
    """
    handle, name = tempfile.mkstemp(prefix="zlayout-spark-", suffix=".log")
    given, kept = sys.stderr, os.dup(2)  # `kept` is never closed, because another thread may still write to it
    given.flush()
    try:
        os.dup2(handle, 2)
        if _writes_to_stderr(given):
            sys.stderr = open(kept, "w", buffering=1, encoding=given.encoding, errors=given.errors, closefd=False)  # noqa: SIM115
        yield Path(name)
    finally:
        sys.stderr = given
        os.dup2(kept, 2)
        os.close(handle)


def _writes_to_stderr(stream: TextIO) -> bool:
    """Return whether a stream writes to the file descriptor of stderr. A captured stream does not, as in a notebook."""
    try:
        return stream.fileno() == 2
    except (OSError, ValueError):
        return False
