"""Sessions of Spark Connect: how they are opened, their configuration, and how they report errors.

A client of Spark Connect has SQL and DataFrames, and no JVM. `ConnectRuntime` (`zlayout.spark.session`) is the runtime
of such a session. What differs from a classic session is in `zlayout.spark` alone: other packages ask the runtime for
what it has, never for the kind of its session.
"""

from __future__ import annotations

import re
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit
from weakref import WeakSet

from zlayout.errors import EngineError, Refused, ZlayoutError
from zlayout.spark.versions import numbers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REMOTE_VARIABLE = "SPARK_REMOTE"
SECONDS_TO_ANSWER = 20  # of a server that is asked for the first time
_RETRIES = 5  # of a request to a server that is not available; pyspark's own 15 take more than ten minutes
_CLIENT_HINT = "run pip install 'zlayout[connect]', without the package pyspark; or install pyspark[connect]"
_OLDEST = (4, 0)  # the first version whose client reports the exceptions of the server
_OLDEST_HINT = "use Spark 4.0 or newer with pyspark-client; with Spark 3.5, run `zlayout apply` inside spark-submit"
# Statuses of gRPC with which a request may have been carried out, although its result is lost.
_LOST_STATUSES = frozenset({"UNAVAILABLE", "DEADLINE_EXCEEDED", "ABORTED", "DATA_LOSS", "UNKNOWN"})
# Error conditions of a session or an operation that the server no longer has, as after its restart or a timeout.
_LOST_CONDITIONS = re.compile(
    r"INVALID_HANDLE\.|INVALID_CURSOR\.|SESSION_(CLOSED|CHANGED|NOT_FOUND)|OPERATION_(ABANDONED|NOT_FOUND)"
)
_FRAME = re.compile(r"^\s*at ([\w.$/]+)\.([\w$<>]+)\(", re.M)
_THROWN = re.compile(r"(?:\A|^Caused by: )((?:[a-z_]\w*\.)+[A-Z][\w$]*)(?:: (.*))?$", re.M)
_lost: WeakSet[Any] = WeakSet()  # the sessions whose server no longer answers
_EXECUTOR = "ExecuteThreadRunner"  # the class of the server whose frames end each complete stack trace of a statement
_MAX_CAUSES = 5  # that the server reports


def is_connect(session: object) -> bool:
    """Return whether a session is one of Spark Connect."""
    return type(session).__module__.startswith(("pyspark.sql.connect", "databricks.connect"))


def remote_of(remote: str, environ: Mapping[str, str]) -> str:
    """Return the URL of the server to use; '' for none. remote: the one that the user gave to the command."""
    return remote or environ.get(REMOTE_VARIABLE, "")


def open_session(remote: str) -> SparkSession:
    """Return a new session on a server.

    Raises:
        EngineError: ZL342, if the address is invalid or the server does not answer; ZL343, if it refuses the token.
        Refused: ZL262, if the client is newer than the server, or older than 4.0.
    """
    place = place_of(remote)
    require_client()
    try:
        from pyspark.sql.connect.session import SparkSession as ConnectSession
    except ImportError as error:
        message = f"the client of Spark Connect is not complete: {error}"
        raise EngineError.of("ZL303", message, hint=_CLIENT_HINT) from error
    from pyspark.errors import PySparkException

    try:  # not by the builder, whose sessions become those of `getOrCreate`
        if not place.startswith("sc://"):  # which pyspark 4.0 accepts
            raise ValueError(place)
        session: Any = ConnectSession(connection=remote)
    except (PySparkException, ValueError) as error:
        hint = "use sc://HOST:PORT/;token=TOKEN, with ;use_ssl=true for TLS"
        raise EngineError.of("ZL342", f"invalid address of a Spark server: {place}", hint=hint) from error
    _require_answer(session, place)
    _limit_retries(session)
    try:
        server = str(session.version)
    except Exception as error:
        _lost.add(session)
        close_session(session)
        raise not_opened(place, error) from error
    try:
        require_versions(server)
    except Refused:
        close_session(session)
        raise
    return session  # type: ignore[no-any-return]


def session_beside(given: SparkSession) -> SparkSession:
    """Return a new session on the server of another one, which stays as it is.

    It is a clone, which Spark has since version 4.1. Before, it lacks what the other one has set.

    Raises:
        Refused: ZL262, if the client is newer than the server, or older than 4.0.
    """
    from pyspark.errors import PySparkException

    caller: Any = given
    require_client()
    require_versions(str(caller.version))
    try:
        session = caller.cloneSession()
    except (AttributeError, PySparkException):
        session = type(caller)(connection=caller.client._builder)
    session.release_session_on_close = True  # which pyspark 4.1 does not set in a clone
    _limit_retries(session)
    return session  # type: ignore[no-any-return]


def close_session(session: SparkSession) -> None:
    """Release a session, unless its server no longer answers, and close its connection.

    pyspark closes the connection again when Python collects the session, and then waits for requests of all other
    sessions. If Python does so in the thread in which gRPC adds tokens to requests, both wait forever.
    """
    connected: Any = session
    if session in _lost:
        connected.release_session_on_close = False
    with suppress(Exception):
        connected.stop()
    connected.client.close = lambda: None


def place_of(remote: str) -> str:
    """Return host and port of an address, without its token."""
    try:
        url = urlsplit(remote)
        return f"sc://{url.hostname}:{url.port or 15002}" if url.scheme == "sc" and url.hostname else "not sc://HOST"
    except ValueError:
        return "not sc://HOST:PORT"


def require_client() -> None:
    """Check that the client reports the exceptions of the server.

    That of Spark 3.5 has their messages alone, so that a conflict would be an unknown outcome.

    Raises:
        Refused: ZL262.
    """
    import pyspark

    if numbers(pyspark.__version__) < _OLDEST:
        message = f"the client of Spark Connect has version {pyspark.__version__}, which does not report conflicts"
        raise Refused.of("ZL262", message, hint=_OLDEST_HINT)


def require_versions(server: str) -> None:
    """Check that the client is not newer than the server: Spark guarantees only the opposite.

    Raises:
        Refused: ZL262.
    """
    import pyspark

    client = pyspark.__version__
    if numbers(client) > numbers(server):
        raise Refused.of(
            "ZL262",
            f"the client of Spark Connect has version {client}, and the server {server}",
            hint=_OLDEST_HINT
            if numbers(server) < _OLDEST
            else f"use a client that is not newer than the server: pip install 'pyspark-client=={server}'",
        )


def _require_answer(session: Any, place: str) -> None:
    import grpc

    try:
        grpc.channel_ready_future(session.client._channel).result(timeout=SECONDS_TO_ANSWER)
    except grpc.FutureTimeoutError as error:
        _lost.add(session)
        close_session(session)
        raise EngineError.of(
            "ZL342",
            f"no Spark Connect server answers at {place} within {SECONDS_TO_ANSWER} s",
            hint="check the address, whether the server runs, that no firewall drops the connection, and ;use_ssl=true",
        ) from error


def _limit_retries(session: Any) -> None:
    from pyspark.sql.connect.client.retries import DefaultPolicy

    session.client.set_retry_policies([DefaultPolicy(max_retries=_RETRIES)])


def not_opened(place: str, error: Exception) -> ZlayoutError:
    """Return ZL343 if a server refuses the token, else ZL342. place: the result of `place_of`."""
    if status_of(error) in ("UNAUTHENTICATED", "PERMISSION_DENIED"):
        hint = "check the token in the address (;token=...), and that it has not expired"
        return EngineError.of("ZL343", f"the Spark server at {place} refuses the token", hint=hint)
    hint = "check that this is a Spark Connect server, and see its log"
    return EngineError.of("ZL342", f"the Spark server at {place} opens no session", hint=hint, detail=_line(error))


def explicit(session: SparkSession) -> frozenset[str]:
    """Return the names of the settings that a session has set. `conf.get` also returns defaults."""
    return frozenset(str(row[0]) for row in session.sql("SET").collect())


class _WithoutWarnings:
    """Ignores all warnings while a thread is in a block of it. The filters of warnings are those of the process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._filters: Any = None

    def __enter__(self) -> None:
        with self._lock:
            if not self._inside:
                self._filters = warnings.catch_warnings()
                self._filters.__enter__()
                warnings.simplefilter("ignore")
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                self._filters.__exit__(*error)


_without_warnings = _WithoutWarnings()


def without_warnings() -> AbstractContextManager[None]:
    """Ignore the warnings of a server about deprecated settings in the block."""
    return _without_warnings


def set_conf(session: SparkSession, key: str, value: str) -> None:
    """Set one setting of a session.

    Raises:
        Refused: ZL263, if the server does not allow it.
    """
    from pyspark.errors import PySparkException

    try:
        session.conf.set(key, value)
    except PySparkException as error:
        if is_lost(error):
            raise
        message = f"the Spark server does not let its sessions set {key}"
        hint = "use a server that allows it: serverless compute of Databricks allows a few settings only"
        raise Refused.of("ZL263", message, hint=hint) from error


@contextmanager
def statement_errors(session: SparkSession) -> Iterator[None]:
    """Raise ConnectionError for every error in the block that a server did not send.

    Such an error, as one of a library of the client or a warning that is an error, states nothing of the statement,
    which the server may still carry out. The block of a classic session is left alone.
    """
    if not is_connect(session):
        yield
        return
    try:
        with without_warnings():
            yield
    except Exception as error:
        if is_server_error(error):
            raise
        raise ConnectionError(f"{type(error).__name__}: {_line(error)}") from error


@contextmanager
def marking_lost(session: SparkSession) -> Iterator[None]:
    """Remember a session that is lost in the block: each further request would wait as long as all of its retries."""
    try:
        yield
    except Exception as error:
        if is_lost(error) or isinstance(error, ConnectionError):
            _lost.add(session)
        raise


def mark_lost(session: SparkSession) -> None:
    """Remember that a session must not be used again."""
    _lost.add(session)


def was_lost(session: SparkSession) -> bool:
    """Return whether a session must not be used again: it was lost, or its configuration could not be restored."""
    return session in _lost


# Errors of a server. The client gets the message, the error condition and, usually, the stack traces as text.


class Thrown(NamedTuple):
    """A Java exception of the server, and its message."""

    name: str
    message: str


def status_of(error: BaseException) -> str:
    """Return the name of the status of gRPC, '' if the error has none.

    An error of pyspark before 4.1 has it only in its context, the error of gRPC.
    """
    for each in filter(None, (error, error.__context__)):
        code = getattr(each, "_grpc_status_code", None) or (each.code() if hasattr(each, "code") else None)
        if code is not None:
            return str(getattr(code, "name", ""))
    return ""


def is_server_error(error: BaseException) -> bool:
    """Return whether an error was raised by the client of Spark Connect."""
    return any(
        each.__module__.startswith(("pyspark.errors.exceptions.connect", "grpc")) for each in type(error).__mro__
    )


def is_lost(error: BaseException) -> bool:
    """Return whether an error means that the connection or the session was lost, so that the result is unknown."""
    if not is_server_error(error):
        return False
    condition = getattr(error, "_errorClass", None) or ""
    if _LOST_CONDITIONS.search(condition) or (not condition and _LOST_CONDITIONS.search(_line(error))):
        return True
    return not condition and not trace_of(error) and status_of(error) in _LOST_STATUSES


def trace_of(error: BaseException) -> str:
    """Return the stack traces of the server, '' if there are none."""
    return str(getattr(error, "_stacktrace", None) or "")


def thrown_by(error: BaseException) -> list[Thrown]:
    """Return the exceptions of the server, from the outermost to its last known cause; empty without a trace."""
    found = [Thrown(name, message or "") for name, message in _THROWN.findall(trace_of(error))]
    if found and not found[0].message:  # the trace has no message of the outermost exception
        found[0] = Thrown(found[0].name, str(getattr(error, "_message", "") or ""))
    return found


def frames_of(error: BaseException) -> list[tuple[str, str]]:
    """Return class and method of each frame of the stack traces of the server."""
    return _FRAME.findall(trace_of(error))


def is_before_execution(error: BaseException) -> bool:
    """Return whether the server refused a statement when it parsed or analyzed it."""
    from pyspark.errors import ParseException

    return is_server_error(error) and isinstance(error, ParseException)


def hides_frames(error: BaseException) -> bool:
    """Return whether the stack traces of an error of the server are missing or may be incomplete.

    Its method cannot be found then, so it may have been raised during a commit.
    """
    if not is_server_error(error) or is_before_execution(error):
        return False
    complete = any(_EXECUTOR in owner for owner, _ in frames_of(error))
    return not complete or len(thrown_by(error)) >= _MAX_CAUSES


def _line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
