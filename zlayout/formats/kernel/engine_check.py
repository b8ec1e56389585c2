"""Checks before anything is written whether engine `zlayout` may call the internals of the Spark session.

Engine `zlayout` uses calls that no version promises to keep. It runs only if the versions are those that it was tested
with and every call exists; if not, engine `native` does the work. Engine `native` needs a few of the calls too, to
record what it laid out: if those are missing, or if Spark has no JVM at hand, the work is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zlayout.errors import Diagnostic, EngineError, Refused, ZlayoutError
from zlayout.formats.base import Notice
from zlayout.spark import versions
from zlayout.spark.classes import Calls, JavaClasses
from zlayout.spark.connect import connect_refused

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Internals:
    """What zlayout calls in a format's jar.

    Attributes:
        name: The format's name in messages.
        package: Maven coordinates of the jar.
        tested: Versions of the format that engine zlayout was tested with.
        marker: A class that exists exactly if the jar is on the classpath.
        version: Asks a JVM with the jar for its version.
        shared: Calls that both engines make.
        engine: Calls that engine zlayout alone makes.
    """

    name: str
    package: str
    tested: frozenset[str]
    marker: str
    version: Callable[[Any], Any]
    shared: Calls
    engine: Calls


# What `zlayout.rewrite` calls in Spark itself, for either format.
_CATALYST = "org.apache.spark.sql.catalyst.expressions"
PLACEMENT: Calls = {
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


def fallback_reason(session: SparkSession, internals: Internals) -> str | None:
    """Return why engine `zlayout` cannot rewrite tables of a format in this session, None if it can.

    Raises:
        Refused: ZL204, if engine `native` cannot either: Spark Connect, or a version without the calls that record a
            layout.
        EngineError: ZL306, if the format is not on Spark's classpath.
    """
    if type(session).__module__.startswith("pyspark.sql.connect"):
        raise connect_refused("the session is one")
    context: Any = session.sparkContext
    classes = JavaClasses(context)
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
        (internals.name, found, internals.tested),
    ):
        if version not in tested:
            return f"it was tested with {name} {_listed(tested)}, this is {version}"
    if missing := classes.missing(internals.engine):
        return f"{internals.name} {found} on Spark {session.version} lacks {missing}"
    return None


def fallback_notices(table: object, reason: str, lost: Iterable[Diagnostic]) -> list[Notice]:
    """Return ZL407, and ZL401 for each setting that engine native cannot honour."""
    fallback = Diagnostic(
        "ZL407",
        f"{table} is rewritten by engine native, since engine zlayout cannot run here: {reason}",
        "warning",
        f"{_way_out()}; or declare engine: native",
    )
    return [Notice(fallback), *(Notice(Diagnostic(d.code, d.message, "warning")) for d in lost)]


def refused_in_fallback(refused: Refused, reason: str) -> Refused:
    """Return the refusal of engine native with a hint for a layout that declares engine zlayout."""
    hint = f"engine zlayout could, but cannot run here: {reason}; {_way_out()}"
    return Refused(*(Diagnostic(d.code, d.message, d.severity, hint, d.location) for d in refused.diagnostics))


def untested(doing: str, reason: str) -> ZlayoutError:
    """Return Refused ZL204 for what engine native cannot do."""
    return Refused.of("ZL204", f"{doing} cannot be done here: {reason}", hint=_way_out())


def _no_jar(internals: Internals) -> ZlayoutError:
    return EngineError.of(
        "ZL306",
        f"{internals.name} is not on Spark's classpath",
        hint=f"add {internals.package} with --packages of spark-submit, or in PYSPARK_SUBMIT_ARGS",
    )


def _way_out() -> str:
    return f"use Spark {versions.SPARK} with Delta {versions.DELTA} and Iceberg {versions.ICEBERG}"


def _listed(tested: Iterable[str]) -> str:
    return ", ".join(sorted(tested))
