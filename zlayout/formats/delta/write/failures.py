"""How Delta reports that a commit failed."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from zlayout.formats.kernel.failures import Failures, java_causes, java_errors

_CONSTRAINT_HINT = (
    "if a generated column depends on the time zone, set spark.sql.session.timeZone of zlayout.yaml to its writers'; "
    "if not, correct these rows or the constraint"
)


def in_commit(error: Exception) -> bool:
    """Return whether an error may have come up while Delta was committing, by the stack of its causes."""
    return any("ommit" in frame.getMethodName() for frame in _transaction_frames(error))


def only_prepared(error: Exception) -> bool:
    """Return whether Delta refused a commit while it prepared it, before it wrote any of it."""
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
    # If the driver has imported the Python package delta, pyspark raises its exceptions, all of them conflicts.
    python_conflicts="delta.exceptions",
    hints={"DELTA_VIOLATE_CONSTRAINT": _CONSTRAINT_HINT},
    unsent=only_prepared,
    in_commit=in_commit,
)


def spark_errors(table: str, doing: str) -> AbstractContextManager[None]:
    """Raise what Spark and Delta raise in the block as errors of zlayout. See `kernel.failures.translated`."""
    return java_errors(f"{table}: {doing}", FAILURES)
