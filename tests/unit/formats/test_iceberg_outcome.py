"""Whether a commit happened, asked after every kind of error; and Java's errors as zlayout's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException, PySparkValueError

from zlayout.errors import CommitConflict, CommitUnknown, EngineError, TableError
from zlayout.formats.iceberg.write.jvm import java_errors
from zlayout.formats.iceberg.write.outcome import looked_up, settled


class Throwable:
    """Looks like a java.lang.Throwable to py4j's callers."""

    def __init__(self, name: str, message: str, cause: Throwable | None = None) -> None:
        self._name, self._message, self._cause = name, message, cause

    def getClass(self) -> Throwable:
        return self

    def getName(self) -> str:
        return self._name

    def getMessage(self) -> str:
        return self._message

    def getCause(self) -> Throwable | None:
        return self._cause


def captured(name: str) -> PySparkException:
    """As pyspark raises it; its own class asks a JVM for its message."""
    error = PySparkException("wrong")
    vars(error)["_origin"] = Throwable(
        "java.lang.IllegalArgumentException", "wrong", Throwable(name, "the cause\nmore")
    )
    return error


CONFLICT = CommitConflict.of("ZL321", "taken")
SQL = captured("org.apache.iceberg.jdbc.UncheckedSQLException")
LOST = Py4JNetworkError("Answer from Java side is empty")


def raising(error: Exception) -> Callable[[], str]:
    def fail() -> str:
        raise error

    return fail


def test_a_commit_without_an_error_is_not_looked_up() -> None:
    assert settled("committing", lambda: "sent", raising(AssertionError())) == "sent"


@pytest.mark.parametrize("error", [CONFLICT, SQL, LOST, ConnectionResetError("gone"), TimeoutError("late")], ids=str)
def test_a_commit_that_is_in_the_table_is_done_whatever_was_raised(error: Exception) -> None:
    assert settled("committing", raising(error), lambda: "found") == "found"


@pytest.mark.parametrize("error", [SQL, LOST, ConnectionResetError("gone"), TimeoutError("late")], ids=str)
def test_a_commit_that_is_not_there_may_still_come(error: Exception) -> None:
    with pytest.raises(CommitUnknown, match="ZL331 committing run r1: whether"):
        settled("committing run r1", raising(error), lambda: None)


def test_a_conflict_that_left_nothing_is_a_conflict() -> None:
    with pytest.raises(CommitConflict) as raised:
        settled("committing", raising(CONFLICT), lambda: None)
    assert raised.value is CONFLICT


@pytest.mark.parametrize("error", [CONFLICT, SQL, LOST], ids=str)
@pytest.mark.parametrize("look", [TableError.of("ZL121", "no catalog"), OSError("disk"), KeyError("x")], ids=str)
def test_a_look_up_that_fails_leaves_the_outcome_unknown(error: Exception, look: Exception) -> None:
    with pytest.raises(CommitUnknown, match=r"run r1: .*the table cannot be read"):
        settled("committing run r1", raising(error), raising(look))


def test_a_look_up_without_a_commit_returns_or_is_unknown() -> None:
    assert looked_up("x", lambda: 3) == 3
    with pytest.raises(CommitUnknown, match="ZL331"):
        looked_up("x", raising(OSError("disk")))


@pytest.mark.parametrize(
    ("cause", "kind", "text"),
    [
        ("org.apache.iceberg.exceptions.ValidationException", CommitConflict, "ZL321 working: .*the cause"),
        ("org.apache.iceberg.exceptions.CommitStateUnknownException", CommitUnknown, "ZL331 working: .*the cause"),
        ("java.sql.SQLException", EngineError, "ZL314 working failed: SQLException: the cause"),
    ],
)
def test_what_pyspark_converted_is_seen_through(cause: str, kind: type[EngineError], text: str) -> None:
    with pytest.raises(EngineError, match=text) as raised, java_errors("working"):
        raise captured(cause)
    assert type(raised.value) is kind
    assert "more" not in str(raised.value)


def test_a_pyspark_error_that_never_was_in_java() -> None:
    with pytest.raises(EngineError, match="ZL314 working failed: no such mode"), java_errors("working"):
        raise PySparkValueError("no such mode")
