"""Predict how many fewer bytes the queries of a workload open after each group of files is rewritten.

Only metadata is read. Of the present files, a query opens those whose bounds do not exclude it. Of the new files, the
conditions on each z-order column leave a share, and the query is predicted to open the product of these shares. A
z-order column has m slices, where 1 / m is touched of the new files divided by their number. A condition for a range
with the share s of the rows leaves the share s + 1 / m of the files. Conditions on other columns exclude no new file.

The result ranks groups. It does not determine which files are selected (docs/adr/0033-worth.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
import pyarrow as pa

from zlayout.advisor.model import Bools, Float64, TableQuery
from zlayout.planner.decayed import Decayed, measured_groups
from zlayout.planner.forecast import Measured
from zlayout.planner.partitions import Classes
from zlayout.planner.proposal import Worth
from zlayout.planner.selection import Group
from zlayout.predicate.coercion import arrow_aligned
from zlayout.predicate.model import (
    COMPARED,
    And,
    Compare,
    In,
    InKeys,
    IsNull,
    Leaf,
    Like,
    NeedsRows,
    Not,
    Operator,
    Or,
    Predicate,
    Value,
    leaves,
)
from zlayout.predicate.prune import may_match, negated
from zlayout.spec.model import LayoutSpec
from zlayout.table.metrics import estimate_in_partitions
from zlayout.table.ranks import before, rank_bounds, segments_of
from zlayout.table.state import ColumnBounds, FileTable, Int64, joined_bounds


def worth(
    spec: LayoutSpec, files: FileTable, now: Measured, groups: Sequence[Group], queries: Sequence[TableQuery]
) -> Worth:
    """Predict the worth of each of G groups if it alone is rewritten.

    Args:
        spec: The layout spec, with z-order columns.
        files: The files, with the bounds of the columns of the queries.
        now: The present metrics of the same files.
        groups: The groups. The worth of one with files of several partitions is 0.
        queries: The queries on the table.

    Returns:
        For each group, the bytes that all executions of the queries no longer open; and the number of executions.
    """
    saves, executions = np.zeros(len(groups)), sum(query.weight for query in queries)
    if not any(len(group.index) for group in groups):
        return Worth(saves, executions)
    measured = measured_groups(spec, files, now, groups)
    decayed, classes = measured.decayed, measured.files
    slices = measured.fresh / measured.written[:, None]
    predicates = tuple(dict.fromkeys(p for query in queries for p in query.predicates))
    axes = [_Axis.of(decayed, column, classes, predicates) for column in spec.column_names]

    def saved(predicate: Predicate) -> Float64:
        """Return the bytes of each group that one execution no longer opens, float64[G] of whole numbers."""
        part = decayed.files
        opened = classes.sums(np.where(may_match(predicate, part.bounds, part.rows), part.bytes, 0))
        shares = (axis.opened(predicate, slices[:, number]) for number, axis in enumerate(axes))
        less = opened - np.where(opened > 0, reduce(np.multiply, shares) * measured.live_bytes, 0.0)
        return np.rint(less)  # because rounding errors must not rank groups of equal worth

    each = {predicate: saved(predicate) for predicate in predicates}
    numbers = np.flatnonzero(measured.concerned)[measured.partition]
    for query in queries:
        for predicate, partitions in zip(query.predicates, query.partitions, strict=True):
            saves += query.weight * np.where(partitions[numbers], each[predicate], 0.0)
    return Worth(np.where(measured.in_one_partition, saves, 0.0), executions)


@dataclass(frozen=True, slots=True)
class _Axis:
    """One z-order column in P partitions: R points, each with the gap after it, and the rows in them."""

    # The points of a partition are the bounds of its files and the values with which predicates compare the column. A
    # comparison is therefore either true in the whole of a gap or false in the whole of it.

    column: str
    rows: Float64  # float64[2, R], the estimated rows at each point and in each gap
    partition: Int64  # int64[R], the partition of each point
    # for each value with which predicates compare the column, int64[P], its point in each partition
    named: dict[Value, Int64]
    lo: Int64  # int64[G], the first and the last point of each group; hi < lo for a group without a value
    hi: Int64

    @staticmethod
    def of(decayed: Decayed, column: str, classes: Classes, predicates: Sequence[Predicate]) -> _Axis:
        """Return the axis of a column, with the bounds of the files and the values of the predicates as points."""
        files, partitions = decayed.files, len(decayed.targets)
        bounds = files.bounds[column]
        values, literals = _named(column, predicates, bounds.lower.type)
        extra = len(values) * partitions
        copies = literals.take(pa.array(np.repeat(np.arange(len(values)), partitions)))
        none = np.zeros(extra, np.int64)
        extended = joined_bounds([bounds, ColumnBounds(copies, copies, none, none > 0)])
        extended = replace(extended, truncated=np.zeros(len(files) + extra, bool))
        owner = np.concatenate((decayed.partition, np.tile(np.arange(partitions), len(values)))).astype(np.int32)
        ranked = rank_bounds(extended, np.concatenate((files.rows, np.ones(extra, np.int64))))
        segments = segments_of(ranked, owner, partitions)
        weights = np.concatenate((files.rows_with_value(column), np.zeros(extra)))
        lo, hi = np.zeros((2, len(owner)), np.int64) - 1
        lo[segments.file], hi[segments.file] = segments.lo, segments.hi
        points = lo[len(files) :].reshape(len(values), partitions)
        first, last = classes.hull(lo[: len(files)], hi[: len(files)])
        rows = np.stack(estimate_in_partitions(segments, weights))
        partition = np.repeat(np.arange(partitions), np.diff(segments.start))
        return _Axis(column, rows, partition, dict(zip(values, points, strict=True)), first, last)

    def opened(self, predicate: Predicate, slices: Float64) -> Float64:
        """Return the share of the new files of each group that the conditions of a query on this column leave.

        Args:
            predicate: The predicate of the query.
            slices: float64[G], the share that a query for one value opens.

        Returns:
            float64[G].
        """
        match = self._true(predicate)
        if match.all():
            return np.ones(len(slices))
        in_order = match.T.ravel()
        begins = in_order & ~np.concatenate(([False], in_order[:-1]))
        lo, hi = np.minimum(self.lo, len(self.partition) - 1), self.hi
        ranges = _between(begins.reshape(-1, 2).T.astype(np.float64), lo, hi)
        ranges += match[0][lo] & ~begins[2 * lo]  # a range that begins before the group
        matching, whole = _between(self.rows * match, lo, hi), _between(self.rows, lo, hi)
        share = np.divide(matching, whole, out=np.zeros_like(whole), where=whole > 0)
        return np.where(hi < lo, 1.0, np.where(ranges > 0, np.minimum(share + ranges * slices, 1.0), 0.0))

    def _true(self, predicate: Predicate) -> Bools:
        """Return where the predicate may be true at each point and in each gap, bool[2, R]."""
        match predicate:
            case And(operands) | Or(operands):
                join = np.logical_and if isinstance(predicate, And) else np.logical_or
                found: Bools = reduce(join, map(self._true, operands))
                return found
            case In(column, values):
                return self._true(Or(tuple(Compare(column, "=", value) for value in values)))
            case Compare(column, operator, value) if column == self.column and value in self.named:
                return self._compared(operator, self.named[value])
            case Not(operand) if not isinstance(operand, IsNull | NeedsRows):
                return self._true(negated(operand))
            case _:
                return np.ones(self.rows.shape, bool)

    def _compared(self, operator: Operator, named: Int64) -> Bools:
        """Return where a comparison with a value is true, bool[2, R]. named: int64[P], the point of the value."""
        point = np.arange(len(self.partition))
        compared: Bools = COMPARED[operator](np.stack((point, point + 0.5)), named[self.partition])
        return compared


def _named(column: str, predicates: Sequence[Predicate], kind: pa.DataType) -> tuple[list[Value], pa.Array]:
    values: list[Value] = []
    none = pa.array([], kind)
    found = [none]
    own = (leaf for predicate in predicates for leaf in leaves(predicate) if leaf.column == column)
    for value in dict.fromkeys(value for leaf in own for value in _values(leaf)):
        sides = arrow_aligned(none, none, value)
        if sides is None or value != value:  # NaN has no position among the other values
            continue
        try:
            found.append(pa.array([sides[2].as_py()], sides[2].type).cast(kind))
        except pa.ArrowException:
            continue  # a comparison with a value that the type cannot represent excludes no new file
        values.append(value)
    return values, pa.concat_arrays(found)


def _values(leaf: Leaf) -> tuple[Value, ...]:
    match leaf:
        case Compare(value=value):
            return (value,)
        case In(values=values):
            return values
        case IsNull() | InKeys() | Like():
            return ()


def _between(values: Float64, lo: Int64, hi: Int64) -> Float64:
    """Return the sum over the points lo..hi and the gaps between them, float64[G]. values: float64[2, R]."""
    so_far = before((values[0], values[1]))
    summed: Float64 = so_far[np.maximum(hi, 0)] + values[0][np.maximum(hi, 0)] - so_far[lo]
    return summed
