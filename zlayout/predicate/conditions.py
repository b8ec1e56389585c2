"""The lenient rules of workloads: convert a condition of a query to a predicate, or state why it cannot be used."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import InvalidOperation
from enum import StrEnum

from sqlglot import exp

from zlayout.predicate.constants import constant
from zlayout.predicate.inverse import inverse_of
from zlayout.predicate.model import Compare, Or, Predicate, TextOnly, Value, conjunction, starts_with
from zlayout.predicate.sql_tree import COMPARISONS, Comparisons, compared, convert, is_column

MAX_IN_VALUES = 10_000  # An IN with more values is an unused condition.
_COMPARISONS: Comparisons = {**COMPARISONS, exp.NullSafeEQ: "="}


class Reason(StrEnum):
    """Why a condition cannot be used for skipping files."""

    SUBQUERY = "a subquery"
    TWO_COLUMNS = "compares columns (a join)"
    EXPRESSION = "a function or arithmetic on a column"
    NOT_CONSTANT = "a comparison with an expression that is not constant"
    LEFT_OUT = "a value that the workload leaves out (`?`)"
    NO_PREFIX = "a pattern that begins with a wildcard"
    NEGATED = "a negation that min and max cannot decide"
    NOT_SUPPORTED = "a condition that min and max cannot decide"
    NO_OWNER = "a column whose table is unknown (qualify the column)"
    SEVERAL_TABLES = "an OR over several tables"
    OUTER_JOIN = "a condition that does not limit the table, because of an outer join"
    AFTER_GROUPING = "a condition on groups or windows"
    COMPUTED = "a condition on a computed column"
    JOIN_FILTER = "a filter through a join, which limits the table only at run time"
    LIMIT = "a LIMIT, after which engines stop reading"
    TABLE_FUNCTION = "a condition on the rows of a table function"
    NO_BOUNDS = "a column without min and max"
    NOT_COMPARABLE = "a value that cannot be compared with the type of the column"
    UNKNOWN_COLUMN = "a column that the table does not have"


# Conditions that are equivalent to their predicates, so that the negations are equivalent, too.
NEGATABLE = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In, exp.Is)


@dataclass
class UnusableError(Exception):
    """The condition cannot be used, for this reason."""

    reason: Reason


@dataclass(frozen=True, slots=True)
class Converted:
    """The predicate of a condition.

    Attributes:
        predicate: A predicate that is true for every row for which the condition is true.
        exact: Whether it is equivalent to the condition, so that it may be negated.
        inverted: Whether the condition is an inverted condition.
    """

    predicate: Predicate
    exact: bool = True
    inverted: bool = False


def condition(node: exp.Expr, name: Callable[[exp.Expr], str]) -> Converted:
    """Convert one condition to a predicate.

    Args:
        node: the condition. It is not an AND, OR or NOT.
        name: returns the name that a column gets in the predicate. It may raise UnusableError.

    Raises:
        UnusableError: with the reason why the condition cannot be used.
    """
    if node.find(exp.Query):
        raise UnusableError(Reason.SUBQUERY)
    if (node.this if isinstance(node, exp.Escape) else node).args.get("negate"):  # how sqlglot represents NOT LIKE
        raise UnusableError(Reason.NEGATED)
    rules = _WorkloadRules(node, name)
    exact = isinstance(node, NEGATABLE)
    if isinstance(node, exp.In) and len(node.expressions) > MAX_IN_VALUES:
        raise rules.rejection(node)
    if found := _inverted(node, rules):
        predicate, equivalent = found
        return Converted(predicate, exact and equivalent, inverted=True)
    return Converted(_plain(node, rules), exact)


def _plain(node: exp.Expr, rules: _WorkloadRules) -> Predicate:
    match node:
        case exp.Escape() if isinstance(node.this, exp.Like) and isinstance(node.expression, exp.Literal):
            return _like(node.this, node.expression.name, rules)
        case exp.Like():
            return _like(node, "\\", rules)
        case exp.StartsWith() if isinstance(prefix := constant(node.expression), str) and prefix:
            return starts_with(rules.column(node.this), prefix)
        case exp.Column() | exp.Dot():
            return Compare(rules.column(node), "=", True)
    return convert(node, rules, _COMPARISONS)


def _inverted(node: exp.Expr, rules: _WorkloadRules) -> tuple[Predicate, bool] | None:
    """Convert a comparison of a function of a column to a predicate on the column, and whether it is exact."""
    try:
        subject, sides = compared(node, lambda side: inverse_of(side) is not None)
        inverse = inverse_of(subject) if sides else None
        values = [(operator, constant(side)) for operator, side in sides]
        if inverse is None or any(value is None for _, value in values):
            return None
        name = rules.column(inverse.column)
        found = [inverse.solve(name, operator, value) for operator, value in values if value is not None]
    except (ValueError, OverflowError, InvalidOperation):
        return None
    parts = [part for part in found if part is not None]
    if not parts or len(parts) < len(found):
        return None
    whole = Or(tuple(parts)) if type(node) is exp.In and len(parts) > 1 else conjunction(parts)
    return None if whole is None else (whole, inverse.exact)


@dataclass(frozen=True)
class _WorkloadRules:
    """`Rules` that reject with UnusableError. Its reason is why `condition` as a whole cannot be used."""

    condition: exp.Expr
    name: Callable[[exp.Expr], str]

    def column(self, node: exp.Expr) -> str:
        node = node.unnest()
        if not is_column(node):
            raise self.rejection(node)
        return self.name(node)

    def value(self, node: exp.Expr) -> Value:
        if (found := constant(node)) is None:
            raise self.rejection(node)
        return found

    def rejection(self, node: exp.Expr) -> UnusableError:
        del node
        whole = self.condition
        if type(whole) not in _COMPARISONS and not isinstance(whole, exp.Between | exp.In | exp.Is | exp.Like):
            return UnusableError(Reason.NOT_SUPPORTED)
        sides = [side for side in (whole.args.get("this"), whole.args.get("expression")) if isinstance(side, exp.Expr)]
        has_column = [side.find(exp.Column) is not None for side in sides]
        if len(sides) == 2 and all(has_column):
            return UnusableError(Reason.TWO_COLUMNS)
        if sides and has_column[0] and not isinstance(sides[0].unnest(), exp.Column):
            return UnusableError(Reason.EXPRESSION)
        return UnusableError(Reason.LEFT_OUT if whole.find(exp.Placeholder) else Reason.NOT_CONSTANT)


def _like(node: exp.Expr, escape: str, rules: _WorkloadRules) -> Predicate:
    """Convert LIKE: with a wildcard it is the range of strings with the prefix before it, and without one it is `=`."""
    pattern = rules.value(node.expression)
    if not isinstance(pattern, str):
        raise rules.rejection(node)
    if len(escape) != 1:
        raise UnusableError(Reason.NO_PREFIX)
    sign = re.escape(escape)
    prefix = re.compile(rf"(?:{sign}.|[^%_{sign}])*", re.DOTALL).match(pattern)
    if prefix is None or not prefix[0]:
        raise UnusableError(Reason.NO_PREFIX)
    text = re.sub(sign + "(.)", r"\1", prefix[0], flags=re.DOTALL)
    column = rules.column(node.this)
    return Compare(column, "=", TextOnly(text)) if prefix.end() == len(pattern) else starts_with(column, text)
