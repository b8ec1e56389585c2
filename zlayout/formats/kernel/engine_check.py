"""Whether the Spark at hand is one whose internals engine `zlayout` may call; asked before anything is written.

Engine `zlayout` stands on calls that no version promises to keep. So it runs where the versions are those it was
tested with and every call is there, and gives way to engine `native` elsewhere. Engine `native` needs a few of the
calls too, to record what it laid out: where those are missing, or Spark has no JVM at hand, the work is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zlayout.errors import Diagnostic, EngineError, Refused, ZlayoutError
from zlayout.formats.base import Notice
from zlayout.spark import versions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONNECT_CONF = ("spark.remote",)
_CONNECT_ENVIRONMENT = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
_MODE_CONF, _MODE_ENVIRONMENT = "spark.api.mode", "SPARK_API_MODE"

# `public java.lang.String a.b.Some.method(int,java.lang.String) throws ...`
_SIGNATURE = re.compile(r"\.([\w$]+)\(([^)]*)\)")

Calls = Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Internals:
    """What zlayout calls in a format's jar. Calls: class -> `method/arguments`, `new/arguments` for a constructor.

    marker: a class that is there when the jar is; version: asks the JVM then. shared: calls of both engines; engine:
    those of engine zlayout alone.
    """

    name: str
    package: str
    marker: str
    version: Callable[[Any], Any]
    shared: Calls
    engine: Calls


# What `zlayout.rewrite` calls in Spark itself, for either format.
_CATALYST = "org.apache.spark.sql.catalyst.expressions"
_PLACEMENT: Calls = {
    "org.apache.spark.sql.classic.Dataset": ("repartitionById/2", "ofRows/2"),
    "org.apache.spark.sql.classic.ExpressionUtils": ("expression/1", "column/1"),
    f"{_CATALYST}.NumericEvalContext": ("new/2",),
    f"{_CATALYST}.Add": ("new/3",),
    f"{_CATALYST}.Multiply": ("new/3",),
    f"{_CATALYST}.aggregate.Sum": ("new/2",),
    f"{_CATALYST}.objects.StaticInvoke": ("new/9",),
    f"{_CATALYST}.objects.Invoke": ("new/8",),
    f"{_CATALYST}.objects.InitializeJavaBean": ("new/2",),
    "org.apache.spark.util.LongAccumulator": ("add/1", "isZero/0", "count/0", "sum/0"),
    f"{_CATALYST}.UnsafeRow": ("getBaseObject/0", "getBaseOffset/0", "getSizeInBytes/0"),
    f"{_CATALYST}.XXH64": ("hashUnsafeWords/4",),
    f"{_CATALYST}.KnownNotNull": ("new/1",),
    f"{_CATALYST}.KnownNullable": ("new/1",),
    f"{_CATALYST}.UnscaledValue": ("new/1",),
    "org.apache.spark.sql.catalyst.types.PhysicalStringType": ("new/1", "ordering/0"),
}
_DELTA = "org.apache.spark.sql.delta"
_ICEBERG = "org.apache.iceberg"
INTERNALS = {
    "delta": Internals(
        "Delta",
        versions.DELTA_PACKAGE,
        "io.delta.package$",
        lambda jvm: getattr(getattr(jvm.io.delta, "package$"), "MODULE$").VERSION(),
        {
            f"{_DELTA}.DeltaLog": ("forTable/2", "update/3", "startTransaction/2", "dataPath/0"),
            f"{_DELTA}.Snapshot": ("allFiles/0", "version/0", "metadata/0", "protocol/0"),
            f"{_DELTA}.OptimisticTransaction": ("trackFilesRead/1", "commit/3", "snapshot/0", "metadata/0"),
            f"{_DELTA}.RowTracking$": ("addPreservedRowTrackingTagIfNotSet/2",),
            f"{_DELTA}.DeltaOperations$ComputeStats": ("new/1",),
        },
        {
            f"{_DELTA}.DeltaLog": ("createDataFrame/4", "newDeltaHadoopConf/0"),
            f"{_DELTA}.DummySnapshot": ("new/5",),
            f"{_DELTA}.OptimisticTransaction": ("trackReadPredicates/3", "writeFiles/4"),
            f"{_DELTA}.RowTracking$": ("preserveRowTrackingColumns/2", "isEnabled/2"),
            f"{_DELTA}.DeltaOperations$Optimize": ("new/5",),
            f"{_DELTA}.Snapshot": ("statsSchema/0",),
            f"{_DELTA}.stats.StatsCollectionUtils$": ("getDataSkippingStringPrefixLength/2",),
            f"{_DELTA}.actions.Action$": ("fromJson/1",),
            f"{_DELTA}.actions.AddFile": (
                "json/0",
                "removeWithTimestamp/2",
                "absolutePath/1",
                "getDeletionVectorUniqueId/0",
            ),
            **_PLACEMENT,
        },
    ),
    "iceberg": Internals(
        "Iceberg",
        versions.ICEBERG_PACKAGE,
        f"{_ICEBERG}.IcebergBuild",
        lambda jvm: jvm.org.apache.iceberg.IcebergBuild.version(),
        {
            f"{_ICEBERG}.spark.Spark3Util": ("loadIcebergTable/2",),
            f"{_ICEBERG}.spark.actions.SparkActions": ("get/1", "rewriteDataFiles/1"),
            f"{_ICEBERG}.Transaction": ("updateProperties/0", "commitTransaction/0"),
            f"{_ICEBERG}.TableMetadataParser": ("toJson/1",),
        },
        {
            f"{_ICEBERG}.spark.SparkTableCache": ("get/0", "add/2", "remove/1"),
            f"{_ICEBERG}.spark.ScanTaskSetManager": ("get/0", "stageTasks/3", "removeTasks/2"),
            f"{_ICEBERG}.spark.FileRewriteCoordinator": ("get/0", "fetchNewFiles/2", "clearRewrite/2"),
            f"{_ICEBERG}.RewriteFiles": ("validateFromSnapshot/1", "dataSequenceNumber/1", "addFile/1"),
            f"{_ICEBERG}.util.ContentFileUtil": ("isDV/1", "isFileScoped/1"),
            f"{_ICEBERG}.util.SnapshotUtil": ("isAncestorOf/2",),
            f"{_ICEBERG}.io.CloseableIterable": ("filter/2",),
            f"{_ICEBERG}.relocated.com.google.common.collect.Maps": ("uniqueIndex/2",),
            f"{_ICEBERG}.relocated.com.google.common.base.Splitter": ("on/1", "splitToList/1"),
            f"{_ICEBERG}.BaseFileScanTask": ("new/5",),
            **_PLACEMENT,
        },
    ),
}


def refuse_connect(conf: Mapping[str, str], environment: Mapping[str, str]) -> None:
    """Raise Refused ZL204 when a session made with `conf` in this environment would be of Spark Connect."""
    named = [f"spark.conf {key}" for key in _CONNECT_CONF if key in conf]
    named += [name for name in _CONNECT_ENVIRONMENT if name in environment]
    mode = conf.get(_MODE_CONF, environment.get(_MODE_ENVIRONMENT, ""))
    if mode.lower() == "connect":
        named.append(f"{_MODE_CONF if _MODE_CONF in conf else _MODE_ENVIRONMENT}=connect")
    if named:
        raise _connect(f"{named[0]} is set")


def fallback_reason(session: SparkSession, format: str) -> str | None:
    """Why engine `zlayout` cannot rewrite tables of `format` in this session; None when it can.

    Raises Refused ZL204 where engine `native` cannot either: Spark Connect, or a version without the calls that
    record a layout. Raises EngineError ZL306 when the format is not on Spark's classpath.
    """
    if type(session).__module__.startswith("pyspark.sql.connect"):
        raise _connect("the session is one")
    internals = INTERNALS[format]
    context: Any = session.sparkContext
    classes = _Classes(context)
    if classes.find(internals.marker) is None:
        raise _no_jar(internals)
    found = str(internals.version(context._jvm))
    if missing := classes.missing(internals.shared):
        raise Refused.of(
            "ZL204",
            f"{internals.name} {found} lacks {missing}, without which neither engine can record a layout",
            hint=_way_out(),
        )
    for name, version, tested in (
        ("Spark", session.version, versions.TESTED_SPARK),
        (internals.name, found, versions.TESTED_DELTA if format == "delta" else versions.TESTED_ICEBERG),
    ):
        if version not in tested:
            return f"it was tested with {name} {_listed(tested)}, this is {version}"
    if missing := classes.missing(internals.engine):
        return f"{internals.name} {found} on Spark {session.version} lacks {missing}"
    return None


def fallback_notices(table: object, reason: str, lost: Iterable[Diagnostic]) -> list[Notice]:
    """ZL407, and ZL401 for each setting that is lost with the other engine."""
    told = Diagnostic(
        "ZL407",
        f"{table} is rewritten by engine native, since engine zlayout cannot run here: {reason}",
        "warning",
        f"{_way_out()}; or declare engine: native",
    )
    return [Notice(told), *(Notice(Diagnostic(d.code, d.message, "warning")) for d in lost)]


def refused_in_fallback(refused: Refused, reason: str) -> Refused:
    """What engine native refuses, told to someone who has declared engine zlayout already."""
    hint = f"engine zlayout could, but cannot run here: {reason}; {_way_out()}"
    return Refused(*(Diagnostic(d.code, d.message, d.severity, hint, d.location) for d in refused.diagnostics))


def untested(doing: str, reason: str) -> ZlayoutError:
    """Refused ZL204 for what engine native has no way to do."""
    return Refused.of("ZL204", f"{doing} cannot be done here: {reason}", hint=_way_out())


# Public methods and constructors by Spark application and class: a JVM's classes stay as they are.
_known: dict[tuple[str, str], frozenset[str] | None] = {}


class _Classes:
    """Classes of the driver's JVM through reflection, which loads them but runs nothing of theirs."""

    def __init__(self, context: Any) -> None:
        jvm = context._jvm
        self._java, self._scala = jvm.java, jvm.scala
        self._loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        self._application = str(context.applicationId)

    def find(self, name: str) -> frozenset[str] | None:
        """`name/arguments` of all public methods and constructors; None where there is no such class."""
        key = self._application, name
        if key not in _known:
            _known[key] = self._signatures(name)
        return _known[key]

    def missing(self, calls: Calls) -> str:
        """The first of the calls that is not there, '' when all are."""
        for name, wanted in calls.items():
            there = self.find(name)
            if there is None:
                return name
            for call in wanted:
                if call not in there:
                    return f"{name.rpartition('.')[2]}.{call}"
        return ""

    def _signatures(self, name: str) -> frozenset[str] | None:
        """From two strings of the JVM and not a call for each method."""
        from py4j.protocol import Py4JJavaError

        try:
            found = self._java.lang.Class.forName(name, False, self._loader)
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() == "java.lang.ClassNotFoundException":
                return None
            raise
        # not java.util.Arrays: py4j finds none of its methods for an array of methods
        listed = self._scala.runtime.ScalaRunTime
        methods, made = listed.stringOf(found.getMethods()), listed.stringOf(found.getConstructors())
        names = {f"{name}/{_count(given)}" for name, given in _SIGNATURE.findall(methods)}
        return frozenset(names | {f"new/{_count(given)}" for _, given in _SIGNATURE.findall(made)})


def _count(arguments: str) -> int:
    return arguments.count(",") + 1 if arguments else 0


def _no_jar(internals: Internals) -> ZlayoutError:
    return EngineError.of(
        "ZL306",
        f"{internals.name} is not on Spark's classpath",
        hint=f"add {internals.package} with --packages of spark-submit, or in PYSPARK_SUBMIT_ARGS",
    )


def _connect(why: str) -> ZlayoutError:
    return Refused.of(
        "ZL204",
        f"zlayout cannot rewrite tables through Spark Connect ({why}): its commits need the driver's JVM",
        hint="unset it and give spark.master, or run `zlayout apply` inside spark-submit on the cluster",
    )


def _way_out() -> str:
    return f"take Spark {versions.SPARK} with Delta {versions.DELTA} and Iceberg {versions.ICEBERG}"


def _listed(tested: Iterable[str]) -> str:
    return ", ".join(sorted(tested))
