"""Which files a predicate cannot rule out, by min, max and null count alone, as readers of both formats decide it.

The same function tells which rows of a sample match: a row is a file of one row, whose min and max are its value.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zlayout.predicate.comparable import comparable
from zlayout.predicate.model import And, Compare, In, IsNull, Not, Operator, Or, Predicate, Value
from zlayout.table.state import ColumnBounds, Int64

Bools = NDArray[np.bool_]
_OPPOSITE: dict[Operator, Operator] = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def may_match(predicate: Predicate, bounds: Mapping[str, ColumnBounds], rows: Int64) -> Bools:
    """bool[N]: the files that may hold a row for which the predicate is true.

    bounds: of N files, by column; a column that is missing rules nothing out. rows: int64[N], rows of each file.
    Literals of a type that does not compare with the column's rule nothing out either.
    """
    match predicate:
        case And(operands):
            return reduce(np.logical_and, (may_match(p, bounds, rows) for p in operands), np.ones(len(rows), bool))
        case Or(operands):
            return reduce(np.logical_or, (may_match(p, bounds, rows) for p in operands), np.zeros(len(rows), bool))
        case Not(operand):
            return (
                may_match(_negated(operand), bounds, rows)
                if not _is_null_test(operand)
                else _not_null(operand, bounds, rows)
            )
        case IsNull(column):
            known = bounds.get(column)
            return np.ones(len(rows), bool) if known is None else known.null_count != 0
        case In(column, values):
            return may_match(Or(tuple(Compare(column, "=", v) for v in values)), bounds, rows)
        case Compare(column, operator, value):
            known = bounds.get(column)
            if known is None:
                return np.ones(len(rows), bool)
            return _compare(known, operator, value) & ~_all_null(known, rows)


def _is_null_test(predicate: Predicate) -> bool:
    return isinstance(predicate, IsNull)


def _not_null(predicate: Predicate, bounds: Mapping[str, ColumnBounds], rows: Int64) -> Bools:
    known = bounds.get(predicate.column) if isinstance(predicate, IsNull) else None
    return np.ones(len(rows), bool) if known is None else ~_all_null(known, rows)


def _negated(predicate: Predicate) -> Predicate:
    """The predicate that is true where this one is false, by De Morgan's laws. Nulls make neither true."""
    match predicate:
        case And(operands):
            return Or(tuple(_negated(p) for p in operands))
        case Or(operands):
            return And(tuple(_negated(p) for p in operands))
        case Not(operand):
            return operand
        case In(column, values):
            return And(tuple(Compare(column, "!=", v) for v in values))
        case Compare(column, operator, value):
            return Compare(column, _OPPOSITE[operator], value)
        case IsNull():
            return Not(predicate)


def _all_null(bounds: ColumnBounds, rows: Int64) -> Bools:
    bounded = pc.and_(bounds.lower.is_valid(), bounds.upper.is_valid()).to_numpy(zero_copy_only=False)
    nothing: Bools = (bounds.null_count >= rows) & ~bounded
    return nothing


def _compare(bounds: ColumnBounds, operator: Operator, value: Value) -> Bools:
    every = np.ones(len(bounds.lower), bool)
    sides = comparable(bounds.lower, bounds.upper, value)
    if sides is None:
        return every
    lower, upper, wanted = sides
    match operator:
        case "=":
            return _holds(pc.less_equal, lower, wanted) & _holds(pc.greater_equal, upper, wanted)
        case "<":
            return _holds(pc.less, lower, wanted)
        case "<=":
            return _holds(pc.less_equal, lower, wanted)
        case ">":
            return _holds(pc.greater, upper, wanted)
        case ">=":
            return _holds(pc.greater_equal, upper, wanted)
        case "!=":
            # ruled out only where every value is this one
            return _holds(pc.not_equal, lower, wanted) | _holds(pc.not_equal, upper, wanted) | bounds.truncated


def _holds(compare: object, side: pa.Array, wanted: pa.Scalar) -> Bools:
    """Where there is no bound, or the bound is NaN, a file cannot be ruled out."""
    holds = compare(side, wanted)  # type: ignore[operator]
    if pa.types.is_floating(side.type):
        holds = pc.or_(holds, pc.is_nan(side))
    return np.asarray(pc.fill_null(holds, True).to_numpy(zero_copy_only=False), bool)
