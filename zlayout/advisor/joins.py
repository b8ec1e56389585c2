"""Conditions through joins: the conditions on other tables as ranges of a key of the table that is joined to them.

A workload has these conditions as `InKeys`. They are evaluated with the rows of the other tables: a row counts unless
its values prove that the condition on it is not true. The keys of these rows become a limited number of ranges. A range
may contain further keys, but no key is outside of all ranges, so that no file with a matching row is skipped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from zlayout.advisor.costs import is_named, points, usable
from zlayout.advisor.model import Bools
from zlayout.predicate.model import (
    And,
    Compare,
    In,
    InKeys,
    Keys,
    Leaf,
    Like,
    Not,
    Or,
    Predicate,
    Reason,
    TextOnly,
    Value,
    columns,
    conjunction,
    leaves,
    with_leaves,
)
from zlayout.predicate.parse import to_sql
from zlayout.predicate.prune import may_match
from zlayout.spec.model import TableName
from zlayout.table.state import Column, Int64, TableState
from zlayout.workload.model import MAX_TEXT, Query, Scan, Unused, Workload

MAX_RANGES = 64  # of keys in one condition
MAX_KEPT_BYTES = 512 * 1024 * 1024  # of the rows of other tables; those of further tables are read again
AFTER_SPACE = "!"  # the character after a space
MAX_DEPTH = 8  # of tables whose keys limit other tables


class NotEvaluatedError(Exception):
    """The keys of a table cannot be determined, for the reason in the message."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a table.

    Attributes:
        columns: The columns of the table, by name in lower case.
        keys: The values of some columns, by the name in the table. All arrays have the same length.
    """

    columns: Mapping[str, Column]
    keys: Mapping[str, pa.Array]


# Returns the rows of the table that a query names, with the columns of these names as far as it has them. Rows that the
# table does not have any more may be included. Raises NotEvaluatedError.
ReadRows = Callable[[str, frozenset[str]], Rows]
Bounds = Callable[[Column], tuple[pa.Scalar, pa.Scalar] | None]


@dataclass(frozen=True, slots=True)
class Through:
    """A condition through a join that is used.

    Attributes:
        query: The query.
        column: The key of the table.
        table: The other table, as the query names it.
        kept: The share of the keys of the other table that the condition leaves.
    """

    query: Query
    column: str
    table: str
    kept: float


def through_texts(used: Sequence[Through]) -> tuple[str, ...]:
    """Return "column = table" for the conditions through joins, those with the largest weight first."""
    weights: dict[str, float] = {}
    for one in used:
        text = f"{one.column} = {one.table}"
        weights[text] = weights.get(text, 0.0) + one.query.weight
    return tuple(sorted(weights, key=lambda text: (-weights[text], text)))


@dataclass(frozen=True, slots=True)
class _Values:
    """Distinct keys in ascending order, and which of them are selected."""

    every: pa.Array
    selected: Bools
    # the largest number of rows that have these; None if unknown, as if they are joined to others
    rows: int | None = None


def with_joins(
    workload: Workload,
    table: TableName,
    state: TableState,
    read: ReadRows,
    max_ranges: int = MAX_RANGES,
    certain: Container[str] = (),
    max_rows: int = 0,
    by_partitions: Container[str] | None = None,
    bounds: Bounds = lambda _column: None,
) -> tuple[Workload, tuple[Through, ...]]:
    """Return the workload with the conditions through joins on one table as conditions on its own columns.

    A condition that cannot be evaluated is listed as unused with the reason, instead of the notes on the filters
    through joins of its query.

    Args:
        workload: The workload.
        table, state: The table.
        read: Reads the rows of the other tables.
        max_ranges: The largest number of ranges of keys in one condition.
        certain: The names of other tables that mean the same table with any namespace.
        max_rows: Up to this number of matching rows of the other table, each of their integer keys is a range.
        by_partitions: The columns of partitions, in lower case, if the engine skips only partitions; None if it skips
            files. The conditions then become `Scan.of_partitions`, and those on other columns are unused.
        bounds: Returns the lowest and the highest value of a column of the table, or None if they are unknown. If there
            are too many ranges of keys, those below and those above become one range each before others are merged:
            only the first and the last partition can have such keys, and they do if a key itself is in them.
    """
    own = {c.name.lower(): c for c in state.columns}
    of_table = [scan for scan in workload.scans if is_named(scan.table, table, state.location)]
    rows = _ReadOnce.of(read, [p for scan in of_table for p in scan.through])
    evaluation = Evaluation(rows, max_ranges, max_rows, bounds)
    scans: list[Scan] = []
    unused: list[Unused] = []
    used: list[Through] = []
    replaced: set[Query] = set()
    subqueries: set[tuple[Query, str]] = set()
    for scan in workload.scans:
        if not scan.through or not is_named(scan.table, table, state.location):
            scans.append(scan)
            continue
        replaced.add(scan.query)
        found = []
        for predicate in scan.through:
            subqueries |= {(scan.query, leaf.text) for leaf in leaves(predicate) if isinstance(leaf, InKeys)}
            try:
                _require_same_schema(scan.table, predicate, certain)
                if by_partitions is not None:
                    _require_partition_pruning(predicate, by_partitions)
                made = evaluation.on_columns(predicate, own)
            except NotEvaluatedError as error:
                tables = frozenset((scan.table,))
                unused.append(Unused(scan.query, to_sql(predicate)[:MAX_TEXT], str(error), tables))
                continue
            found.append(made)
            for leaf in leaves(predicate):
                if isinstance(leaf, InKeys):
                    used.append(Through(scan.query, leaf.column, leaf.sets[0].table, evaluation.kept(leaf)))
        if by_partitions is None:
            whole = conjunction(([] if scan.predicate is None else [scan.predicate]) + found)
            scans.append(replace(scan, predicate=whole, through=()))
        else:
            scans.append(replace(scan, through=(), of_partitions=conjunction(found)))

    def is_replaced(note: Unused) -> bool:
        if note.tables is None or not all(is_named(name, table, state.location) for name in note.tables):
            return False
        is_subquery = note.reason == Reason.SUBQUERY and (note.query, note.text) in subqueries
        return is_subquery or (note.reason == Reason.JOIN_FILTER and note.query in replaced)

    kept = [note for note in workload.unused if not is_replaced(note)]
    return replace(workload, scans=tuple(scans), unused=(*kept, *unused)), tuple(used)


def _require_same_schema(table: str, predicate: Predicate, certain: Container[str]) -> None:
    """Raise NotEvaluatedError if a name lacks a namespace that the name of the scanned table has."""
    for leaf in leaves(predicate):
        for keys in leaf.sets if isinstance(leaf, InKeys) else ():
            is_short = "/" in table or keys.table.count(".") < table.count(".")
            if keys.table not in certain and "/" not in keys.table and is_short:
                raise NotEvaluatedError(f"the namespace of {keys.table} is unknown (write it as that of {table})")
            if keys.predicate is not None:
                _require_same_schema(table, keys.predicate, certain)


def _require_partition_pruning(predicate: Predicate, columns_of_partitions: Container[str]) -> None:
    """Raise NotEvaluatedError unless Spark skips partitions by the join from which the predicate follows."""
    # Spark does so by a join with a table that has a selective condition of its own, and if its key is the column of a
    # partition field.
    for leaf in leaves(predicate):
        if not isinstance(leaf, InKeys) or leaf.is_scalar or len(leaf.sets) > 1:
            raise NotEvaluatedError(Reason.JOIN_FILTER)
        condition = leaf.sets[0].predicate
        if leaf.column.lower() not in columns_of_partitions or condition is None or not _is_selective(condition):
            raise NotEvaluatedError(Reason.JOIN_FILTER)
        if any(isinstance(one, InKeys) for one in leaves(condition)):  # the table is joined to others first
            raise NotEvaluatedError(Reason.JOIN_FILTER)


def _is_selective(condition: Predicate) -> bool:
    """Return whether Spark takes a condition on a joined table for a selective one (`isLikelySelective`)."""
    match condition:
        case And(operands):
            return any(map(_is_selective, operands))
        case Or(operands):
            return all(map(_is_selective, operands))
        case Not(operand):
            return _is_selective(operand)
        case _:
            return isinstance(condition, Compare | In | Like)


@dataclass(slots=True)
class _ReadOnce:
    """Reads each table once, with all columns that some conditions need, as far as its rows fit into memory."""

    read: ReadRows
    needed: dict[str, set[str]] = field(default_factory=dict)  # the columns in lower case, by the name of the table
    _rows: dict[str, Rows | None] = field(default_factory=dict)
    _bytes: int = 0

    @staticmethod
    def of(read: ReadRows, predicates: Sequence[Predicate]) -> _ReadOnce:
        """Return a reader for the evaluation of the predicates."""
        made, todo = _ReadOnce(read), list(predicates)
        while todo:
            for leaf in leaves(todo.pop()):
                for keys in leaf.sets if isinstance(leaf, InKeys) else ():
                    found = made.needed.setdefault(keys.table, set())
                    found.add(keys.column.lower())
                    if keys.predicate is not None:
                        found |= {name.lower() for name in columns(keys.predicate)}
                        todo.append(keys.predicate)
        return made

    def __call__(self, table: str, names: frozenset[str]) -> Rows:
        if table not in self._rows:
            self._rows[table] = None
            if self._bytes < MAX_KEPT_BYTES:
                # all columns may be too large, and those of one condition not
                with suppress(NotEvaluatedError):
                    self._rows[table] = rows = self.read(table, frozenset(self.needed[table]))
                    self._bytes += sum(values.nbytes for values in rows.keys.values())
        rows_of = self._rows[table]
        return self.read(table, names) if rows_of is None else rows_of


@dataclass
class Evaluation:
    """Evaluates `InKeys` with the rows of other tables. read, max_ranges, max_rows, bounds: as in `with_joins`."""

    read: ReadRows
    max_ranges: int = MAX_RANGES
    max_rows: int = 0
    bounds: Bounds = lambda _column: None
    _sets: dict[Keys, _Values] = field(default_factory=dict)
    _failed: dict[Keys, str] = field(default_factory=dict)

    def on_columns(self, predicate: Predicate, own: Mapping[str, Column]) -> Predicate:
        """Return the predicate with each `InKeys` replaced by ranges of keys.

        own: The columns of the limited table, by name in lower case.

        Raises:
            NotEvaluatedError: If one of the `InKeys` cannot be evaluated.
        """

        def of(leaf: Leaf) -> Predicate:
            return self.ranges(leaf, own.get(leaf.column.lower())) if isinstance(leaf, InKeys) else leaf

        return with_leaves(predicate, of)

    def ranges(self, leaf: InKeys, column: Column | None) -> Predicate:
        """Return the ranges that contain all keys of `leaf`. column: the limited one. Raises NotEvaluatedError."""
        if column is None:
            raise NotEvaluatedError(Reason.UNKNOWN_COLUMN)
        values = self.values(leaf.sets)
        _require_same_kind(column.type, values.every.type)
        are_few = values.rows is not None and values.rows <= self.max_rows and _kind(column.type) == "integer"
        most, selected = MAX_RANGES if are_few else self.max_ranges, values.selected
        if len(_ranges(selected)[0]) > most and (ends := self.bounds(column)) is not None:
            selected = _merged_outside(values.every, selected, *ends)
        return ranges_of(column.name, values.every, selected, most)

    def kept(self, leaf: InKeys) -> float:
        """Return the share of the keys that an evaluated `InKeys` selects."""
        selected = self.values(leaf.sets).selected
        return float(selected.mean()) if len(selected) else 0.0

    def values(self, sets: Sequence[Keys], depth: int = 0) -> _Values:
        """Return the keys of several sets, and which of them are in one of the sets. Raises NotEvaluatedError."""
        found = [self._of(one, depth) for one in sets]
        for one in found[1:]:
            _require_same_kind(found[0].every.type, one.every.type)
        if len(found) == 1:
            return found[0]
        kind = pa.int64() if _kind(found[0].every.type) == "integer" else found[0].every.type
        every = _distinct([one.every.cast(kind) for one in found])
        selected = [one.every.filter(pa.array(one.selected)).cast(kind) for one in found]
        return _Values(every, _is_in(every, pa.concat_arrays(selected)))

    def _of(self, keys: Keys, depth: int) -> _Values:
        if keys in self._failed:
            raise NotEvaluatedError(self._failed[keys])
        if keys not in self._sets:
            try:
                self._sets[keys] = self._evaluated(keys, depth)
            except NotEvaluatedError as error:
                self._failed[keys] = str(error)
                raise
        return self._sets[keys]

    def _evaluated(self, keys: Keys, depth: int) -> _Values:
        if depth > MAX_DEPTH:
            raise NotEvaluatedError(f"more than {MAX_DEPTH} tables that are joined one to the other")
        names = frozenset((keys.column,)) | (columns(keys.predicate) if keys.predicate else frozenset())
        rows = self.read(keys.table, frozenset(name.lower() for name in names))
        column = rows.columns.get(keys.column.lower())
        if column is None or column.name not in rows.keys:
            raise NotEvaluatedError(f"{keys.table} has no column {keys.column}")
        if _kind(column.type) is None:
            raise NotEvaluatedError(f"keys of type {column.type}")
        values = rows.keys[column.name]
        if _is_padded(values):
            raise NotEvaluatedError(f"keys that end with spaces, in {keys.table}.{column.name}")
        match: Bools = np.ones(len(values), bool)
        if keys.predicate is not None:
            conditions = self._rows(keys.predicate, rows, len(values), depth)
            if conditions is None:
                raise NotEvaluatedError(f"no condition on {keys.table} can be evaluated")
            match = conditions
        every = _distinct([values])
        joined = keys.predicate is not None and any(isinstance(leaf, InKeys) for leaf in leaves(keys.predicate))
        return _Values(every, _is_in(every, values.filter(pa.array(match))), None if joined else int(match.sum()))

    def _rows(self, predicate: Predicate, rows: Rows, count: int, depth: int) -> Bools | None:
        """Return which rows may match, bool[count]; None if the predicate cannot be evaluated at all."""
        match predicate:
            case And(operands):
                parts = [p for o in operands if (p := self._rows(o, rows, count, depth)) is not None]
                return np.asarray(np.all(parts, axis=0), bool) if parts else None
            case Or(operands):
                each = [self._rows(o, rows, count, depth) for o in operands]
                known = [p for p in each if p is not None]
                if len(known) < len(each):
                    return None
                return np.asarray(np.any([np.zeros(count, bool), *known], axis=0), bool)
            case InKeys(column, sets):
                return self._rows_in_keys(column, sets, rows, depth)
            case Like():
                return _rows_like(predicate, rows)
        names = columns(predicate)
        own = {name: rows.columns[name.lower()].name for name in names if name.lower() in rows.columns}
        found, left = usable(predicate, rows.columns)
        values = {name: rows.keys[name] for name in own.values() if name in rows.keys}
        if found is None or left or len(values) < len(names) or not all(map(_is_certain, values.values())):
            return None
        if any(isinstance(v, str) and v.endswith(" ") for leaf in leaves(predicate) for v in _constants(leaf)):
            return None
        matching: Bools = may_match(found, points(values), np.ones(count, np.int64))
        return matching

    def _rows_in_keys(self, name: str, sets: Sequence[Keys], rows: Rows, depth: int) -> Bools | None:
        column = rows.columns.get(name.lower())
        values = rows.keys.get(column.name) if column else None
        if values is None or _is_padded(values):
            return None
        try:
            keys = self.values(sets, depth + 1)
            _require_same_kind(values.type, keys.every.type)
        except NotEvaluatedError:
            return None
        selected = keys.every.filter(pa.array(keys.selected))
        if _kind(values.type) == "integer":
            values, selected = values.cast(pa.int64()), selected.cast(pa.int64())
        return _is_in(values, selected)


def _rows_like(leaf: Like, rows: Rows) -> Bools | None:
    """Return which rows may match; None if it depends on spaces with which some engines fill up a CHAR."""
    column = rows.columns.get(leaf.column.lower())
    values = rows.keys.get(column.name) if column else None
    if values is None or _kind(values.type) != "string" or _is_padded(values):
        return None
    signs = re.findall("!.|[^!]", leaf.pattern, re.DOTALL)
    if leaf.negated:
        if signs[-1:] != ["%"]:  # only with % at the end, a value that matches does so with further spaces too
            return None
    else:
        while signs and signs[-1] in ("%", "_", " "):
            signs.pop()
        signs.append("%")  # what matches only with further spaces begins with the rest of the pattern
    parts = [{"%": ".*", "_": "."}.get(one) or re.escape(one[-1]) for one in signs]
    try:
        found = pc.match_substring_regex(values, rf"(?s)\A{''.join(parts)}\z")
    except pa.ArrowInvalid:  # RE2 limits the size of patterns
        return None
    matching: Bools = (pc.invert(found) if leaf.negated else found).fill_null(False).to_numpy(zero_copy_only=False)
    return matching


def ranges_of(column: str, every: pa.Array, selected: Bools, max_ranges: int) -> Predicate:
    """Return a predicate that is true for all selected keys: a number of ranges, some of which are single values.

    For strings, it is true for the same keys followed by spaces too, which some engines ignore in comparisons.

    Two ranges are merged if the fewest other keys are between them.

    Args:
        column: The name of the column in the predicate.
        every: The distinct keys in ascending order.
        selected: bool[n], which of them are selected.
        max_ranges: The largest number of ranges, at least 1.
    """
    first, last = _ranges(selected)
    if len(first) > max_ranges:
        gaps = first[1:] - last[:-1]
        kept = np.sort(np.argsort(gaps, kind="stable")[::-1][: max_ranges - 1])
        first, last = first[np.concatenate(([0], kept + 1))], last[np.concatenate((kept, [len(last) - 1]))]
    if not len(first):
        return In(column, ())
    if pt.is_string(every.type) or pt.is_large_string(every.type):
        ends = [
            (TextOnly(every[low].as_py()), TextOnly(every[high].as_py() + AFTER_SPACE))
            for low, high in zip(first.tolist(), last.tolist(), strict=True)
        ]
        texts = [And((Compare(column, ">=", low), Compare(column, "<", end))) for low, end in ends]
        return texts[0] if len(texts) == 1 else Or(tuple(texts))
    single = [every[at].as_py() for at in first[first == last].tolist()]
    parts: list[Predicate] = [In(column, tuple(single))] if len(single) > 1 else []
    parts += [Compare(column, "=", single[0])] if len(single) == 1 else []
    for low, high in zip(first.tolist(), last.tolist(), strict=True):
        if low < high:
            lowest, highest = every[low].as_py(), every[high].as_py()
            parts.append(And((Compare(column, ">=", lowest), Compare(column, "<=", highest))))
    return parts[0] if len(parts) == 1 else Or(tuple(parts))


def _ranges(selected: Bools) -> tuple[Int64, Int64]:
    """Return the first and the last index of each run of selected keys, int64 each."""
    edges = np.diff(np.concatenate(([0], selected.astype(np.int8), [0])))
    return np.flatnonzero(edges == 1), np.flatnonzero(edges == -1) - 1


def _merged_outside(every: pa.Array, selected: Bools, low: pa.Scalar, high: pa.Scalar) -> Bools:
    """Return the selected keys, and all keys between two of them that are both below `low` or both above `high`."""
    keys = every.cast(pa.int64()) if _kind(every.type) == "integer" else every
    merged = selected.copy()
    for outside in (pc.less(keys, low.cast(keys.type)), pc.greater(keys, high.cast(keys.type))):
        found = np.flatnonzero(selected & outside.to_numpy(zero_copy_only=False))
        if len(found):
            merged[found[0] : found[-1] + 1] = True
    return merged


def _kind(type_: pa.DataType) -> str | None:
    """Return the kind of keys of a type; None if equality in a join may be another than that of the values."""
    # An engine that compares values of the same kind does not convert them to a type in which others are equal.
    if pt.is_signed_integer(type_) or (pt.is_decimal(type_) and type_.scale == 0 and type_.precision <= 18):
        return "integer"
    if pt.is_string(type_) or pt.is_large_string(type_):
        return "string"
    if pt.is_date32(type_):
        return "date"
    return None


def _require_same_kind(one: pa.DataType, other: pa.DataType) -> None:
    if _kind(one) is None or _kind(one) != _kind(other):
        raise NotEvaluatedError(f"keys of different types: {one} and {other}")


def _is_padded(values: pa.Array) -> bool:
    """Whether strings end with spaces, which some engines ignore in comparisons."""
    text = pt.is_string(values.type) or pt.is_large_string(values.type)
    return text and bool(pc.any(pc.ends_with(values, " ")).as_py())


def _is_certain(values: pa.Array) -> bool:
    """Whether all engines compare the values with a literal in the same way."""
    # They convert timestamps by the time zone of the session, and 32-bit floats to different types.
    kind = values.type
    return not (pt.is_timestamp(kind) or pt.is_float32(kind) or pt.is_float16(kind) or _is_padded(values))


def _constants(leaf: Leaf) -> tuple[Value, ...]:
    match leaf:
        case Compare(value=value):
            return (value,)
        case In(values=values):
            return values
        case _:
            return ()


def _distinct(arrays: Iterable[pa.Array]) -> pa.Array:
    found = pc.unique(pa.concat_arrays(list(arrays))).drop_null()
    if pt.is_decimal(found.type):
        found = found.cast(pa.int64())
    return found.take(pc.array_sort_indices(found))


def _is_in(values: pa.Array, wanted: pa.Array) -> Bools:
    wanted = wanted.cast(values.type) if wanted.type != values.type else wanted
    found: Bools = pc.is_in(values, value_set=wanted.drop_null(), skip_nulls=True).to_numpy(zero_copy_only=False)
    return found
