"""Describes how Delta reports that a commit failed."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from zlayout.formats.kernel.failures import Failures, java_causes, java_errors

_CONSTRAINT_HINT = (
    "if a generated column depends on the time zone, set spark.sql.session.timeZone in zlayout.yaml to the time zone "
    "of the table's writers; if not, correct the rows or the constraint"
)


def in_commit(error: Exception) -> bool:
    """Return whether an error may have been raised during a commit, according to the stack traces of its causes."""
    return any("ommit" in frame.getMethodName() for frame in _transaction_frames(error))


def refused_before_write(error: Exception) -> bool:
    """Return whether Delta refused a commit before it wrote any part of it, according to the stack traces."""
    methods = {frame.getMethodName() for frame in _transaction_frames(error)}
    return any("prepareCommit" in name for name in methods) and not any(
        part in name for name in methods for part in ("doCommit", "PostCommit")
    )


def _transaction_frames(error: Exception) -> list[Any]:
    frames = (frame for cause in java_causes(error) for frame in cause.getStackTrace())
    return [frame for frame in frames if "OptimisticTransaction" in frame.getClassName()]


FAILURES = Failures(
    conflicts=frozenset({"java.util.ConcurrentModificationException"}),
    history="DESCRIBE HISTORY of the table",
    # If the Python package delta is imported, pyspark raises its exceptions, and all of them are conflicts.
    python_conflicts="delta.exceptions",
    hints={"DELTA_VIOLATE_CONSTRAINT": _CONSTRAINT_HINT},
    unsent=refused_before_write,
    in_commit=in_commit,
)


def spark_errors(table: str, doing: str) -> AbstractContextManager[None]:
    """Translate the errors of Spark and Delta that the block raises. See `kernel.failures.translated`."""
    return java_errors(f"{table}: {doing}", FAILURES)
