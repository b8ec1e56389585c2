"""Provides Iceberg's Java API through py4j, and describes how it reports that a commit failed."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from zlayout.formats.iceberg.write.content_files import ContentFiles
from zlayout.formats.kernel import failures
from zlayout.formats.kernel.failures import Failures
from zlayout.spark.jvm import java_class, java_list, jvm_of
from zlayout.spec.model import TableName
from zlayout.sql_text import quote_path

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EXCEPTIONS = "org.apache.iceberg.exceptions"
FAILURES = Failures(
    # REST catalogs on Iceberg before 1.11 answer a stale sequence number with 400.
    conflicts=frozenset(
        f"{_EXCEPTIONS}.{name}" for name in ("ValidationException", "CommitFailedException", "BadRequestException")
    ),
    history="the summaries of the table's snapshots (zlayout.run)",
    unknown=frozenset({f"{_EXCEPTIONS}.CommitStateUnknownException"}),
    hints={
        "token has expired": "the credentials ended during the rewrite: let the catalog name where to renew them, or "
        "set a smaller files.max_group_size",
        "No FileSystem for scheme": "declare the store of the table in warehouse or storage of its catalog, so that "
        "Spark gets the jars; with spark-submit, name the jars",
    },
)


class IcebergJvm:
    """The JVM of a Spark session. Any is a py4j reference to a Java object."""

    def __init__(self, session: SparkSession) -> None:
        context: Any = session.sparkContext
        jsession: Any = session
        self.session = session
        self.gateway = context._gateway
        self.root = jvm_of(session)
        self.java: Any = self.root.java
        self.iceberg: Any = self.root.org.apache.iceberg
        self.jsession = jsession._jsparkSession

    @cached_property
    def content(self) -> ContentFiles:
        """Operations on many files. Engine native does not need them."""
        return ContentFiles(self.session)

    def load(self, name: TableName) -> Any:
        """Load the table with its current metadata. Every call reads the catalog again."""
        identifier = quote_path((name.catalog, *name.identifier))
        with java_errors(f"loading {name}"):
            return self.iceberg.spark.Spark3Util.loadIcebergTable(self.jsession, identifier)

    def strings(self, values: list[str]) -> Any:
        """Return a Java String[], which is needed for variable arguments."""
        array = self.gateway.new_array(self.java.lang.String, len(values))
        for i, value in enumerate(values):
            array[i] = value
        return array

    def list(self, values: list[Any]) -> Any:
        """See `zlayout.spark.jvm.java_list`."""
        return java_list(self.root, values)

    def static(self, class_name: str, method: str) -> Any:
        """Call a static method without arguments by reflection, for methods whose overloads py4j cannot distinguish."""
        found = java_class(self.root, class_name)
        none = self.gateway.new_array(self.java.lang.Class, 0)
        return found.getMethod(method, none).invoke(None, self.gateway.new_array(self.java.lang.Object, 0))


def java_errors(doing: str) -> AbstractContextManager[None]:
    """Translate the errors of Spark and Iceberg that the block raises. See `kernel.failures.translated`."""
    return failures.java_errors(doing, FAILURES)
