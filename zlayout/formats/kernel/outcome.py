"""Settles the outcome of a commit: after any error, it reads the table to determine whether the commit exists.

The error alone does not determine the outcome. A hook may have failed after the commit, the storage may have answered
too late, the connection to the JVM may be lost, or the library may have retried and reported its own first attempt as
a conflict. Therefore:

- A commit that is in the table has succeeded.
- A commit that is not in the table and for which the library reports a conflict is a conflict.
- A commit that the library refused before it wrote anything has failed.
- In every other case the outcome is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pyspark.errors import PySparkException

from zlayout.errors import CommitConflict, CommitUnknown, EngineError, Refused
from zlayout.spark import connect
from zlayout.spark.java_errors import Py4JError, Py4JJavaError, Py4JNetworkError

# Translates errors of py4j, pyspark and Java to errors of zlayout, and finds the causes of Java exceptions.


MAX_CAUSES = 20
MAX_LINE_CHARACTERS = 500
JVM_LOST = "ZL305"
_ACCESS_HINT = "check that this user may read the storage of the table and write to it"
_RENEW_HINT = "renew the credentials, and run again; a smaller files.max_group_size makes rewrites shorter"
# The hints for every format, by a string that the message of a cause contains.
_HINTS = {
    "No space left on device": "free space on the disks of the table and of Spark's own files (SPARK_LOCAL_DIRS)",
    "Read-only file system": _ACCESS_HINT,
    "Permission denied": _ACCESS_HINT,
    # AWS, as its SDK and Hadoop's S3A write it
    "token has expired": _RENEW_HINT,
    "token included in the request is expired": _RENEW_HINT,
    "ExpiredToken": _RENEW_HINT,
    "not authorized to perform": "allow the action that the message names: `zlayout doctor --iam` prints the policies",
    "Status Code: 403": "let the credentials of Spark read and write the tables, or renew them if they have expired",
}
_GONE = "does not exist in the JVM"  # the message of py4j after the JVM has died


@dataclass(frozen=True, slots=True)
class Failures:
    """How the library of a format reports that a commit failed.

    Attributes:
        conflicts: The Java exception classes, including their subclasses, that report a conflict.
        history: Where the user finds the commits of a run, for hints.
        unknown: The Java exception classes, including their subclasses, that report an unknown outcome.
        python_conflicts: The module of Python exceptions that report a conflict without the Java exception; '' if there
            are none.
        hints: The hint for each string that the message of a cause may contain.
        unsent: A function that returns whether the library refused a commit before it wrote any part of it.
        in_commit: A function that returns whether an error may have been raised during a commit.
    """

    conflicts: frozenset[str] = frozenset()
    history: str = ""
    unknown: frozenset[str] = frozenset()
    python_conflicts: str = ""
    hints: Mapping[str, str] = field(default_factory=dict)
    unsent: Callable[[Exception], bool] = lambda _: False
    in_commit: Callable[[Exception], bool] = lambda _: False


@dataclass(frozen=True, slots=True)
class _Cause:
    classes: tuple[str, ...]  # the names of its class and of the superclasses, in this order; of a server, the first
    message: str  # the first line

    @property
    def name(self) -> str:
        """The name of its class without the package."""
        return self.classes[0].rpartition(".")[2]


@contextmanager
def java_errors(doing: str, failures: Failures) -> Iterator[None]:
    """Translate the errors of py4j and pyspark that the block raises, as `translated` does with the same arguments."""
    try:
        yield
    except (Py4JError, PySparkException, ConnectionError, EOFError) as error:
        raise translated(error, doing, failures) from error


def translated(error: Exception, doing: str, failures: Failures) -> EngineError:
    """Return the error of zlayout for any exception.

    Args:
        error: The exception. An EngineError is returned unchanged.
        doing: The operation and the table, and the run if the operation commits, for the message.
        failures: How the format reports failures.

    Returns:
        CommitConflict ZL321 for a conflict, CommitUnknown ZL331 if the library reports an unknown outcome, EngineError
        ZL305 if the connection to the JVM was lost, and EngineError ZL314 for every other exception.
    """
    if isinstance(error, EngineError):
        return error
    if connection_lost(error):
        return _lost(doing, error)
    try:
        causes = [_cause(throwable) for throwable in java_causes(error)] or _server_causes(error)
    except Exception as lost:  # the JVM died before it returned the causes
        return _lost(doing, lost)
    for cause in causes:
        if not failures.unknown.isdisjoint(cause.classes):
            return unknown(doing, cause.message, failures)
        if not failures.conflicts.isdisjoint(cause.classes):
            return _conflict(doing, cause.name, cause.message)
    if failures.python_conflicts and type(error).__module__.startswith(failures.python_conflicts):
        return _conflict(doing, type(error).__name__, _first_line(getattr(error, "_desc", error)))
    return _failed(doing, causes or [_Cause((type(error).__name__,), _first_line(error))], failures)


def unknown(doing: str, reason: str, failures: Failures) -> EngineError:
    """Return CommitUnknown ZL331.

    Args:
        doing: The operation, the table and the run, for the message.
        reason: Why the outcome is unknown, for the message.
        failures: How the format reports failures.
    """
    hint = f"look for the run in {failures.history} before you run again; delete no files"
    return CommitUnknown.of("ZL331", f"commit outcome unknown: {doing}: {reason}", hint=hint)


def connection_lost(error: BaseException) -> bool:
    """Return whether an error means that the connection to the JVM was lost. The result of the call is unknown."""
    if connect.is_lost(error):
        return True
    if isinstance(error, Py4JJavaError | PySparkException):
        return False
    return isinstance(error, Py4JNetworkError | ConnectionError | EOFError) or (
        isinstance(error, Py4JError) and _GONE in str(error)
    )


def java_causes(error: Exception) -> Iterator[Any]:
    """Yield the Java throwable of a Python exception, then its causes. Yield nothing if Java did not raise it."""
    throwable = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    for _ in range(MAX_CAUSES):
        if throwable is None:
            return
        yield throwable
        throwable = throwable.getCause()


def stack_frames(error: Exception) -> list[tuple[str, str]]:
    """Return class and method of each frame in the stack traces of a Java exception and of its causes."""
    frames = [frame for cause in java_causes(error) for frame in cause.getStackTrace()]
    return [(str(f.getClassName()), str(f.getMethodName())) for f in frames] or connect.frames_of(error)


def line_of(error: Exception) -> str:
    """Return the class and the first line of an error; only the class if the message was in a JVM that has died.

    For a Java exception, both come from the JVM, because py4j's own message has the same first line for all of them.
    """
    try:
        thrown: Any = getattr(error, "java_exception", None)
        return f"{type(error).__name__}: {_first_line(error)}" if thrown is None else _first_line(thrown.toString())
    except Exception:
        return type(error).__name__


def _server_causes(error: Exception) -> list[_Cause]:
    return [_Cause((name,), _first_line(message or name)) for name, message in connect.thrown_by(error)]


def _cause(throwable: Any) -> _Cause:
    names, class_ = [], throwable.getClass()
    while class_ is not None:
        names.append(str(class_.getName()))
        class_ = class_.getSuperclass()
    return _Cause(tuple(names), _first_line(throwable.getMessage() or names[0]))


def _conflict(doing: str, name: str, message: str) -> EngineError:
    hint = "plan and apply again; the other commit stays"
    return CommitConflict.of("ZL321", f"{doing}: another commit succeeded first ({name})", hint=hint, detail=message)


def _failed(doing: str, causes: list[_Cause], failures: Failures) -> EngineError:
    for text, hint in {**failures.hints, **_HINTS}.items():
        if found := next((cause for cause in causes if text in cause.message), None):
            return EngineError.of("ZL314", f"{doing} failed", hint=hint, detail=found.message)
    root = causes[-1]
    detail = f"{root.name}: {root.message}"
    return EngineError.of("ZL314", f"{doing} failed", hint="see Spark's log for details", detail=detail)


def _lost(doing: str, error: Exception) -> EngineError:
    hint = "see Spark's log, give Spark more memory and run again; earlier commits of the run stay"
    what = "the Spark server" if connect.is_server_error(error) else "Spark's JVM"
    message = f"{doing}: the connection to {what} was lost"
    return EngineError.of(JVM_LOST, message, hint=hint, detail=line_of(error))


def _first_line(text: object) -> str:
    """Return the first line that is not blank. A line that ends with a colon is followed by the lines of its list."""
    lines = [line.strip() for line in str(text).splitlines() if line.strip()] or ["no message"]
    listed = [line.removeprefix("- ") for line in lines[1:] if line.startswith("- ")] if lines[0].endswith(":") else []
    return f"{lines[0]} {', '.join(listed)}".strip()[:MAX_LINE_CHARACTERS]


NOT_YET = "the table does not have the commit yet"
Found = TypeVar("Found")


def settled(doing: str, send: Callable[[], Found], look: Callable[[], Found | None], failures: Failures) -> Found:
    """Send a commit and settle its outcome.

    Args:
        doing: The operation, the table and the run, for messages.
        send: Makes the commit and does nothing else. It is called once.
        look: Reads the table again. Returns the commit; None if it is not in the table.
        failures: How the format reports failures.

    Returns:
        The result of `send` or, if it raised an error, the commit that `look` found.

    Raises:
        CommitConflict: ZL321, if the commit is not in the table because of a conflict.
        EngineError: ZL314, if the library refused the commit before it wrote any part of it.
        CommitUnknown: ZL331, if the commit is not in the table and may still be made, or if the table cannot be read.
    """
    try:
        return send()
    except Exception as error:
        found = read_outcome(doing, look, failures, error)
        if found is not None:
            return found
        failure = _explained(error, doing, failures, sent=True)
        if failure is error:
            raise
        raise failure from error


def ran(
    doing: str, run: Callable[[], object], look: Callable[[], Sequence[Found]], failures: Failures
) -> tuple[Sequence[Found], EngineError | None]:
    """Run a command that commits by itself, and read its commits from the table.

    Args:
        doing: The operation, the table and the run, for messages.
        run: Runs the command.
        look: Reads the commits of the run from the table.
        failures: How the format reports failures.

    Returns:
        The commits, and the error if the command failed. The error is CommitUnknown ZL331 if it may still commit.

    Raises:
        Refused: If `run` raises it.
        CommitUnknown: ZL331, if the table cannot be read.
    """
    error: Exception | None = None
    try:
        run()
    except Refused:
        raise
    except Exception as raised:
        error = raised
    commits = read_outcome(doing, look, failures, error)
    if error is None:
        return commits, None
    failure = _explained(error, doing, failures, sent=False)
    failure.__cause__ = failure.__cause__ or (error if failure is not error else None)
    return commits, failure


def read_outcome(doing: str, look: Callable[[], Found], failures: Failures, error: Exception | None) -> Found:
    """Return the result of `look`.

    Args:
        doing: The operation, the table and the run, for the message.
        look: Reads the table.
        failures: How the format reports failures.
        error: The error after which the table is read, for the message; None if there was none.

    Raises:
        CommitUnknown: ZL331, if `look` fails.
    """
    try:
        return look()
    except Exception as unread:
        reason = f"the table cannot be read: {line_of(unread)}"
        if error is not None:
            reason = f"{line_of(error)}; then {reason}"
        raise unknown(doing, reason, failures) from (error or unread)


def _explained(error: Exception, doing: str, failures: Failures, *, sent: bool) -> EngineError:
    """Return the error for a commit that is not in the table. sent: whether the failed call only commits."""
    try:
        failure = translated(error, doing, failures)
        began = sent or failure.diagnostics[0].code == JVM_LOST or failures.in_commit(error)
        began = began or connect.hides_frames(error)
        known = isinstance(failure, CommitConflict | CommitUnknown)
        known = known or (failures.unsent(error) and not connect.hides_frames(error))
    except Exception:  # the JVM, which has the reason, has died
        return unknown(doing, f"{line_of(error)}; {NOT_YET}", failures)
    if began and not known:
        return unknown(doing, f"{line_of(error)}; {NOT_YET}", failures)
    return failure
