"""Prune files by min, max and null count, as the readers of both formats do.

The same function finds the rows of a sample that match: a row is given as a file of one row, whose min and max are its
value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zlayout.predicate.coercion import arrow_aligned
from zlayout.predicate.model import OPPOSITE, And, Compare, In, IsNull, Not, Operator, Or, Predicate, Value
from zlayout.table.state import Bools, ColumnBounds, Int64


def may_match(predicate: Predicate, bounds: Mapping[str, ColumnBounds], rows: Int64) -> Bools:
    """Return which files may have a row for which the predicate is true.

    Args:
        predicate: the predicate. A condition whose literal cannot be compared with its column excludes no file.
        bounds: the bounds of N files by column. A condition on a missing column excludes no file.
        rows: int64[N], the number of rows in each file.

    Returns:
        bool[N]: False only where min, max and null count prove that no row matches.
    """
    every = np.ones(len(rows), bool)
    match predicate:
        case And(operands):
            return reduce(np.logical_and, (may_match(p, bounds, rows) for p in operands), every)
        case Or(operands):
            return reduce(np.logical_or, (may_match(p, bounds, rows) for p in operands), ~every)
        case Not(IsNull(column)):
            return ~_all_null(bounds[column], rows) if column in bounds else every
        case Not(operand):
            return may_match(negated(operand), bounds, rows)
        case IsNull(column):
            return bounds[column].null_count != 0 if column in bounds else every
        case In(column, values):
            return may_match(Or(tuple(Compare(column, "=", v) for v in values)), bounds, rows)
        case Compare(column, operator, value):
            if column not in bounds:
                return every
            return _compare(bounds[column], operator, value) & ~_all_null(bounds[column], rows)


def negated(predicate: Predicate) -> Predicate:
    """The predicate that is true where this one is false, false where it is true, and null where it is null."""
    match predicate:
        case And(operands):
            return Or(tuple(negated(p) for p in operands))
        case Or(operands):
            return And(tuple(negated(p) for p in operands))
        case Not(operand):
            return operand
        case In(column, values):
            return And(tuple(Compare(column, "!=", v) for v in values))
        case Compare(column, operator, value):
            return Compare(column, OPPOSITE[operator], value)
        case IsNull():
            return Not(predicate)


def _all_null(bounds: ColumnBounds, rows: Int64) -> Bools:
    bounded = pc.and_(bounds.lower.is_valid(), bounds.upper.is_valid()).to_numpy(zero_copy_only=False)
    nothing: Bools = (bounds.null_count >= rows) & ~bounded
    return nothing


def _compare(bounds: ColumnBounds, operator: Operator, value: Value) -> Bools:
    every = np.ones(len(bounds.lower), bool)
    sides = arrow_aligned(bounds.lower, bounds.upper, value)
    if sides is None:
        return every
    lower, upper, literal = sides
    match operator:
        case "=":
            return _holds(pc.less_equal, lower, literal) & _holds(pc.greater_equal, upper, literal)
        case "<":
            return _holds(pc.less, lower, literal)
        case "<=":
            return _holds(pc.less_equal, lower, literal)
        case ">":
            return _holds(pc.greater, upper, literal)
        case ">=":
            return _holds(pc.greater_equal, upper, literal)
        case "!=":
            # A file is excluded only if every value equals the literal.
            return _holds(pc.not_equal, lower, literal) | _holds(pc.not_equal, upper, literal) | bounds.truncated


def _holds(compare: Callable[[pa.Array, pa.Scalar], pa.Array], side: pa.Array, literal: pa.Scalar) -> Bools:
    """The comparison of each bound with the literal; true for a missing bound and for NaN, which exclude nothing."""
    holds = compare(side, literal)
    if pa.types.is_floating(side.type):
        holds = pc.or_(holds, pc.is_nan(side))
    return np.asarray(pc.fill_null(holds, True).to_numpy(zero_copy_only=False), bool)
