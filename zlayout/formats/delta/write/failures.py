"""What goes wrong in the JVM, as zlayout errors: the one place that looks at Java exceptions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException

from zlayout.errors import CommitConflict, Diagnostic, EngineError

_CONFLICT = "java.util.ConcurrentModificationException"
_PYTHON_CONFLICTS = "delta.exceptions"
_GONE = "does not exist in the JVM"
_WAITED = "Exception thrown in awaitResult"
_CONSTRAINT = "DELTA_VIOLATE_CONSTRAINT"
_CONSTRAINT_HINT = (
    "if a generated column depends on the time zone, set spark.sql.session.timeZone of zlayout.yaml to its writers'; "
    "else correct these rows or the constraint"
)


@contextmanager
def spark_errors(table: str, doing: str) -> Iterator[None]:
    """Turn what Spark and Delta raise into EngineError (ZL305 no JVM, ZL314) or CommitConflict (ZL321)."""
    try:
        yield
    except (Py4JError, PySparkException, ConnectionError) as error:
        raise translated(error, table, doing) from error


def translated(error: Exception, table: str, doing: str) -> EngineError:
    """The zlayout error for an exception of py4j or pyspark that came up while `doing`."""
    if connection_lost(error):
        return EngineError(
            Diagnostic(
                "ZL305",
                f"{table}: Spark went away while {doing}",
                hint="see its log; what was committed before stays, run again for the rest",
            )
        )
    conflict = _conflict(error)
    if conflict is not None:
        name, message = conflict
        return CommitConflict(
            Diagnostic(
                "ZL321",
                f"{table}: another commit won while {doing} ({name})",
                hint="the other change stands; plan and apply again",
                detail=_line(message),
            )
        )
    reason = _reason(error)
    hint = _CONSTRAINT_HINT if _CONSTRAINT in reason else "Spark's log has the rest"
    return EngineError(Diagnostic("ZL314", f"{table}: {doing} failed", hint=hint, detail=reason))


def connection_lost(error: BaseException) -> bool:
    """Whether the driver's JVM can no longer be reached, which says nothing about a commit that was on its way."""
    if isinstance(error, Py4JJavaError | PySparkException):
        return False
    return isinstance(error, Py4JNetworkError | ConnectionError) or (
        isinstance(error, Py4JError) and _GONE in str(error)
    )


def in_commit(error: Exception) -> bool:
    """Whether an error may have come up while Delta was committing, and not before: by the stack of its causes."""
    return any("ommit" in frame.getMethodName() for frame in _transaction_frames(error))


def only_prepared(error: Exception) -> bool:
    """Whether Delta refused a commit as it looked it over, before it wrote any of it."""
    methods = {frame.getMethodName() for frame in _transaction_frames(error)}
    return any("prepareCommit" in name for name in methods) and not any(
        part in name for name in methods for part in ("doCommit", "PostCommit")
    )


def line_of(error: Exception) -> str:
    """An error in one line, without asking the JVM, which may be gone."""
    return f"{type(error).__name__}: {_line(str(error))}"


def _transaction_frames(error: Exception) -> list[Any]:
    frames = (frame for cause in _causes(error) for frame in cause.getStackTrace())
    return [frame for frame in frames if "OptimisticTransaction" in frame.getClassName()]


def _causes(error: Exception) -> Iterator[Any]:
    """The Java throwable behind a Python exception and its causes; none when it never came from Java."""
    throwable = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    for _ in range(20):
        if throwable is None:
            return
        yield throwable
        throwable = throwable.getCause()


def _conflict(error: Exception) -> tuple[str, object] | None:
    """The class and message of Delta's conflict among the causes.

    Where the driver has imported the Python package delta, pyspark raises that package's exceptions instead, all of
    them conflicts, and they do not carry the Java exception.
    """
    for cause in _causes(error):
        if _is_conflict(cause):
            return cause.getClass().getSimpleName(), cause.getMessage()
    if type(error).__module__.startswith(_PYTHON_CONFLICTS):
        return type(error).__name__, getattr(error, "_desc", error)
    return None


def _is_conflict(throwable: Any) -> bool:
    kind = throwable.getClass()
    while kind is not None:
        if kind.getName() == _CONFLICT:
            return True
        kind = kind.getSuperclass()
    return False


def _reason(error: Exception) -> str:
    said = [_line(cause.getMessage() or cause.toString()) for cause in _causes(error)]
    return next((line for line in said if not line.startswith(_WAITED)), _line(str(error)))


def _line(text: object) -> str:
    return next((line.strip() for line in str(text).splitlines() if line.strip()), "no message")[:500]
