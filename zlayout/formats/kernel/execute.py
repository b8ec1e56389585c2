"""What every format does before it changes a table: check the plan, choose the engine, check a rollback."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from zlayout.errors import CommitConflict, Diagnostic, EngineError, Refused, ZlayoutError
from zlayout.formats.base import Backend, Commit, Event, Notice, Notify, PlannedTable
from zlayout.formats.kernel.outcome import Failures, java_errors
from zlayout.formats.undo import Undo, needs_jvm, total
from zlayout.spark import versions
from zlayout.spark.jvm import Calls, JavaClasses
from zlayout.spark.session import SparkRuntime
from zlayout.spark.versions import Release
from zlayout.spec.model import Layout
from zlayout.table.state import TableState

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Checks before any write whether engine `zlayout` can run in the Spark session.
#
# Engine `zlayout` calls internal methods of Spark and of the format. Every method must exist, and the minor version of
# the format must be a tested one, because a commit depends on what these methods do. With a Spark version that is not
# tested, such as a vendor's build, a self-test must pass as well. If engine `zlayout` cannot run, engine `native` is
# used instead. Engine `native` needs some of these methods too, for its layout records. If one of them is missing, or
# the session has no JVM, the work is refused.


@dataclass(frozen=True, slots=True)
class Internals:
    """The methods that zlayout calls in a format's jar.

    Attributes:
        name: The format's name in messages.
        package: A function that returns the Maven coordinates of the jar for a release of Spark, or None if there is
            no jar for it.
        tested: Minor versions of the format that engine zlayout was tested with.
        marker: A class that exists if and only if the jar is on the classpath.
        version: A function that returns the version of the jar, given the JVM.
        shared: Methods that both engines call.
        engine: Methods that only engine zlayout calls.
        either: Alternatives. Engine zlayout needs all methods of at least one of them. Empty if there are none.
    """

    name: str
    package: Callable[[Release], str | None]
    tested: frozenset[str]
    marker: str
    version: Callable[[Any], Any]
    shared: Calls
    engine: Calls
    either: tuple[Calls, ...] = ()


# The methods that compile the Java sources of the formats (`zlayout.spark.jvm`).
COMPILER: Calls = {"org.codehaus.janino.SimpleCompiler": ("setParentClassLoader/1", "cook/1", "getClassLoader/0")}
# The methods of Spark that `zlayout.rewrite` calls, for every format.
_CATALYST = "org.apache.spark.sql.catalyst.expressions"
PLACEMENT: Calls = {
    f"{_CATALYST}.Add": ("new/3",),
    f"{_CATALYST}.Multiply": ("new/3",),
    f"{_CATALYST}.aggregate.Sum": ("new/2",),
    f"{_CATALYST}.objects.Invoke": ("new/8",),
    f"{_CATALYST}.objects.InitializeJavaBean": ("new/2",),
    "org.apache.spark.util.LongAccumulator": ("add/1", "isZero/0", "count/0", "sum/0"),
    f"{_CATALYST}.UnsafeRow": ("getBaseObject/0", "getBaseOffset/0", "getSizeInBytes/0"),
    f"{_CATALYST}.XXH64": ("hashUnsafeWords/4",),
    f"{_CATALYST}.KnownNotNull": ("new/1",),
    f"{_CATALYST}.KnownNullable": ("new/1",),
    f"{_CATALYST}.UnscaledValue": ("new/1",),
}
# Further methods, which differ between Spark 4 and Spark 3.5 (`zlayout.spark.jvm`). One element must be complete.
_OF_SPARK: tuple[Calls, ...] = (
    {
        "org.apache.spark.sql.classic.Dataset": ("ofRows/2",),
        "org.apache.spark.sql.classic.ExpressionUtils": ("expression/1", "column/1"),
        f"{_CATALYST}.objects.StaticInvoke": ("new/9",),
        "org.apache.spark.sql.catalyst.types.PhysicalStringType": ("new/1", "ordering/0"),
    },
    {
        "org.apache.spark.sql.Dataset$": ("ofRows/2",),
        "org.apache.spark.sql.Column": ("expr/0", "new/1"),
        f"{_CATALYST}.objects.StaticInvoke": ("new/8",),
        "org.apache.spark.sql.catalyst.types.PhysicalStringType": ("new/0", "ordering/0"),
    },
)


def fallback_reason(session: SparkSession, internals: Internals) -> str | None:
    """Return the reason why engine `zlayout` cannot rewrite tables of a format in this session; None if it can.

    session: a session with a JVM.

    Raises:
        Refused: ZL204, if engine `native` cannot rewrite them either.
        EngineError: ZL306, if the format is not on Spark's classpath.
    """
    from zlayout.rewrite.engine import failed_self_test

    context: Any = session.sparkContext
    classes = JavaClasses(context)
    if classes.find(internals.marker) is None:
        raise _no_jar(internals)
    found = str(internals.version(context._jvm))
    if missing := classes.missing(internals.shared):
        raise Refused.of(
            "ZL204",
            f"{internals.name} {found} lacks {missing}, which both engines need for the layout record",
            hint=_versions_hint(),
        )
    if versions.minor(found) not in internals.tested:
        return f"expected {internals.name} {', '.join(sorted(internals.tested))}, found {found}"
    either = (classes.missing_of_all(calls) for calls in (_OF_SPARK, internals.either))
    if missing := classes.missing(internals.engine) or "".join(either):
        return f"{internals.name} {found} on Spark {session.version} lacks {missing}"
    if session.version not in versions.TESTED_SPARK and (failure := failed_self_test(session)):
        return f"on Spark {session.version}, the self-test of engine zlayout failed: {failure}"
    return None


def fallback_notices(table: object, reason: str, unsupported: Iterable[Diagnostic]) -> list[Notice]:
    """Return notices of the fallback to engine native (ZL407) and of layout settings that it does not support (ZL401).

    Args:
        table: The table, for the message.
        reason: The result of `fallback_reason`.
        unsupported: ZL401 for each of these layout settings.
    """
    fallback = Diagnostic(
        "ZL407",
        f"{table} is rewritten by engine native, because engine zlayout cannot run in this session: {reason}",
        "warning",
        f"{_versions_hint()}; or declare engine: native",
    )
    return [Notice(fallback), *(Notice(Diagnostic(d.code, d.message, "warning")) for d in unsupported)]


def refused_in_fallback(refused: Refused, reason: str) -> Refused:
    """Return a refusal by engine native with a hint for a layout that declares engine zlayout.

    reason: the result of `fallback_reason`.
    """
    hint = f"{_versions_hint()}, so that engine zlayout can run (it cannot run in this session: {reason})"
    return Refused(*(Diagnostic(d.code, d.message, d.severity, hint, d.location) for d in refused.diagnostics))


def untested(doing: str, reason: str) -> ZlayoutError:
    """Return Refused ZL204 for work that requires engine zlayout.

    doing: the work, for the message. reason: the result of `fallback_reason`.
    """
    return Refused.of("ZL204", f"{doing} requires engine zlayout: {reason}", hint=_versions_hint())


def _no_jar(internals: Internals) -> ZlayoutError:
    release = versions.installed()
    package = internals.package(release)
    if package is None:
        message = f"{internals.name} has no jar for Spark {release.spark}"
        return EngineError.of("ZL306", message, hint=_versions_hint())
    return EngineError.of(
        "ZL306",
        f"{internals.name} is not on Spark's classpath",
        hint=f"add {package} with --packages of spark-submit, or in PYSPARK_SUBMIT_ARGS",
    )


def _versions_hint() -> str:
    newest = versions.NEWEST
    return f"use Spark {newest.spark} with Delta {newest.delta} and Iceberg {newest.iceberg}"


class Steps(Backend, Protocol):
    """What the backend of a format provides to `execute` and `checked_undo`."""

    @property
    def runtime(self) -> SparkRuntime: ...

    def unsupported_settings(self, layout: Layout, state: TableState) -> tuple[Diagnostic, ...]:
        """Return ZL401 for each layout setting that engine native does not support."""
        ...

    def checked(self, work: PlannedTable) -> TableState:
        """Observe the table and check that the work may be done.

        Raises:
            Refused: If zlayout must not change the table.
            CommitConflict: ZL320, if the table is no longer the planned one.
        """
        ...

    def refuse_native(self, work: PlannedTable, state: TableState, *, declared: bool) -> None:
        """Check that engine native can do the work and would rewrite the planned files only.

        Args:
            work: The planned table.
            state: The table.
            declared: Whether the layout declares engine native, so that the planner has chosen the files for it.

        Raises:
            Refused: If engine native cannot do the work, or if it would rewrite other files.
        """
        ...

    def carry_out(self, work: PlannedTable, state: TableState, notify: Notify, *, native: bool) -> Iterator[Event]:
        """Set the properties, change the partitioning and rewrite the groups, in this order.

        native: whether engine native rewrites the groups, and not engine zlayout.
        """
        ...


def execute(
    steps: Steps, internals: Internals, failures: Failures, work: PlannedTable, notify: Notify
) -> Iterator[Event]:
    """Carry out a plan with the declared engine or, if this cannot run in the session, with engine native.

    Args:
        steps: The steps of the format.
        internals: The methods that zlayout calls in the format's jar.
        failures: How the format reports failures.
        work: The planned table.
        notify: Called with each stage.

    Yields:
        Each commit as soon as it is known to be in the table, each group that was dropped, and notices.

    Raises:
        Refused: If the work is not allowed. Nothing has been written.
        CommitConflict: ZL320, if the table is no longer the planned one.
        EngineError: If the work cannot be continued. The commits that were yielded stay in the table.
    """
    state = steps.checked(work)
    native = work.layout.engine == "native"
    if native and work.groups:
        steps.refuse_native(work, state, declared=True)
    rewrites_all = work.partition_by is not None and not steps.capabilities.partition_evolution
    if not steps.runtime.has_jvm:
        require_sql_alone(work, native=native)
        yield from steps.carry_out(work, state, notify, native=True)
        return
    reason = None
    if work.groups or rewrites_all:
        with java_errors(f"{work.table}: checking the versions of Spark and {internals.name}", failures):
            reason = fallback_reason(steps.runtime.session, internals)
    if reason is not None and rewrites_all:
        raise untested(f"{work.table}: changing partition_by", reason)
    if reason is not None and not native:
        try:
            steps.refuse_native(work, state, declared=False)
        except Refused as refused:
            raise refused_in_fallback(refused, reason) from refused
        yield from fallback_notices(work.table, reason, steps.unsupported_settings(work.layout, state))
        native = True
    yield from steps.carry_out(work, state, notify, native=native)


def require_sql_alone(work: PlannedTable, *, native: bool) -> None:
    """Check that work can be done by SQL alone, in a session that gives no access to its JVM.

    Raises:
        Refused: ZL204.
    """
    needed = ""
    if work.groups and not native:
        needed = "engine zlayout"
    elif work.partition_by is not None:
        needed = "changing partition_by"
    if needed:
        raise Refused.of(
            "ZL204",
            f"{work.table}: {needed} needs the driver's JVM, which Spark Connect does not give",
            hint="declare engine: native, or run `zlayout apply` inside spark-submit on the cluster",
        )


def checked_undo(steps: Steps, internals: Internals, failures: Failures, shown: Undo) -> Undo:
    """Check that the session can make a rollback by the format's Java, and return the rollback as `same_undo` does.

    Args:
        steps: The steps of the format.
        internals: The methods that zlayout calls in the format's jar.
        failures: How the format reports failures.
        shown: The rollback that the user has seen.

    Raises:
        Refused: ZL204, if engine zlayout cannot run in this session; or as `same_undo` raises it.
        CommitConflict: ZL320.
    """
    if not steps.runtime.has_jvm:
        raise needs_jvm(shown.table, f"of a table of format {steps.capabilities.format}")
    with java_errors(f"{shown.table}: checking the versions of Spark and {internals.name}", failures):
        reason = fallback_reason(steps.runtime.session, internals)
    if reason is not None:
        raise untested(f"{shown.table}: a rollback", reason)
    return same_undo(steps, shown)


def same_undo(steps: Steps, shown: Undo) -> Undo:
    """Determine a rollback again from the newest version, and check that it is the one that the user has seen.

    Raises:
        Refused: As `Backend.undo` raises it.
        CommitConflict: ZL320, if the rollback would now change other files than were shown.
    """
    now = steps.undo(shown.table, shown.run_id)
    if not now.same_as(shown):
        message = f"{shown.table}: a rollback of run {shown.run_id} would now change other files than were shown"
        raise CommitConflict.of("ZL320", message, hint="run rollback again and review it")
    return now


def rollback_commit(undo: Undo, version: int) -> Commit:
    """Return the event for the commit of a rollback. version: the version that the commit made."""
    return Commit(
        "rollback",
        version,
        files_removed=len(undo.removed),
        files_added=len(undo.returned),
        bytes_removed=total(undo.removed, "bytes"),
        bytes_added=total(undo.returned, "bytes"),
        rows=undo.rows,
    )
