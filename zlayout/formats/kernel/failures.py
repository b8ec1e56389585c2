"""Errors of py4j, pyspark and Java as errors of zlayout: the one place that examines Java exceptions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark.errors import PySparkException

from zlayout.errors import CommitConflict, CommitUnknown, EngineError

MAX_CAUSES = 20
MAX_LINE_CHARACTERS = 500
JVM_LOST = "ZL305"
_GONE = "does not exist in the JVM"  # py4j asked a JVM that cannot answer any more


@dataclass(frozen=True, slots=True)
class Failures:
    """How a format's library reports that a commit failed.

    Attributes:
        conflicts: Java classes that mean that another commit won. Subclasses count.
        history: Where a person finds the commits of a run.
        unknown: Java classes that mean that the library does not know the outcome of its commit.
        python_conflicts: The module of Python exceptions that mean a conflict and do not carry the Java exception.
        hints: What to do, by a text that the message of a cause contains.
        unsent: Whether the library refused a commit before it wrote any of it.
        in_commit: Whether an error may have come up while a statement was committing, and not before.
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
    """A Java throwable. kinds: its class and all superclasses. message: its first line."""

    kinds: tuple[str, ...]
    message: str

    @property
    def name(self) -> str:
        return self.kinds[0].rpartition(".")[2]


@contextmanager
def java_errors(doing: str, failures: Failures) -> Iterator[None]:
    """Raise what py4j and pyspark raise in the block as errors of zlayout. See `translated`."""
    try:
        yield
    except (Py4JError, PySparkException, ConnectionError, EOFError) as error:
        raise translated(error, doing, failures) from error


def translated(error: Exception, doing: str, failures: Failures) -> EngineError:
    """Return the error of zlayout for an exception of any kind.

    Args:
        error: The exception. An EngineError is returned as it is.
        doing: What was being done, to which table. It names the run where a commit was on its way.
        failures: How the format reports failures.

    Returns:
        CommitConflict ZL321 if another commit won; CommitUnknown ZL331 if the library does not know the outcome;
        EngineError ZL305 if the JVM was lost, ZL314 in all other cases.
    """
    if isinstance(error, EngineError):
        return error
    if connection_lost(error):
        return _lost(doing, error)
    try:
        causes = [_cause(throwable) for throwable in java_causes(error)]
    except Exception as lost:  # the JVM died while it was asked for the reason
        return _lost(doing, lost)
    for cause in causes:
        if not failures.unknown.isdisjoint(cause.kinds):
            return unknown(doing, cause.message, failures)
        if not failures.conflicts.isdisjoint(cause.kinds):
            return _conflict(doing, cause.name, cause.message)
    if failures.python_conflicts and type(error).__module__.startswith(failures.python_conflicts):
        return _conflict(doing, type(error).__name__, _first_line(getattr(error, "_desc", error)))
    return _failed(doing, causes or [_Cause((type(error).__name__,), _first_line(error))], failures)


def unknown(doing: str, reason: str, failures: Failures) -> EngineError:
    """Return CommitUnknown ZL331. doing: names the run."""
    hint = f"look for the run in {failures.history} before you run again; delete no files"
    return CommitUnknown.of("ZL331", f"commit outcome unknown: {doing}: {reason}", hint=hint)


def connection_lost(error: BaseException) -> bool:
    """Return whether the driver's JVM cannot be reached any more, which leaves the outcome of a commit open."""
    if isinstance(error, Py4JJavaError | PySparkException):
        return False
    return isinstance(error, Py4JNetworkError | ConnectionError | EOFError) or (
        isinstance(error, Py4JError) and _GONE in str(error)
    )


def java_causes(error: Exception) -> Iterator[Any]:
    """Yield the Java throwable behind a Python exception and its causes; none if it never came from Java."""
    throwable = getattr(error, "_origin", None) or getattr(error, "java_exception", None)
    for _ in range(MAX_CAUSES):
        if throwable is None:
            return
        yield throwable
        throwable = throwable.getCause()


def line_of(error: Exception) -> str:
    """Return an error in one line, even if the JVM that has its text is gone."""
    try:
        return f"{type(error).__name__}: {_first_line(error)}"
    except Exception:
        return type(error).__name__


def _cause(throwable: Any) -> _Cause:
    kinds, kind = [], throwable.getClass()
    while kind is not None:
        kinds.append(str(kind.getName()))
        kind = kind.getSuperclass()
    return _Cause(tuple(kinds), _first_line(throwable.getMessage() or kinds[0]))


def _conflict(doing: str, name: str, message: str) -> EngineError:
    hint = "the other change stands; plan and apply again"
    return CommitConflict.of("ZL321", f"{doing}: another commit won ({name})", hint=hint, detail=message)


def _failed(doing: str, causes: list[_Cause], failures: Failures) -> EngineError:
    """ZL314 for the cause that a hint is about, else for the root cause."""
    for text, hint in failures.hints.items():
        if found := next((cause for cause in causes if text in cause.message), None):
            return EngineError.of("ZL314", f"{doing} failed", hint=hint, detail=found.message)
    root = causes[-1]
    detail = f"{root.name}: {root.message}"
    return EngineError.of("ZL314", f"{doing} failed", hint="see Spark's log for the rest", detail=detail)


def _lost(doing: str, error: Exception) -> EngineError:
    hint = "earlier commits of the run stay; see Spark's log, give Spark more memory and run again for the rest"
    message = f"{doing}: the connection to Spark's JVM was lost"
    return EngineError.of(JVM_LOST, message, hint=hint, detail=line_of(error))


def _first_line(text: object) -> str:
    lines = (line.strip() for line in str(text).splitlines())
    return next((line for line in lines if line), "no message")[:MAX_LINE_CHARACTERS]
