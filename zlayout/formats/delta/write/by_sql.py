"""One Delta table in a session without a JVM, which has SQL alone, and what is checked there before any write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa

from zlayout.errors import CommitConflict, Diagnostic, Refused, first_line
from zlayout.formats.base import PlannedTable
from zlayout.formats.kernel.requirements import partitions_of
from zlayout.planner.selection import refusals_of
from zlayout.spec.model import TableName
from zlayout.table.location import S3_SCHEMES
from zlayout.table.outside import counted, find_outside
from zlayout.table.state import TableState
from zlayout.text import quote_identifier

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BY_DYNAMODB = "io.delta.storage.S3DynamoDBLogStore"
_DATABRICKS = "spark.databricks.clusterUsageTags.sparkVersion"  # set in each session of a Databricks cluster
_NO_CATALOG = "DELTA_CONFIGURE_SPARK_SESSION_WITH_EXTENSION_AND_CATALOG"  # Delta has its extension alone
_EXTENSION_HINT = (
    "start the server with spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension and "
    "spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog, and with the jar of Delta"
)


@dataclass(frozen=True, slots=True)
class DeltaSql:
    """One Delta table, addressed by location, in one session without a JVM."""

    spark: SparkSession
    location: str

    @property
    def knows_string_prefix(self) -> bool:
        """Whether Delta may support the property for the length of string bounds. Delta itself refuses it if not."""
        return True


def require_same_table(delta: DeltaSql, table: TableName, table_id: str) -> None:
    """Check that the server has Delta, and that it finds the planned table at the location.

    The storage of a server may be another one, in which the same location is that of another table.

    Raises:
        Refused: ZL207, ZL208.
        CommitConflict: ZL320, if the location has another table now.
    """
    from pyspark.errors import AnalysisException, ParseException

    place = f"delta.{quote_identifier(delta.location)}"
    try:
        # Spark without Delta's extension cannot parse LIMIT. It takes the second one for a column of the table DETAIL.
        delta.spark.sql(f"DESCRIBE HISTORY {place} LIMIT 1").collect()
        (found,) = delta.spark.sql(f"DESCRIBE DETAIL {place}").collect()
    except AnalysisException as error:
        if isinstance(error, ParseException) or error.getCondition() == _NO_CATALOG:
            message = "the Spark server lacks Delta's extension or its catalog spark_catalog"
            raise Refused.of("ZL207", message, hint=_EXTENSION_HINT) from error
        message = f"{table}: the Spark server finds no Delta table at {delta.location}"
        hint = "give the server the same storage and credentials as zlayout.yaml, and the jar and extension of Delta"
        raise Refused.of("ZL208", message, hint=hint, detail=first_line(error)) from error
    if str(found["format"]).lower() != "delta" or str(found["id"]) != table_id:
        message = f"{table}: expected the table {table_id} at {delta.location}, the Spark server finds {found['id']}"
        hint = "the server has another storage, or the table was replaced: compare the storage, and plan again"
        raise CommitConflict.of("ZL320", message, hint=hint)


def require_exclusive_commits(delta: DeltaSql, table: TableName) -> None:
    """Check that no commit of the server can replace a commit of another writer.

    Raises:
        Refused: ZL220, for a table on S3, unless the server states how its commits are exclusive.
    """
    scheme = urlsplit(delta.location).scheme.lower()
    if scheme not in S3_SCHEMES or delta.spark.conf.get(_DATABRICKS, None):
        return
    key = f"spark.delta.logStore.{scheme}.impl"
    if (found := delta.spark.conf.get(key, None)) != _BY_DYNAMODB:
        raise Refused.of(
            "ZL220",
            f"{table}: a commit could replace the commit of another writer: the Spark server has "
            f"{key}={found or 'no value'}",
            hint=f"set {key} to {_BY_DYNAMODB} in all writers, or run `zlayout apply` inside spark-submit",
        )


def require_own_files(delta: DeltaSql, table: TableName, permitted: tuple[str, ...]) -> None:
    """Check the files that the server finds in the log, which may be others than those that were observed.

    Raises:
        Refused: ZL242.
    """
    paths = pa.array(delta.spark.read.format("delta").load(delta.location).inputFiles(), pa.string())
    found = find_outside(paths, delta.location, permitted, uris=True)
    if refusals := counted([found], delta.location, table.catalog).refusals:
        raise Refused(*refusals)


def require_stored_values(work: PlannedTable, state: TableState) -> None:
    """Check that OPTIMIZE would keep the partition values of the planned partitions.

    Raises:
        Refused: ZL217 for strings, ZL218 for timestamps, and the other reasons not to rewrite a partition.
    """
    planned = set(partitions_of(work.groups))
    chosen = np.array([partition in planned for partition in state.files.partitions], bool)
    of_planned = chosen[state.files.partition] if len(state.files) else np.zeros(0, bool)
    found = [
        Diagnostic(refusal.code, f"{work.table}: {count:,} files have {refusal.found}", "refused", refusal.hint)
        for refusal in refusals_of(work.spec, state)
        if (count := int((refusal.files & of_planned).sum()))
    ]
    if found:
        raise Refused(*found)
