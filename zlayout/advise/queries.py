"""The part of a workload that is about one table: its scans query by query, and how often columns are asked for."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from zlayout.advise.model import Bools, TableQuery
from zlayout.spec.model import TableName
from zlayout.spec.predicate import And, Compare, In, IsNull, Not, Or, Predicate, columns
from zlayout.spec.select import matches
from zlayout.table.state import TableState
from zlayout.workload.model import Scan, Workload


def is_named(written: str, table: TableName) -> bool:
    """Whether a name of a query, dotted and in lower case, may mean the table: `t`, `ns.t`, `catalog.ns.t`."""
    whole = "." + str(table).lower()
    return whole.endswith("." + written)


def table_queries(workload: Workload, table: TableName, state: TableState) -> tuple[tuple[TableQuery, ...], int]:
    """The queries that ask something of the table, and how many read all of it in any layout."""
    by_query: dict[str, list[Scan]] = {}
    for scan in workload.scans:
        if is_named(scan.table, table):
            by_query.setdefault(scan.query, []).append(scan)
    names = {c.name.lower(): c.name for c in state.columns}
    found, reading_all = [], 0
    for place, scans in by_query.items():
        known = [p for s in scans if (p := _with_names(s.predicate, names)) is not None]
        if len(known) < len(scans):
            # the files that it reads besides are the same in every layout, and would only blur the picture
            reading_all += 1
        if known:
            allowed = tuple(_partitions(p, state) for p in known)
            found.append(TableQuery(place, scans[0].weight, tuple(known), allowed))
    return tuple(found), reading_all


def column_shares(queries: Sequence[TableQuery]) -> dict[str, float]:
    """For each column the share of the queries' weight that has a condition on it, the most asked for first."""
    total = sum(q.weight for q in queries)
    shares: dict[str, float] = {}
    for query in queries:
        for name in sorted(frozenset().union(*(columns(p) for p in query.predicates))):
            shares[name] = shares.get(name, 0.0) + query.weight / total
    return dict(sorted(shares.items(), key=lambda item: (-item[1], item[0])))


def _with_names(predicate: Predicate | None, names: dict[str, str]) -> Predicate | None:
    """The predicate with columns spelled as in the table; Spark does not mind the case."""
    match predicate:
        case None:
            return None
        case And(operands):
            return And(tuple(_spelled(p, names) for p in operands))
        case Or(operands):
            return Or(tuple(_spelled(p, names) for p in operands))
        case Not(operand):
            return Not(_spelled(operand, names))
        case Compare(column, operator, value):
            return Compare(names.get(column.lower(), column), operator, value)
        case In(column, values):
            return In(names.get(column.lower(), column), values)
        case IsNull(column):
            return IsNull(names.get(column.lower(), column))


def _spelled(predicate: Predicate, names: dict[str, str]) -> Predicate:
    found = _with_names(predicate, names)
    assert found is not None
    return found


def _partitions(predicate: Predicate, state: TableState) -> Bools:
    """bool[P]: the partitions that may hold matching rows, by their values."""
    dates = frozenset(c.name for c in state.columns if pa.types.is_date(c.type))
    answers = [matches(predicate, p.fields, p.values, dates) for p in state.files.partitions]
    return np.array([a is not False for a in answers], bool)
