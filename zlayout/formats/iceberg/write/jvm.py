"""Iceberg's Java API through py4j, and the one place where its exceptions become zlayout's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from zlayout.errors import CommitConflict, CommitUnknown, EngineError, ZlayoutError, first_line
from zlayout.spark.jvm import jvm_of
from zlayout.spec.model import TableName
from zlayout.sql_text import quoted_name

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONFLICTS = (
    "org.apache.iceberg.exceptions.ValidationException",
    "org.apache.iceberg.exceptions.CommitFailedException",
)
_GONE = "does not exist in the JVM"  # py4j asked a JVM that cannot answer any more
_UNKNOWN = "org.apache.iceberg.exceptions.CommitStateUnknownException"


class IcebergJvm:
    """A handle on the JVM of a Spark session. Java objects are `Any`: py4j types nothing."""

    def __init__(self, session: SparkSession) -> None:
        context: Any = session.sparkContext
        jsession: Any = session
        self.session = session
        self.gateway = context._gateway
        root = jvm_of(session)
        self.java: Any = root.java
        self.iceberg: Any = root.org.apache.iceberg
        self.jsession = jsession._jsparkSession

    def load(self, name: TableName) -> Any:
        """The table at its current metadata; every call reads the catalog again."""
        identifier = quoted_name((name.catalog, *name.identifier))
        with java_errors(f"loading {name}"):
            return self.iceberg.spark.Spark3Util.loadIcebergTable(self.jsession, identifier)

    def strings(self, values: list[str]) -> Any:
        """A Java String[], for varargs."""
        array = self.gateway.new_array(self.java.lang.String, len(values))
        for i, value in enumerate(values):
            array[i] = value
        return array

    def list(self, values: list[Any]) -> Any:
        """A java.util.ArrayList."""
        result = self.java.util.ArrayList()
        for value in values:
            result.add(value)
        return result

    def static(self, class_name: str, method: str) -> Any:
        """Call a static method without arguments that py4j cannot tell from its overloads, by reflection."""
        loader = self.java.lang.Thread.currentThread().getContextClassLoader()
        found = self.java.lang.Class.forName(class_name, True, loader)
        none = self.gateway.new_array(self.java.lang.Class, 0)
        return found.getMethod(method, none).invoke(None, self.gateway.new_array(self.java.lang.Object, 0))


@contextmanager
def java_errors(doing: str, *, committing: bool = False) -> Iterator[None]:
    """Raise what Java raised as zlayout's.

    CommitConflict ZL321: another commit touched the same files. CommitUnknown ZL331: the catalog did not say, or the
    JVM was lost while `committing`. EngineError ZL305: the JVM was lost before that. EngineError ZL314: all else.
    """
    from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
    from pyspark.errors import PySparkException

    try:
        yield
    except ZlayoutError:
        raise
    except Py4JJavaError as error:
        raise _from_java(doing, committing, error.java_exception) from error
    except PySparkException as error:  # what pyspark makes of IllegalArgumentException, AnalysisException and others
        origin = getattr(error, "_origin", None)
        raise _failed(doing, error) if origin is None else _from_java(doing, committing, origin) from error
    except (Py4JError, ConnectionError, EOFError) as error:
        if isinstance(error, Py4JError) and not isinstance(error, Py4JNetworkError) and _GONE not in str(error):
            raise _failed(doing, error) from error
        raise _lost(doing, committing, error) from error


def _from_java(doing: str, committing: bool, exception: Any) -> ZlayoutError:
    try:
        causes = list(_causes(exception))
    except Exception as lost:  # the JVM died while it was asked what was wrong
        return _lost(doing, committing, lost)
    for name, message in causes:
        if name == _UNKNOWN:
            return unknown(doing, first_line(message))
        if name in _CONFLICTS:
            return CommitConflict.of(
                "ZL321",
                f"{doing}: a concurrent commit changed the same files",
                hint="that commit stands and this rewrite was dropped: plan again",
                detail=first_line(message),
            )
    name, message = causes[-1]
    return _failed(doing, f"{name.rpartition('.')[2]}: {first_line(message)}")


def _failed(doing: str, reason: object) -> ZlayoutError:
    return EngineError.of("ZL314", f"{doing} failed", hint="Spark's log has the rest", detail=first_line(reason))


def _causes(exception: Any) -> Iterator[tuple[str, str]]:
    for _ in range(20):
        if exception is None:
            return
        yield exception.getClass().getName(), exception.getMessage() or ""
        exception = exception.getCause()


def _lost(doing: str, committing: bool, error: Exception) -> ZlayoutError:
    if committing:
        return unknown(doing, f"Spark's JVM was lost: {first_line(error)}")
    return EngineError.of(
        "ZL305",
        f"{doing}: Spark's JVM was lost: {first_line(error)}",
        hint="nothing of this step was committed; give Spark more memory and run again",
    )


def unknown(doing: str, reason: str) -> ZlayoutError:
    """CommitUnknown ZL331. doing: names the run."""
    return CommitUnknown.of(
        "ZL331",
        f"{doing}: whether the commit happened is not known: {reason}",
        hint="look for the run id in the table's snapshots (summary zlayout.run) before running again; delete no files",
    )
