"""Prune files by min, max and null count, as the readers of both formats do.

The same function finds the rows of a sample that match: a row is given as a file of one row, whose min and max are its
value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from zlayout.predicate.coercion import arrow_aligned
from zlayout.predicate.model import (
    OPPOSITE,
    And,
    Compare,
    In,
    InKeys,
    IsNull,
    Like,
    Not,
    Operator,
    Or,
    Predicate,
    Value,
)
from zlayout.table.state import Bools, ColumnBounds, Int64

MAX_DIGITS = 18  # of a decimal whose digits are an integer of 64 bits
_EXACT = Context(prec=MAX_DIGITS + 2, Emin=-50, Emax=50, traps=[Inexact, InvalidOperation, Overflow])
_EPOCH = date(1970, 1, 1)
MIN_VALUES_TO_SORT = 20  # below, comparing one value after the other is as fast


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
            equal: dict[str, list[Value]] = {}
            others = []
            for operand in operands:
                if isinstance(operand, Compare) and operand.operator == "=" and operand.column in bounds:
                    equal.setdefault(operand.column, []).append(operand.value)
                else:
                    others.append(operand)
            found = (_equals_any(bounds[column], values, rows) for column, values in equal.items())
            return reduce(np.logical_or, (*found, *(may_match(p, bounds, rows) for p in others)), ~every)
        case InKeys() | Like() | Not(InKeys() | Like()):
            return every  # needs rows
        case Not(IsNull(column)):
            return ~_all_null(bounds[column], rows) if column in bounds else every
        case Not(operand):
            return may_match(negated(operand), bounds, rows)
        case IsNull(column):
            return bounds[column].null_count != 0 if column in bounds else every
        case In(column, values):
            return _equals_any(bounds[column], values, rows) if column in bounds else every & bool(values)
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
        case IsNull() | InKeys() | Like():
            return Not(predicate)


def _equals_any(bounds: ColumnBounds, values: Sequence[Value], rows: Int64) -> Bools:
    """Return which files may have one of the values. Thousands of values take little longer than one."""
    numbers = [_integer(value, bounds.lower.type) for value in values]
    wanted = [number for number in numbers if number is not None]
    if len(wanted) == len(values) and (sides := _integers(bounds)) is not None:
        return _hold_any(*sides, np.sort(np.array(wanted, np.int64))) & ~_all_null(bounds, rows)
    found, known = np.zeros(len(rows), bool), set[int]()
    if len(values) >= MIN_VALUES_TO_SORT:
        none, of_type = bounds.lower.slice(0, 0), dict[pa.DataType, dict[int, pa.Scalar]]()
        for at, value in enumerate(values):
            aligned = arrow_aligned(none, none, value)
            if aligned is not None and _is_sortable(aligned[0].type) and _is_sortable(aligned[2].type):
                of_type.setdefault(aligned[0].type, {})[at] = aligned[2]
        for some in of_type.values():
            first = next(iter(some))
            aligned = arrow_aligned(bounds.lower, bounds.upper, values[first])
            if aligned is not None:
                found |= _holds_any(*aligned[:2], pa.array([s.as_py() for s in some.values()], some[first].type))
                known |= some.keys()
    for at, value in enumerate(values):
        if at not in known:
            found |= _compare(bounds, "=", value)
    return found & ~_all_null(bounds, rows)


def _is_sortable(type_: pa.DataType) -> bool:
    return any(test(type_) for test in (pt.is_integer, pt.is_string, pt.is_large_string, pt.is_date, pt.is_timestamp))


def _holds_any(lower: pa.Array, upper: pa.Array, values: pa.Array) -> Bools:
    """Return which files have bounds around one of the values. A missing bound is around all."""
    # The bounds and the values become ranks, so that two searches in the sorted values are enough.
    type_ = pa.int64() if pt.is_integer(lower.type) else lower.type
    sides = pa.concat_arrays([lower.cast(type_), upper.cast(type_), values.cast(type_)])
    ranks = pc.rank(sides, sort_keys="ascending", tiebreaker="dense").to_numpy().astype(np.int64)
    low, high, wanted = np.split(ranks, (len(lower), 2 * len(lower)))
    low = np.where(lower.is_valid().to_numpy(zero_copy_only=False), low, -1)
    high = np.where(upper.is_valid().to_numpy(zero_copy_only=False), high, np.iinfo(np.int64).max)
    return _hold_any(low, high, np.sort(wanted))


def _hold_any(low: Int64, high: Int64, wanted: Int64) -> Bools:
    found: Bools = np.searchsorted(wanted, high, side="right") > np.searchsorted(wanted, low, side="left")
    return found


def _all_null(bounds: ColumnBounds, rows: Int64) -> Bools:
    if not bounds.lower.null_count and not bounds.upper.null_count:
        return np.zeros(len(rows), bool)
    bounded = pc.and_(bounds.lower.is_valid(), bounds.upper.is_valid()).to_numpy(zero_copy_only=False)
    nothing: Bools = (bounds.null_count >= rows) & ~bounded
    return nothing


def _compare(bounds: ColumnBounds, operator: Operator, value: Value) -> Bools:
    number = _integer(value, bounds.lower.type)
    if number is not None and (numbers := _integers(bounds)) is not None:
        found = _compare_integers(*numbers, number, operator)
        return found | bounds.truncated if operator == "!=" else found
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


def _integers(bounds: ColumnBounds) -> tuple[Int64, Int64] | None:
    """Return the bounds as integers, which numpy compares much faster than Arrow; None if they are no integers."""
    # These are days for dates, and for decimals the number in units of the last digit.
    lower, upper, type_ = bounds.lower, bounds.upper, bounds.lower.type
    if not len(lower) or lower.null_count or upper.null_count:
        return None
    if pt.is_signed_integer(type_):
        return lower.to_numpy(), upper.to_numpy()
    if pt.is_date32(type_):
        return lower.view(pa.int32()).to_numpy(), upper.view(pa.int32()).to_numpy()
    if pt.is_decimal128(type_) and type_.precision <= MAX_DIGITS:
        return _unscaled(lower), _unscaled(upper)
    return None


def _integer(value: Value, type_: pa.DataType) -> int | None:
    found: int | None = None
    if type(value) is int and pt.is_signed_integer(type_):
        found = value
    elif type(value) is date and pt.is_date32(type_):
        found = (value - _EPOCH).days
    elif pt.is_decimal128(type_) and (type(value) is int or isinstance(value, Decimal)):
        try:
            number = Decimal(value).scaleb(type_.scale, _EXACT)
        except ArithmeticError:
            return None
        found = int(number) if number == number.to_integral_value() else None
    return found if found is not None and -(2**63) <= found < 2**63 else None


def _unscaled(values: pa.Array) -> Int64:
    """Return the digits of decimals of at most MAX_DIGITS digits, which fit the lower one of their two words."""
    words = np.frombuffer(values.buffers()[1], np.int64)
    return words[2 * values.offset : 2 * (values.offset + len(values)) : 2]


def _compare_integers(lower: Int64, upper: Int64, value: int, operator: Operator) -> Bools:
    found: Bools
    match operator:
        case "=":
            found = (lower <= value) & (upper >= value)
        case "<":
            found = lower < value
        case "<=":
            found = lower <= value
        case ">":
            found = upper > value
        case ">=":
            found = upper >= value
        case "!=":
            found = (lower != value) | (upper != value)
    return found


def _holds(compare: Callable[[pa.Array, pa.Scalar], pa.Array], side: pa.Array, literal: pa.Scalar) -> Bools:
    """The comparison of each bound with the literal; true for a missing bound and for NaN, which exclude nothing."""
    holds = compare(side, literal)
    if pa.types.is_floating(side.type):
        holds = pc.or_(holds, pc.is_nan(side))
    return np.asarray(pc.fill_null(holds, True).to_numpy(zero_copy_only=False), bool)
