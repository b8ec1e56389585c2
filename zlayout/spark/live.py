"""Runs zlayout in an existing Spark session, and in clones of a session for threads.

`LiveRuntime` uses the session of a caller and leaves it as it was. The session must have the catalogs and the S3
endpoints of the project. A plan that was made from the files of one object store must not be carried out on another
object store that has a bucket of the same name. `WorkerRuntime` gives each of several threads a session of its own.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from zlayout.errors import Diagnostic, EngineError, Refused
from zlayout.spark.configuration import S3_CLIENT, SESSION_CONF, TIME_ZONE, connect_refused
from zlayout.spark.jvm import java_sessions, jvm_of, refresh_table
from zlayout.spark.session import SparkRuntime, set_time_zone
from zlayout.spec.client_options import (
    RESOLVING_FILE_IO,
    S3_FILE_IO,
    Store,
    buckets,
    s3_access,
    spark_catalog_conf,
    stores,
)
from zlayout.spec.formats import FORMATS
from zlayout.spec.model import CatalogConfig, Project, TableName
from zlayout.table.location import S3_ENDPOINT_VARIABLES, canonical

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
        if type(self._given).__module__.startswith("pyspark.sql.connect"):
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

    def stop(self) -> None:
        """Remove the clone from the SparkContext, and refresh the changed tables in the caller's session."""
        if self._session is None:
            return
        from py4j.protocol import Py4JError

        clone, self._session = self._session, None
        with suppress(OSError, Py4JError):  # if the JVM has died, there is nothing to remove
            self._activate(self._active)
            # pyspark sets them to the clone, for example in `createDataFrame`, and returns it as the active session
            _class_attributes(self._of_pyspark)
            remove_listeners(clone)
            for number, cached in _persistent(clone):
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
        for catalog in self._project.catalogs.values():
            if FORMATS[catalog.format].spark_catalog:  # a cache of tables would hide commits of other writers
                clone.conf.set(f"{_CATALOG}.{catalog.name}.cache-enabled", "false")
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


def runtime_for(project: Project, session: SparkSession | None, catalogs: Iterable[CatalogConfig]) -> SparkRuntime:
    """Return a runtime on the caller's session, or on a new session.

    Args:
        project: The project.
        session: The caller's session, which must be able to write to tables of `catalogs`. None for a new session.
        catalogs: The catalogs whose tables are to be written.

    Raises:
        Refused: ZL204, ZL207, ZL208, see `LiveRuntime.require`; ZL209, if `session` is None and a session is running.
    """
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
    """Return host and port of an endpoint, '' for an endpoint of AWS and for no endpoint."""
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

    def cancel_jobs(self) -> None:
        """Cancel the jobs of this thread."""
        self._base.session.sparkContext.cancelJobsWithTag(self._name)

    def stop(self) -> None:
        """Remove the clone from the SparkContext. The base runtime stops the SparkContext."""
        if self._session is None:
            return
        from py4j.protocol import Py4JError

        clone, self._session = self._session, None
        with suppress(OSError, Py4JError):  # if the JVM has died, there is nothing to remove
            remove_listeners(clone)

    def _start(self) -> SparkSession:
        with self._starting:
            clone = clone_of(self._base.session)
        context: Any = clone.sparkContext
        context.addJobTag(self._name)
        context.setLocalProperty(_POOL, self._name)
        return clone
