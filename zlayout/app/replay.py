"""Replay the queries of a workload on Spark, and read from its scans how many files and bytes they opened.

Only the scan of one table is replayed: a SELECT of the columns in the conditions, with these conditions as WHERE. They
decide which files Spark opens. Only parsed predicates reach Spark, and never the text of a query.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zlayout.advisor.model import QueryPredicates
from zlayout.errors import EngineError
from zlayout.predicate.model import Predicate, columns
from zlayout.predicate.parse import quote_column, to_sql

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# The metrics of a scan: its files and their size. Those of a Delta scan, and those of an Iceberg scan.
_METRICS = (("numFiles", "filesSize"), ("resultDataFiles", "totalDataFileSize"))


@dataclass(frozen=True, slots=True)
class Opened:
    """What the scans of one query opened, as Spark reports it, and the number of rows that they returned."""

    files: int
    bytes: int
    rows: int

    def __add__(self, other: Opened) -> Opened:
        return Opened(self.files + other.files, self.bytes + other.bytes, self.rows + other.rows)


def replay(frame: DataFrame, queries: Iterable[QueryPredicates]) -> Sequence[Opened]:
    """Scan a table for each query. Equal scans are done once.

    Args:
        frame: The table at one version.
        queries: The queries, with predicates on columns of the table.

    Raises:
        EngineError: ZL309, Spark failed, or reports no files of a scan.
    """
    known: dict[Predicate, Opened] = {}
    found = []
    for query in queries:
        total = Opened(0, 0, 0)
        for predicate in query.predicates:
            if predicate not in known:
                known[predicate] = scan(frame, predicate)
            total += known[predicate]
        found.append(total)
    return found


def scan(frame: DataFrame, predicate: Predicate) -> Opened:
    """Read the rows of a table that match a predicate. Raises EngineError ZL309."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        chosen = frame.where(to_sql(predicate)).select(*map(quote_column, sorted(columns(predicate))))
        internal: Any = chosen
        plan = internal._jdf.queryExecution().executedPlan()
        rows = int(plan.execute().count())  # DataFrame.count() would be another query, which reads less
        return _opened(plan, rows)
    except (Py4JError, PySparkException) as error:
        lines = str(error).splitlines()
        raise EngineError.of("ZL309", f"a query could not be replayed: {lines[0] if lines else error!r}") from error


def _opened(plan: Any, rows: int) -> Opened:
    leaves = plan.collectLeaves()
    files = size = 0
    for at in range(leaves.size()):
        metrics = leaves.apply(at).metrics()
        names = next(((f, b) for f, b in _METRICS if metrics.contains(f) and metrics.contains(b)), None)
        if names is None:
            if rows == 0:  # Spark knows without a scan that no row matches
                continue
            raise EngineError.of("ZL309", f"Spark reports no files of the scan {leaves.apply(at).nodeName()}")
        files, size = (
            total + int(metrics.apply(name).value()) for total, name in zip((files, size), names, strict=True)
        )
    return Opened(files, size, rows)
