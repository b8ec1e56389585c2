"""The part of a workload that concerns one table: the predicates of each query, and the frequency of each column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from zlayout.advisor.model import Asked, Bools, TableQuery
from zlayout.predicate.coercion import from_printed
from zlayout.predicate.evaluate import answers, known
from zlayout.predicate.model import Compare, In, IsNull, Leaf, Predicate, columns, with_leaves
from zlayout.spec.model import TableName
from zlayout.table.location import canonical
from zlayout.table.state import Column, TableState
from zlayout.workload.model import Query, Scan, Workload


def is_named(written: str, table: TableName, location: str = "") -> bool:
    """Whether a name in a query may refer to the table.

    Args:
        written: `t`, `ns.t` or `catalog.ns.t` in lower case, or a storage location.
        table: the name of the table.
        location: the storage location of the table.
    """
    if "/" in written:
        return canonical(written) == canonical(location)
    return ("." + str(table).lower()).endswith("." + written)


def asked_of(workload: Workload, table: TableName, state: TableState) -> tuple[tuple[Asked, ...], int]:
    """The queries with predicates on the table, and the number of queries that read the whole table in any layout."""
    by_query: dict[Query, list[Scan]] = {}
    for scan in workload.scans:
        if is_named(scan.table, table, state.location):
            by_query.setdefault(scan.query, []).append(scan)
    known_columns = {c.name.lower(): c for c in state.columns}
    found, reading_all = [], 0
    for query, scans in by_query.items():
        predicates = [_as_in_table(s.predicate, known_columns) for s in scans if s.predicate is not None]
        if len(predicates) < len(scans):
            # scans without a predicate read the same files in every layout, and are ignored
            reading_all += 1
        if predicates:
            found.append(Asked(query, tuple(predicates)))
    return tuple(found), reading_all


def in_partitions(queries: Sequence[Asked], state: TableState) -> tuple[TableQuery, ...]:
    """Prune the partitions for each query by their values."""
    dates = frozenset(c.name for c in state.columns if pa.types.is_date(c.type))
    partitions = known(state.files.partitions, dates)

    def possible(predicate: Predicate) -> Bools:
        return np.array([answer is not False for answer in answers(predicate, partitions)], bool)

    return tuple(TableQuery(q.query, q.predicates, tuple(map(possible, q.predicates))) for q in queries)


def column_shares(queries: Sequence[Asked]) -> dict[str, float]:
    """The share of the queries' weight with a condition on each column, the most frequent column first."""
    total = sum(q.weight for q in queries)
    shares: dict[str, float] = {}
    for query in queries:
        for name in sorted(frozenset().union(*(columns(p) for p in query.predicates))):
            shares[name] = shares.get(name, 0.0) + query.weight / total
    return dict(sorted(shares.items(), key=lambda item: (-item[1], item[0])))


def _as_in_table(predicate: Predicate, known: Mapping[str, Column]) -> Predicate:
    """The predicate with the column names of the table, since Spark ignores their case, and with converted literals."""

    def leaf(found: Leaf) -> Predicate:
        column = known.get(found.column.lower())
        if column is None:
            return found
        match found:
            case Compare(_, operator, value):
                return Compare(column.name, operator, from_printed(value, column.type))
            case In(_, values):
                return In(column.name, tuple(from_printed(v, column.type) for v in values))
            case IsNull():
                return IsNull(column.name)

    return with_leaves(predicate, leaf)
