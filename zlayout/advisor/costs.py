"""The files and bytes that the queries of a workload open of one table: of its present files, and in simulated layouts.

`queries_on` returns the queries on the table. `costs` prunes files by their bounds for each query, and `measure` those
of a simulated rewrite. The floor of a query (`lowest`) is its lowest cost in any layout.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest

import numpy as np
import pyarrow as pa

from zlayout.advisor.model import Bools, Choice, Costs, Coverage, TableQuery, TableWorkload, Use
from zlayout.planner.partitions import Index
from zlayout.planner.simulation import Drawn, new_files, with_kept
from zlayout.predicate.coercion import comparable, from_printed
from zlayout.predicate.evaluate import known, may_match_in
from zlayout.predicate.model import (
    And,
    Compare,
    In,
    InKeys,
    IsNull,
    Leaf,
    Like,
    Not,
    Or,
    Predicate,
    Reason,
    Value,
    columns,
    conjunction,
)
from zlayout.predicate.parse import to_sql
from zlayout.predicate.prune import may_match
from zlayout.spec.model import Layout, TableName
from zlayout.table.location import canonical
from zlayout.table.metrics import layout_metrics
from zlayout.table.partition import Partition, source_columns
from zlayout.table.state import Column, ColumnBounds, FileTable, TableState
from zlayout.workload.model import MAX_TEXT, Query, Scan, Unused, Workload

# The part of a workload that concerns one table: the predicates of its queries, and the columns in them.

NO_PARTITIONS: Index = np.zeros(0, np.int64)
EVERY_ROW = And(())  # the predicate of a scan that has only a condition on partitions


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
    # A filter that a join would give to another table alone is no condition on this one.
    unused = [u for u in workload.unused if u.query in scans and (u.reason is not Reason.JOIN_FILTER or concerns(u))]
    doubtful = {u.query for u in unused if concerns(u)}
    uses: dict[Query, Use] = {}
    found, unknown = [], list[Query]()
    known_columns = {c.name.lower(): c for c in state.columns}
    for query, own in scans.items():
        predicates = list[Predicate]()
        of_partitions = list[Predicate | None]()
        for scan in own:
            if scan.predicate is None and scan.of_partitions is None:  # no condition that can be used
                continue
            predicate, left = (None, []) if scan.predicate is None else usable(scan.predicate, known_columns)
            if predicate is not None or scan.of_partitions is not None:
                predicates.append(EVERY_ROW if predicate is None else predicate)
                of_partitions.append(scan.of_partitions)
            unused += [
                Unused(query, to_sql(leaf)[:MAX_TEXT], reason, frozenset((scan.table,))) for leaf, reason in left
            ]
            doubtful |= {query} if left else set()
        uses[query] = Use.USED if predicates else Use.IGNORED if query in doubtful else Use.READS_ALL
        if query in doubtful and len(predicates) < len(own):
            unknown.append(query)
        if predicates:
            found.append(TableQuery(query, tuple(predicates), (), tuple(of_partitions) if any(of_partitions) else ()))
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
        case InKeys():
            return found, Reason.JOIN_FILTER
        case Like():
            return found, Reason.NOT_SUPPORTED
    return leaf, None if all(comparable(v, column.type) for v in values) else Reason.NOT_COMPARABLE


def in_partitions(queries: Sequence[TableQuery], state: TableState) -> tuple[TableQuery, ...]:
    """Prune the partitions of a table for each query, by their partition values and by the bounds of their files."""
    files = state.files
    types = {c.name: c.type for c in state.columns}
    by_values = _by_values(files.partitions, types)
    by_keys = _by_keys(files.partitions, by_values)

    def possible(predicate: Predicate) -> Bools:
        by_value = by_values(predicate)
        opened = may_match(predicate, files.bounds, files.rows)
        return by_value & (np.bincount(files.partition[opened], minlength=len(by_value)) > 0)

    # Equal predicates become one object, so that `costs` evaluates them once.
    one = {predicate: predicate for query in queries for predicate in query.predicates}
    found = {predicate: possible(predicate) for predicate in one}
    limits = {limit: by_keys(limit) for query in queries for limit in query.of_partitions if limit is not None}

    def limited(query: TableQuery) -> tuple[Bools, ...]:
        each = [found[p] for p in query.predicates]
        pairs = zip_longest(each, query.of_partitions)
        return tuple(rows if limit is None else rows & limits[limit] for rows, limit in pairs)

    return tuple(replace(q, predicates=tuple(one[p] for p in q.predicates), partitions=limited(q)) for q in queries)


def _by_values(partitions: Sequence[Partition], types: Mapping[str, pa.DataType]) -> Callable[[Predicate], Bools]:
    """Return a function that returns which partitions may match a predicate by their partition values."""
    dates = frozenset(name for name, type_ in types.items() if pa.types.is_date(type_))
    return may_match_in(known(partitions, dates), types)


def column_shares(queries: Sequence[TableQuery]) -> dict[str, float]:
    """Return for each column the share of the weight of the queries that have a condition on it, the largest first."""
    total = sum(q.weight for q in queries)
    shares: dict[str, float] = {}
    for query in queries:
        conditions = (*query.predicates, *(limit for limit in query.of_partitions if limit is not None))
        for name in sorted(frozenset().union(*map(columns, conditions))):
            shares[name] = shares.get(name, 0.0) + query.weight / total
    return dict(sorted(shares.items(), key=lambda item: (-item[1], item[0])))


def _by_keys(partitions: Sequence[Partition], by_values: Callable[[Predicate], Bools]) -> Callable[[Predicate], Bools]:
    """Return a function as `by_values`, without the parts of a condition on other than source columns."""
    # Without this, a condition that no key matches would exclude partitions that the engine cannot compare with it.
    sources = [frozenset(source_columns(p.fields)) for p in partitions]

    def possible(limit: Predicate) -> Bools:
        found = np.ones(len(partitions), bool)
        for part in limit.operands if isinstance(limit, And) else (limit,):
            compared = np.array([columns(part) <= known for known in sources], bool)
            found &= ~compared | by_values(part)
        return found

    return possible


# The costs of queries, of the present files and of simulated ones.


def measure(
    draws: Sequence[Drawn],
    layout: Layout,
    queries: Sequence[TableQuery],
    *,
    with_touched: bool = True,
    size_ratio: float = 1.0,
) -> Choice:
    """Simulate a rewrite in a layout on each of several draws, and return the mean of the costs of the queries.

    Args:
        draws: The draws.
        layout: The layout.
        queries: The queries.
        with_touched: Compute `Choice.touched` too, which a search does not need.
        size_ratio: The size of the new files, divided by that of the present files with the same rows.
    """
    tables = [with_kept(drawn, resized(new_files(drawn, layout), size_ratio)) for drawn in draws]
    names = tuple(layout.weights) if with_touched else ()
    touched = np.mean([[m.touched for m in layout_metrics(table, names)] for table in tables], axis=0)
    each = [costs(queries, table, drawn) for table, drawn in zip(tables, draws, strict=True)]
    return Choice(layout, len(tables[0]), Costs.mean(each), dict(zip(names, touched.tolist(), strict=True)))


def resized(files: FileTable, ratio: float) -> FileTable:
    """Return files with sizes multiplied by a ratio."""
    return files if ratio == 1 else replace(files, bytes=np.rint(files.bytes * ratio).astype(np.int64))


def points(keys: Mapping[str, pa.Array]) -> dict[str, ColumnBounds]:
    """Return the bounds of each row as a file of one row, so that pruning decides which rows a predicate selects."""
    return {
        name: ColumnBounds(v, v, v.is_null().to_numpy(zero_copy_only=False).astype(np.int64), np.zeros(len(v), bool))
        for name, v in keys.items()
    }


def costs(queries: Sequence[TableQuery], files: FileTable, drawn: Drawn | None = None) -> Costs:
    """Return the cost of each query. A query with two scans of the table opens its files twice.

    Args:
        queries: The queries.
        files: The files.
        drawn: The rows of which new files are simulated; None for present files. Unless they are all rows, a scan
            opens at least one file if present files may have matching rows, because these may not be drawn.
    """
    sampled = drawn is not None and not drawn.is_complete
    every_partition = drawn is None or drawn.rewrite.sample.complete
    known: dict[int, Bools] = {}  # by the identity of the predicate, because a hash takes as long as pruning
    types = {name: of.lower.type for name, of in files.bounds.items()}
    possible = _in_reached(files.partitions, NO_PARTITIONS if drawn is None else drawn.reached, types)

    def of_scan(predicate: Predicate, partitions: Bools, limit: Predicate | None) -> tuple[float, float]:
        if id(predicate) not in known:
            known[id(predicate)] = may_match(predicate, files.bounds, files.rows)
        by_limit, by_values = possible(predicate, partitions, limit)
        within = by_limit[files.partition]
        hit = known[id(predicate)] & within & by_values[files.partition]
        if sampled and not hit.any() and partitions.any() and (within.any() or not every_partition):
            return 1.0, files.bytes[within if within.any() else slice(None)].mean()
        return hit.sum(), files.bytes[hit].sum()

    return _summed(queries, of_scan)


def _in_reached(
    partitions: Sequence[Partition], reached: Index, types: Mapping[str, pa.DataType]
) -> Callable[[Predicate, Bools, Predicate | None], tuple[Bools, Bools]]:
    """Return a function of the arguments of a scan: which partitions may have matching rows after a rewrite."""
    # Its results are bool[P] each: by the condition on partitions, and by the values of the partitions. What the
    # present files of a partition contain does not count in a partition to which other rows move, see `Drawn.reached`.
    moved_to = [partitions[n] for n in reached.tolist()]
    by_values = _by_values(moved_to, types)
    by_keys = _by_keys(moved_to, by_values)
    limits: dict[Predicate | None, Bools] = {None: np.ones(len(moved_to), bool)}
    values: dict[int, Bools] = {}

    def possible(predicate: Predicate, present: Bools, limit: Predicate | None) -> tuple[Bools, Bools]:
        by_limit, by_value = np.zeros(len(partitions), bool), np.ones(len(partitions), bool)
        by_limit[: len(present)] = present
        if len(moved_to):
            if limit is not None and limit not in limits:
                limits[limit] = by_keys(limit)
            if id(predicate) not in values:
                values[id(predicate)] = by_values(predicate)
            by_limit[reached], by_value[reached] = limits[limit], values[id(predicate)]
        return by_limit, by_value

    return possible


def lowest(queries: Sequence[TableQuery], drawn: Drawn) -> Costs:
    """Return the floor of each query: its cost if the table were laid out for it alone, with the same number of files.

    The matching rows are then in as few files as possible. This is at least one file in each partition with matching
    sampled rows. It is at least one file in total if present files may have matching rows, because the sample may
    contain none of these rows.

    drawn: Rows of a rewrite of the whole table, see `whole_rewrite`.
    """
    targets, part, bounds, ones = drawn.targets, drawn.part, points(drawn.keys), np.ones(len(drawn), np.int64)
    count = len(targets)
    rows = np.maximum(np.bincount(part, minlength=count), 1)
    size = drawn.size / np.maximum(targets, 1)
    partitions = (*drawn.rewrite.files.partitions, *drawn.new_partitions)
    possible = _in_reached(partitions, drawn.reached, {name: of.type for name, of in drawn.keys.items()})

    def of_scan(predicate: Predicate, present: Bools, limit: Predicate | None) -> tuple[float, float]:
        within = possible(predicate, present, limit)[0][drawn.partition]
        match = may_match(predicate, bounds, ones) & within[part]
        if limit is not None:
            match &= may_match(limit, bounds, ones)
        share = np.bincount(part[match], minlength=count) / rows
        files = np.where(share > 0, np.clip(share * targets, 1.0, targets), 0.0)
        if not files.any() and present.any():
            written = targets > 0
            reachable = within & written
            files[np.argmax(reachable if reachable.any() else written)] = 1.0
        return files.sum(), (files * size).sum()

    return _summed(queries, of_scan)


def _summed(
    queries: Sequence[TableQuery], of_scan: Callable[[Predicate, Bools, Predicate | None], tuple[float, float]]
) -> Costs:
    """Return the cost of each query. of_scan: returns the files and bytes of a scan, see `TableQuery.scans`."""
    opened = np.zeros((len(queries), 2))
    for number, query in enumerate(queries):
        for scan in query.scans:
            opened[number] += of_scan(*scan)
    return Costs(opened[:, 0], opened[:, 1], np.array([q.weight for q in queries]))
