"""A commit that gives no answer: it is in the table, and counted as made, or it is reported as unknown; never half."""

import sqlite3
from typing import Any

import pytest
from py4j.protocol import Py4JNetworkError
from reliability import count
from spark.faults.audit import audit, converge, promised
from spark.faults.points import run, run_with
from spark.faults.tables import Table, first_rows

from zlayout.formats.delta.write.jvm import DeltaJvm
from zlayout.formats.iceberg.write.commit import Committer

ERRORS = {
    "gateway": Py4JNetworkError("Answer from Java side is empty"),
    "connection": ConnectionResetError("connection reset by peer"),
    "timeout": TimeoutError("timed out"),
    "other": RuntimeError("a hook after the commit failed"),
}


rarer = (pytest.param(name, marks=pytest.mark.long) for name in ("connection", "timeout"))
each_error = pytest.mark.parametrize("error", ["gateway", "other", *rarer])


class Answerless:
    """A transaction whose commit raises `error`, after it was sent or without."""

    def __init__(self, transaction: Any, error: Exception, *, sent: bool) -> None:
        self._transaction, self._error, self._sent = transaction, error, sent

    def commitTransaction(self) -> None:
        if self._sent:
            self._transaction.commitTransaction()
        raise self._error


def lose_answers(patch: pytest.MonkeyPatch, error: Exception, *, sent: bool) -> None:
    """In both formats; only the rewrite's own commits."""
    send, prepare = DeltaJvm.commit, Committer.prepare

    def delta(*arguments: Any) -> int:
        if sent:
            send(*arguments)
        raise error

    def iceberg(*arguments: Any) -> Any:
        transaction, snapshot = prepare(*arguments)
        return Answerless(transaction, error, sent=sent), snapshot

    patch.setattr(DeltaJvm, "commit", delta)
    patch.setattr(Committer, "prepare", iceberg)


@each_error
def test_a_commit_that_was_made_is_found(table: Table, monkeypatch: pytest.MonkeyPatch, error: str) -> None:
    row_ids = table.row_ids()
    count("faults")
    with promised():
        with monkeypatch.context() as patch:
            lose_answers(patch, ERRORS[error], sent=True)
            applied = run(table)
        assert applied.error is None, applied.error
        assert [c.version for c in applied.commits] == [table.backend.observe(table.name, ()).version]
        assert applied.exit_code == 0
        audit(table, first_rows(), row_ids)


@each_error
def test_a_commit_that_is_not_there_is_unknown(table: Table, monkeypatch: pytest.MonkeyPatch, error: str) -> None:
    row_ids, version = table.row_ids(), table.backend.observe(table.name, ()).version
    count("faults")
    with promised():
        with monkeypatch.context() as patch:
            lose_answers(patch, ERRORS[error], sent=False)
            applied = run(table)
        assert applied.commits == []
        assert applied.error.diagnostics[0].code == "ZL331"
        assert applied.run_id in str(applied.error)
        assert table.backend.observe(table.name, ()).version == version
        converge(table)
        audit(table, first_rows(), row_ids)


@pytest.mark.parametrize("unmade", ["iceberg-2-merge-on-read"], indirect=True)
def test_a_catalog_that_cannot_be_reached_is_unknown(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """The database of the Iceberg catalog is locked by someone: neither the commit nor a look at it gets through."""
    row_ids = table.row_ids()
    database = sqlite3.connect(str(table.catalog.options["uri"]).removeprefix("sqlite:///"), isolation_level=None)
    count("faults")
    with promised():
        try:
            applied = run_with(table, "before send", lambda: database.execute("BEGIN EXCLUSIVE"), monkeypatch)
        finally:
            database.close()
        assert applied.commits == []
        assert applied.error.diagnostics[0].code == "ZL331"
        converge(table)
        audit(table, first_rows(), row_ids)
