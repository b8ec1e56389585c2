"""The part of a workload that concerns one table: the predicates of its queries, and the columns in them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from zlayout.advisor.model import Bools, Coverage, QueryPredicates, TableQuery, TableWorkload, Use
from zlayout.predicate.coercion import comparable, from_printed
from zlayout.predicate.conditions import Reason
from zlayout.predicate.evaluate import answers, known
from zlayout.predicate.model import And, Compare, In, IsNull, Leaf, Not, Or, Predicate, Value, columns, conjunction
from zlayout.predicate.parse import to_sql
from zlayout.predicate.prune import may_match
from zlayout.spec.model import TableName
from zlayout.table.location import canonical
from zlayout.table.state import Column, TableState
from zlayout.workload.model import MAX_TEXT, Query, Scan, Unused, Workload


def is_named(written: str, table: TableName, location: str = "") -> bool:
    """Return whether a name in a query may refer to a table.

    Args:
        written: `t`, `ns.t` or `catalog.ns.t` in lower case, or a storage location.
        table: The table.
        location: The storage location of the table.
    """
    if "/" in written:
        return canonical(written) == canonical(location)
    return ("." + str(table.on("")).lower()).endswith("." + written)


def queries_on(workload: Workload, table: TableName, state: TableState) -> TableWorkload:
    """Return the queries of a workload that read a table, with those of their conditions that can be used."""

    def concerns(unused: Unused) -> bool:
        return unused.tables is None or any(is_named(t, table, state.location) for t in unused.tables)

    scans: dict[Query, list[Scan]] = {}
    for scan in workload.scans:
        if is_named(scan.table, table, state.location):
            scans.setdefault(scan.query, []).append(scan)
    unused = [u for u in workload.unused if u.query in scans]
    doubtful = {u.query for u in unused if concerns(u)}
    uses: dict[Query, Use] = {}
    found, unknown = [], list[Query]()
    known_columns = {c.name.lower(): c for c in state.columns}
    for query, own in scans.items():
        predicates = []
        for scan in own:
            if scan.predicate is None:  # The scan has no condition that can be used.
                continue
            predicate, left = usable(scan.predicate, known_columns)
            predicates += [] if predicate is None else [predicate]
            unused += [
                Unused(query, to_sql(leaf)[:MAX_TEXT], reason, frozenset((scan.table,))) for leaf, reason in left
            ]
            doubtful |= {query} if left else set()
        uses[query] = Use.USED if predicates else Use.IGNORED if query in doubtful else Use.READS_ALL
        if query in doubtful and len(predicates) < len(own):
            unknown.append(query)
        if predicates:
            found.append(QueryPredicates(query, tuple(predicates)))
    unread = dict.fromkeys((q for q in workload.unread if _mentions(q.text, table)), Use.UNREAD)
    unused += [u for u in workload.unused if u.query in unread]
    coverage = Coverage.of(uses | unread)
    inverted = tuple(i for i in workload.inverted if is_named(i.table, table, state.location))
    return TableWorkload(tuple(found), coverage, tuple(unused), inverted, (*unknown, *unread))


def _mentions(text: str, table: TableName) -> bool:
    return re.search(rf"(?<!\w){re.escape(table.name)}(?!\w)", text, re.IGNORECASE) is not None


def usable(predicate: Predicate, known: Mapping[str, Column]) -> tuple[Predicate | None, list[tuple[Leaf, Reason]]]:
    """Return the part of a predicate that bounds of the table can decide.

    Args:
        predicate: The predicate of a scan.
        known: The columns of the table by their names in lower case, because Spark ignores the case of names.

    Returns:
        The predicate with the names of the table and with literals converted to the types of the columns, or None if no
        condition can be used; and the unused conditions with their reasons.
    """
    match predicate:
        case And(operands):
            parts = [usable(p, known) for p in operands]
            return conjunction(p for p, _ in parts if p is not None), [one for _, left in parts for one in left]
        case Or(operands):
            parts = [usable(p, known) for p in operands]
            left = [one for _, more in parts for one in more]
            whole = [p for p, _ in parts if p is not None]
            return (Or(tuple(whole)) if not left else None), left
        case Not(operand):
            inner, left = usable(operand, known)
            return (None if inner is None or left else Not(inner)), left
        case _:
            leaf, reason = _leaf(predicate, known.get(predicate.column.lower()))
            return (None, [(predicate, reason)]) if reason else (leaf, [])


def _leaf(found: Leaf, column: Column | None) -> tuple[Leaf, Reason | None]:
    if column is None:
        return found, Reason.UNKNOWN_COLUMN
    if not column.orderable and not isinstance(found, IsNull):
        return found, Reason.NO_BOUNDS
    values: tuple[Value, ...] = ()
    leaf: Leaf
    match found:
        case Compare(_, operator, value):
            values = (from_printed(value, column.type),)
            leaf = Compare(column.name, operator, values[0])
        case In(_, listed):
            values = tuple(from_printed(v, column.type) for v in listed)
            leaf = In(column.name, values)
        case IsNull():
            leaf = IsNull(column.name)
    return leaf, None if all(comparable(v, column.type) for v in values) else Reason.NOT_COMPARABLE


def in_partitions(queries: Sequence[QueryPredicates], state: TableState) -> tuple[TableQuery, ...]:
    """Prune the partitions of a table for each query, by their partition values and by the bounds of their files."""
    dates = frozenset(c.name for c in state.columns if pa.types.is_date(c.type))
    partitions = known(state.files.partitions, dates)
    files = state.files

    def possible(predicate: Predicate) -> Bools:
        by_value = np.array([answer is not False for answer in answers(predicate, partitions)], bool)
        opened = may_match(predicate, files.bounds, files.rows)
        return by_value & (np.bincount(files.partition[opened], minlength=len(by_value)) > 0)

    found = {predicate: possible(predicate) for query in queries for predicate in query.predicates}
    return tuple(TableQuery(q.query, q.predicates, tuple(found[p] for p in q.predicates)) for q in queries)


def column_shares(queries: Sequence[QueryPredicates]) -> dict[str, float]:
    """Return for each column the share of the weight of the queries that have a condition on it, the largest first."""
    total = sum(q.weight for q in queries)
    shares: dict[str, float] = {}
    for query in queries:
        for name in sorted(frozenset().union(*(columns(p) for p in query.predicates))):
            shares[name] = shares.get(name, 0.0) + query.weight / total
    return dict(sorted(shares.items(), key=lambda item: (-item[1], item[0])))
