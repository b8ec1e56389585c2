"""Whether a commit happened, asked after every kind of error; and Java's errors as zlayout's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from model.java import JavaError
from py4j.protocol import Py4JNetworkError
from pyspark.errors import PySparkException, PySparkValueError

from zlayout.errors import CommitConflict, CommitUnknown, EngineError, Refused, TableError
from zlayout.formats.iceberg.write.jvm import FAILURES
from zlayout.formats.kernel.outcome import Failures, java_errors, ran, read_outcome, settled, translated


class Throwable:
    """Looks like a java.lang.Throwable to py4j's callers."""

    def __init__(self, name: str, message: str, cause: Throwable | None = None) -> None:
        self._name, self._message, self._cause = name, message, cause

    def getClass(self) -> Throwable:
        return self

    def getName(self) -> str:
        return self._name

    def getSuperclass(self) -> None:
        return None

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
    assert settled("committing", lambda: "sent", raising(AssertionError()), FAILURES) == "sent"


@pytest.mark.parametrize("error", [CONFLICT, SQL, LOST, ConnectionResetError("gone"), TimeoutError("late")], ids=str)
def test_a_commit_that_is_in_the_table_is_done_whatever_was_raised(error: Exception) -> None:
    assert settled("committing", raising(error), lambda: "found", FAILURES) == "found"


@pytest.mark.parametrize("error", [SQL, LOST, ConnectionResetError("gone"), TimeoutError("late")], ids=str)
def test_a_commit_that_is_not_there_may_still_come(error: Exception) -> None:
    with pytest.raises(CommitUnknown, match=r"ZL331 .*unknown: committing run r1: .*does not have the commit yet"):
        settled("committing run r1", raising(error), lambda: None, FAILURES)


def test_a_conflict_that_left_nothing_is_a_conflict() -> None:
    with pytest.raises(CommitConflict) as raised:
        settled("committing", raising(CONFLICT), lambda: None, FAILURES)
    assert raised.value is CONFLICT


@pytest.mark.parametrize("error", [CONFLICT, SQL, LOST], ids=str)
@pytest.mark.parametrize("look", [TableError.of("ZL121", "no catalog"), OSError("disk"), KeyError("x")], ids=str)
def test_a_look_up_that_fails_leaves_the_outcome_unknown(error: Exception, look: Exception) -> None:
    with pytest.raises(CommitUnknown, match=r"run r1: .*the table cannot be read"):
        settled("committing run r1", raising(error), raising(look), FAILURES)


def test_a_look_up_without_a_commit_returns_or_is_unknown() -> None:
    assert read_outcome("x", lambda: 3, FAILURES, None) == 3
    with pytest.raises(CommitUnknown, match="ZL331"):
        read_outcome("x", raising(OSError("disk")), FAILURES, None)


@pytest.mark.parametrize(
    ("cause", "kind", "text"),
    [
        ("org.apache.iceberg.exceptions.ValidationException", CommitConflict, "ZL321 working: .*the cause"),
        ("org.apache.iceberg.exceptions.CommitStateUnknownException", CommitUnknown, "ZL331 .*working: the cause"),
        ("java.sql.SQLException", EngineError, "ZL314 working failed: SQLException: the cause"),
    ],
)
def test_what_pyspark_converted_is_seen_through(cause: str, kind: type[EngineError], text: str) -> None:
    with pytest.raises(EngineError, match=text) as raised, java_errors("working", FAILURES):
        raise captured(cause)
    assert type(raised.value) is kind
    assert "more" not in str(raised.value)


def test_a_pyspark_error_that_never_was_in_java() -> None:
    with (
        pytest.raises(EngineError, match="ZL314 working failed: PySparkValueError: no such mode"),
        java_errors("working", FAILURES),
    ):
        raise PySparkValueError("no such mode")


def test_a_conflict_of_a_subclass_and_the_reason_that_a_hint_is_about() -> None:
    failures = Failures(
        conflicts=frozenset({"java.util.ConcurrentModificationException"}),
        history="the log",
        hints={"CONSTRAINT": "correct the rows"},
    )
    conflict = translated(
        JavaError("delta.ConcurrentDelete", "java.util.ConcurrentModificationException"), "x", failures
    )
    assert isinstance(conflict, CommitConflict)
    assert "(ConcurrentDelete)" in str(conflict)
    failed = translated(JavaError("java.io.IOException", message="CONSTRAINT broken"), "x", failures)
    assert (type(failed), failed.diagnostics[0].hint) == (EngineError, "correct the rows")


@pytest.mark.parametrize(
    ("reason", "hint"),
    [
        ("No space left on device", "SPARK_LOCAL_DIRS"),
        ("The provided token has expired. (Service: S3, Status Code: 400)", "renew the credentials"),
        ("FORBIDDEN (Service: S3, Status Code: 403, Request ID: x)", "let the credentials of Spark read and write"),
        ("/t/part-0.parquet (Read-only file system)", "write to it"),
        ("/t/part-0.parquet (Permission denied)", "write to it"),
        ("other", "Spark's log"),
    ],
)
def test_the_hint_fits_a_disk_that_cannot_be_written(reason: str, hint: str) -> None:
    failed = translated(JavaError("java.io.IOException", message=reason), "x", FAILURES)
    assert hint in failed.diagnostics[0].hint
    assert reason in failed.diagnostics[0].detail


@pytest.mark.parametrize(
    ("error", "kind"),
    [(LOST, CommitUnknown), (ValueError("no such column"), EngineError), (CONFLICT, CommitConflict)],
    ids=str,
)
def test_a_command_that_left_nothing_may_still_commit_only_if_the_jvm_was_lost(
    error: Exception, kind: type[EngineError]
) -> None:
    commits, failure = ran("rewriting", raising(error), list, FAILURES)
    assert (commits, type(failure)) == ([], kind)


def test_a_command_that_committed_and_failed_has_both() -> None:
    commits, failure = ran("rewriting", raising(LOST), lambda: [3], FAILURES)
    assert commits == [3]
    assert failure.__cause__ is LOST


def test_a_command_that_was_refused_is_not_looked_up() -> None:
    with pytest.raises(Refused):
        ran("rewriting", raising(Refused.of("ZL225", "changed")), raising(AssertionError()), FAILURES)


def test_an_error_before_the_commit_was_written_is_no_unknown_outcome() -> None:
    failures = replace(FAILURES, unsent=lambda _: True)
    with pytest.raises(EngineError, match="ZL314") as raised:
        settled("committing", raising(SQL), lambda: None, failures)
    assert not isinstance(raised.value, CommitUnknown)


def test_a_jvm_that_dies_while_it_is_asked_for_the_reason_leaves_the_outcome_unknown() -> None:
    def gone(_: Exception) -> bool:
        raise LOST

    with pytest.raises(CommitUnknown):
        settled("committing", raising(SQL), lambda: None, replace(FAILURES, unsent=gone))
