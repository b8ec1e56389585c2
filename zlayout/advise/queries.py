"""The part of a workload that is about one table: its scans query by query, and how often columns are asked for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from zlayout.advise.literals import as_printed
from zlayout.advise.model import Bools, TableQuery
from zlayout.spec.model import TableName
from zlayout.spec.predicate import And, Compare, In, IsNull, Not, Or, Predicate, columns
from zlayout.spec.select import matches
from zlayout.table.state import Column, TableState
from zlayout.workload.model import Query, Scan, Workload


def is_named(written: str, table: TableName, location: str = "") -> bool:
    """Whether a name of a query may mean the table: `t`, `ns.t`, `catalog.ns.t` in lower case, or its location."""
    if "/" in written:
        return _plain(written) == _plain(location)
    return ("." + str(table).lower()).endswith("." + written)


def _plain(location: str) -> str:
    """A location without what different writers put around it: `file:/a`, `file:///a/` and `/a` are one."""
    return re.sub(r"^file:/*(?=/)", "", location).rstrip("/")


def table_queries(workload: Workload, table: TableName, state: TableState) -> tuple[tuple[TableQuery, ...], int]:
    """The queries that ask something of the table, and how many read all of it in any layout."""
    by_query: dict[Query, list[Scan]] = {}
    for scan in workload.scans:
        if is_named(scan.table, table, state.location):
            by_query.setdefault(scan.query, []).append(scan)
    known_columns = {c.name.lower(): c for c in state.columns}
    found, reading_all = [], 0
    for query, scans in by_query.items():
        known = [p for s in scans if (p := _as_in_table(s.predicate, known_columns)) is not None]
        if len(known) < len(scans):
            # the files that it reads besides are the same in every layout, and would only blur the picture
            reading_all += 1
        if known:
            allowed = tuple(_partitions(p, state) for p in known)
            found.append(TableQuery(query, tuple(known), allowed))
    return tuple(found), reading_all


def column_shares(queries: Sequence[TableQuery]) -> dict[str, float]:
    """For each column the share of the queries' weight that has a condition on it, the most asked for first."""
    total = sum(q.weight for q in queries)
    shares: dict[str, float] = {}
    for query in queries:
        for name in sorted(frozenset().union(*(columns(p) for p in query.predicates))):
            shares[name] = shares.get(name, 0.0) + query.weight / total
    return dict(sorted(shares.items(), key=lambda item: (-item[1], item[0])))


def _as_in_table(predicate: Predicate | None, known: Mapping[str, Column]) -> Predicate | None:
    return None if predicate is None else _spelled(predicate, known)


def _spelled(predicate: Predicate, known: Mapping[str, Column]) -> Predicate:
    """Columns spelled as in the table, since Spark does not mind the case, and printed literals as values again."""
    match predicate:
        case And(operands):
            return And(tuple(_spelled(p, known) for p in operands))
        case Or(operands):
            return Or(tuple(_spelled(p, known) for p in operands))
        case Not(operand):
            return Not(_spelled(operand, known))
    column = known.get(predicate.column.lower())
    if column is None:
        return predicate
    match predicate:
        case Compare(_, operator, value):
            return Compare(column.name, operator, as_printed(value, column.type))
        case In(_, values):
            return In(column.name, tuple(as_printed(v, column.type) for v in values))
        case IsNull():
            return IsNull(column.name)


def _partitions(predicate: Predicate, state: TableState) -> Bools:
    """bool[P]: the partitions that may hold matching rows, by their values."""
    dates = frozenset(c.name for c in state.columns if pa.types.is_date(c.type))
    answers = [matches(predicate, p.fields, p.values, dates) for p in state.files.partitions]
    return np.array([a is not False for a in answers], bool)
