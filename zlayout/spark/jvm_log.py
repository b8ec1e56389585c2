"""The log of the JVM: a file to which its stderr goes."""

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
    """Redirect the file descriptor of stderr to a file while the JVM starts, which inherits it.

    Meanwhile, `sys.stderr` writes to where it wrote before, so that progress stays visible.
    """
    handle, name = tempfile.mkstemp(prefix="zlayout-spark-", suffix=".log")
    given, kept = sys.stderr, os.dup(2)  # which is not closed, because another thread may still write to it
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
    """Return whether a stream has the file descriptor of stderr. One that is captured, as in a notebook, has none."""
    try:
        return stream.fileno() == 2
    except (OSError, ValueError):
        return False
