"""Errors of a Spark Connect server decide the outcome of a statement. The client itself is not installed here."""

import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.errors import PySparkException

from zlayout.errors import CommitConflict, CommitUnknown, EngineError, Location, Refused
from zlayout.formats.delta.write.transaction import FAILURES
from zlayout.formats.iceberg.write.jvm import FAILURES as OF_ICEBERG
from zlayout.formats.kernel.outcome import ran
from zlayout.spark import connect
from zlayout.spark.connect import is_connect, place_of, remote_of, statement_errors, without_warnings
from zlayout.spark.jvm import session_conf
from zlayout.spark.session import ConnectRuntime
from zlayout.spec.model import CatalogConfig, Project, SparkConfig, TableName

SERVER = "\tat org.apache.spark.sql.connect.execution.ExecuteThreadRunner.executeInternal(ExecuteThreadRunner.scala:1)"
WRITE = "\tat org.apache.spark.sql.delta.files.TransactionalWrite.writeFiles(TransactionalWrite.scala:1)"
_DELTA = "org.apache.spark.sql.delta.OptimisticTransactionImpl"
COMMIT = f"\tat {_DELTA}.doCommitRetryIteratively(OptimisticTransaction.scala:1)"
PREPARE = f"\tat {_DELTA}.$anonfun$prepareCommit$1(OptimisticTransaction.scala:1)"
FULL = "java.io.IOException"
PLACE = Location("zlayout.yaml")
CONFLICT = "io.delta.exceptions.ConcurrentDeleteReadException"


def server_error(*trace: str, condition: str = "", status: str = "INTERNAL") -> PySparkException:
    """Return an error as the client raises it, with these attributes."""
    kind = type("SparkConnectGrpcException", (PySparkException,), {"__module__": "pyspark.errors.exceptions.connect"})
    error: Any = kind("it failed")
    error._errorClass, error._stacktrace = condition or None, "\n".join(trace)
    error._grpc_status_code = type("Code", (), {"name": status})
    return error  # type: ignore[no-any-return]


def outcome_of(error: Exception) -> EngineError:
    def run() -> None:
        raise error

    found, failure = ran("rewriting", run, list, FAILURES)
    assert found == []
    assert failure is not None
    return failure


@pytest.mark.parametrize(
    ("error", "kind", "code"),
    [
        (server_error(FULL, WRITE, SERVER), EngineError, "ZL314"),  # before any commit
        (server_error("a.B", SERVER, f"Caused by: {CONFLICT}: deleted", COMMIT), CommitConflict, "ZL321"),
        (server_error(FULL, PREPARE, SERVER), EngineError, "ZL314"),  # refused before the write
        (server_error(FULL, PREPARE, COMMIT, SERVER), CommitUnknown, "ZL331"),
        (server_error(FULL, COMMIT, SERVER), CommitUnknown, "ZL331"),
        (server_error(FULL, WRITE), CommitUnknown, "ZL331"),  # a trace that was cut
        (server_error(FULL, PREPARE), CommitUnknown, "ZL331"),
        (server_error(FULL, SERVER, *[f"Caused by: {FULL}: x"] * 4), CommitUnknown, "ZL331"),  # causes that were cut
        (server_error(), CommitUnknown, "ZL331"),
        (server_error(condition="OPERATION_CANCELED"), CommitUnknown, "ZL331"),
        (server_error(condition="INVALID_HANDLE.SESSION_CLOSED"), CommitUnknown, "ZL331"),
        (server_error(status="UNAVAILABLE"), CommitUnknown, "ZL331"),
        (ConnectionError("reset"), CommitUnknown, "ZL331"),
    ],
)
def test_only_what_a_complete_trace_proves_is_known(error: Exception, kind: type[EngineError], code: str) -> None:
    failure = outcome_of(error)
    assert type(failure) is kind
    assert failure.diagnostics[0].code == code


def session_of(module: str) -> Any:
    return type("SparkSession", (), {"__module__": module})()


def test_an_error_of_the_client_is_a_lost_connection() -> None:
    with (
        pytest.raises(ConnectionError, match="UserWarning: retries"),
        statement_errors(session_of("pyspark.sql.connect.session")),
    ):
        raise UserWarning("retries exceeded")
    refused = server_error(condition="X")
    with pytest.raises(PySparkException) as raised, statement_errors(session_of("pyspark.sql.connect.session")):
        raise refused
    assert raised.value is refused
    with pytest.raises(UserWarning), statement_errors(session_of("pyspark.sql.session")):
        raise UserWarning("x")


def test_the_status_of_an_error_of_pyspark_4_0_is_in_its_context() -> None:
    unavailable = type("Code", (), {"name": "UNAVAILABLE"})
    error: Any = server_error()
    del error._grpc_status_code
    assert (connect.status_of(error), connect.is_lost(error)) == ("", False)
    error.__context__ = type("RpcError", (Exception,), {"code": lambda _: unavailable})()
    assert (connect.status_of(error), connect.is_lost(error)) == ("UNAVAILABLE", True)


def test_a_session_is_remembered_as_lost() -> None:
    sessions = [session_of("pyspark.sql.connect.session") for _ in range(2)]
    for session, error in zip(sessions, (server_error(status="UNAVAILABLE"), server_error(FULL, SERVER)), strict=True):
        with pytest.raises(PySparkException), connect.marking_lost(session):
            raise error
    assert [connect.was_lost(session) for session in sessions] == [True, False]


def test_the_server_is_that_of_the_option_or_of_the_environment() -> None:
    assert remote_of("sc://a", {"SPARK_REMOTE": "sc://b"}) == "sc://a"
    assert remote_of("", {"SPARK_REMOTE": "sc://b"}) == "sc://b"
    assert remote_of("", {}) == ""


@pytest.mark.parametrize(
    ("remote", "place"),
    [
        ("sc://host/;token=secret", "sc://host:15002"),
        ("sc://user@host:443/;use_ssl=true;token=secret", "sc://host:443"),
        ("http://host/;token=secret", "not sc://HOST"),
        ("sc://host:secret/", "not sc://HOST:PORT"),
    ],
)
def test_messages_name_a_server_without_its_token(remote: str, place: str) -> None:
    assert place_of(remote) == place


def test_sessions_of_vendors_are_recognized() -> None:
    assert is_connect(session_of("databricks.connect.session"))
    assert is_connect(session_of("pyspark.sql.connect.session"))
    assert not is_connect(session_of("pyspark.sql.session"))


class Conf(dict[str, str]):
    """The configuration of a session whose server stops to answer after `left` requests."""

    left = 1000

    def _request(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise server_error(status="UNAVAILABLE")

    def set(self, key: str, value: str) -> None:
        self._request()
        self[key] = value

    def unset(self, key: str) -> None:
        self._request()
        del self[key]


def fake_session() -> Any:
    """Return a session of Spark Connect without a server."""
    session = session_of("pyspark.sql.connect.session")
    session.conf, session.release_session_on_close, session.stopped = Conf({"kept": "1"}), True, False
    session.sql = lambda _: type("Frame", (), {"collect": lambda _: [(key, "") for key in session.conf]})()
    session.addTag = lambda _: None
    session.registerProgressHandler = lambda handler: setattr(session, "handler", handler)
    session.stop = lambda: setattr(session, "stopped", True)
    session.client = SimpleNamespace()
    return session


def test_settings_are_restored() -> None:
    session = fake_session()
    with session_conf(session, {"kept": "2", "new": "3"}):
        assert session.conf == {"kept": "2", "new": "3"}
    assert session.conf == {"kept": "1"}
    with pytest.raises(KeyError), session_conf(session, {"new": "3"}):
        raise KeyError
    assert session.conf == {"kept": "1"}


def test_a_setting_that_the_server_does_not_allow_is_refused() -> None:
    session = fake_session()
    session.conf.set = lambda *_: (_ for _ in ()).throw(server_error(FULL, condition="CANNOT_MODIFY_CONFIG"))
    with pytest.raises(Refused, match="ZL263 the Spark server does not let its sessions set new"):
        session_conf(session, {"new": "3"}).__enter__()


def test_what_fails_to_restore_does_not_replace_the_error_and_the_session_is_not_used_again() -> None:
    session = fake_session()
    session.conf.left = 1
    with pytest.raises(CommitUnknown, match="ZL331"), session_conf(session, {"new": "3"}):
        raise CommitUnknown.of("ZL331", "unknown")
    assert connect.was_lost(session)


def test_a_lost_session_is_followed_by_a_new_one(monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Any] = []

    def open_session(_: str) -> Any:
        opened.append(fake_session())
        return opened[-1]

    monkeypatch.setattr("zlayout.spark.session.open_session", open_session)
    runtime = ConnectRuntime(Project(Path(), {}, SparkConfig(None, {}), ()), (), "sc://host")
    assert not runtime.has_jvm
    assert runtime.session is runtime.session is opened[0]
    assert opened[0].conf["spark.sql.session.timeZone"] == "UTC"
    connect.mark_lost(opened[0])
    assert runtime.session is opened[1]
    assert (opened[0].stopped, opened[0].release_session_on_close) == (True, False)
    runtime.stop()
    assert (opened[1].stopped, opened[1].release_session_on_close) == (True, True)


def test_the_tasks_of_running_statements_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zlayout.spark.session.open_session", lambda _: fake_session())
    runtime = ConnectRuntime(Project(Path(), {}, SparkConfig(None, {}), ()), (), "sc://host")
    runtime.workers = runtime.for_threads(2)
    sessions: list[Any] = [worker.session for worker in runtime.workers]
    assert runtime.tasks() == (0, 0)

    def report(at: int, *stages: tuple[int, int], done: bool = False) -> None:
        given = [SimpleNamespace(num_completed_tasks=ended, num_tasks=tasks) for ended, tasks in stages]
        sessions[at].handler(stages=given, inflight_tasks=1, operation_id="id", done=done)

    report(0, (8, 8), (1, 4))
    report(1, (2, 5))
    assert [worker.tasks() for worker in runtime.workers] == [(9, 12), (2, 5)]
    assert runtime.tasks() == (11, 17)
    report(0, (8, 8), (1, 4), done=True)
    assert runtime.tasks() == (2, 5)
    sessions[1].handler(stages=None, inflight_tasks=0, operation_id=None, done=False)
    assert runtime.tasks() == (0, 0)
    assert not runtime.started


@pytest.mark.parametrize("lost", [False, True])
def test_a_cancel_opens_no_session(lost: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    session, interrupted = fake_session(), list[str]()
    session.interruptTag = interrupted.append
    monkeypatch.setattr("zlayout.spark.session.open_session", lambda _: session)
    runtime = ConnectRuntime(Project(Path(), {}, SparkConfig(None, {}), ()), (), "sc://host")
    runtime.cancellable = True
    assert runtime.cancel()
    assert not runtime.started
    assert runtime.session is session
    if lost:
        connect.mark_lost(session)
    monkeypatch.setattr("zlayout.spark.session.open_session", lambda _: pytest.fail("it has opened one"))
    assert runtime.cancel()
    assert len(interrupted) == (not lost)
    assert not session.stopped


def test_a_session_that_cannot_be_prepared_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    session = fake_session()
    session.conf.left = 2
    monkeypatch.setattr("zlayout.spark.session.open_session", lambda _: session)
    runtime = ConnectRuntime(Project(Path(), {}, SparkConfig(None, {}), ()), (), "sc://host/;token=secret")
    with pytest.raises(EngineError, match="ZL342 the Spark server at sc://host:15002 opens no session") as raised:
        _ = runtime.session
    assert "secret" not in str(raised.value)
    assert session.stopped
    assert not runtime.started


@pytest.mark.parametrize(
    ("cause", "kind"),
    [
        ("ValidationException: Missing required files to delete", CommitConflict),
        ("CommitFailedException: the metadata has changed", CommitConflict),
        ("CommitStateUnknownException: no answer", CommitUnknown),
        ("NotFoundException: no file", EngineError),
    ],
)
def test_the_cause_decides_the_outcome_of_the_procedure_of_iceberg(cause: str, kind: type[EngineError]) -> None:
    def run() -> None:
        raise server_error("java.lang.RuntimeException", SERVER, f"Caused by: org.apache.iceberg.exceptions.{cause}")

    _, failure = ran("rewriting", run, list, OF_ICEBERG)
    assert type(failure) is kind


def test_each_thread_has_a_session_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zlayout.spark.session.open_session", lambda _: fake_session())
    monkeypatch.setenv("PYSPARK_PIN_THREAD", "false")  # which concerns py4j only
    runtime = ConnectRuntime(Project(Path(), {}, SparkConfig(None, {}), ()), (), "sc://host")
    one, other = runtime.for_threads(2)
    with one, other:
        assert len({one.session, other.session}) == 2
    assert not runtime.started


def test_the_tables_of_iceberg_are_refreshed_in_the_session_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    given, statements = fake_session(), list[str]()
    given.sql = lambda text: statements.append(text) or SimpleNamespace(collect=list)
    monkeypatch.setattr("zlayout.spark.session.session_beside", lambda _: fake_session())
    catalogs = {
        "ice": CatalogConfig("ice", "iceberg", "sql", {}, PLACE),
        "lake": CatalogConfig("lake", "delta", "path", {}, PLACE),
    }
    refresh = ["REFRESH TABLE `ice`.`db`.`t`"]
    for opened, lost, refreshed in ((True, False, refresh), (True, True, []), (False, False, refresh)):
        runtime = ConnectRuntime(Project(Path(), catalogs, SparkConfig(None, {}), ()), (), given)
        own = runtime.session if opened else None
        for name in ("ice.db.t", "ice.db.${x}", "lake.db.t"):
            catalog, *namespace, last = name.split(".")
            runtime.committed(TableName(catalog, tuple(namespace), last))
        if lost and own is not None:
            connect.mark_lost(own)
        runtime.stop()
        assert statements == refreshed
        statements.clear()


def test_warnings_are_shown_again_after_the_last_thread() -> None:
    before = list(warnings.filters)
    first, second = without_warnings(), without_warnings()
    with first:
        second.__enter__()
    warnings.warn("ignored", stacklevel=1)
    second.__exit__(None, None, None)
    assert list(warnings.filters) == before
    with pytest.raises(UserWarning):
        warnings.warn("an error in tests", stacklevel=1)


def test_spark_3_5_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that knows only the messages of a server, before it connects; and a server that fits no other client."""
    with pytest.raises(Refused, match=r"ZL262 .* and the server 3\.5\.7 \(use Spark 4\.0 or newer"):
        connect.require_versions("3.5.7")
    monkeypatch.setattr("pyspark.__version__", "3.5.7")
    monkeypatch.setattr(connect, "_require_answer", lambda *_: pytest.fail("it has connected"))
    with pytest.raises(Refused, match=r"ZL262 .* version 3\.5\.7, which does not report conflicts"):
        connect.open_session("sc://host")
    with pytest.raises(Refused, match=r"ZL262 .* version 3\.5\.7, which does not report conflicts"):
        connect.session_beside(fake_session())
