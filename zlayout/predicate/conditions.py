"""One comparison of a query to a predicate on one column, or the reason why it says nothing about files."""

from __future__ import annotations

import re
from dataclasses import dataclass

from sqlglot import exp

from zlayout.predicate.constants import constant
from zlayout.predicate.model import MIRRORED, And, Compare, In, IsNull, Not, Operator, Predicate
from zlayout.predicate.sqlglot_terms import COMPARISONS

OPERATORS = {**COMPARISONS, exp.NullSafeEQ: COMPARISONS[exp.EQ]}
MOST_VALUES = 10_000
SURROGATES = range(0xD800, 0xE000)
LAST_CHARACTER = 0x10FFFF


@dataclass(frozen=True, slots=True)
class Reason:
    text: str


A_SUBQUERY = Reason("a subquery")
TWO_COLUMNS = Reason("compares columns (a join)")
OF_A_COLUMN = Reason("a function or arithmetic on a column")
NOT_CONSTANT = Reason("compared with something that is no constant")
NO_PREFIX = Reason("a pattern that does not begin with text")
NEGATED = Reason("a negation that min and max do not answer")
NOT_SUPPORTED = Reason("a kind of condition that min and max do not answer")


def condition(node: exp.Expr) -> tuple[exp.Column | exp.Dot, Predicate] | Reason:
    """The column as written and the predicate on it; the predicate's column is left empty for the caller to name."""
    if node.find(exp.Query):
        return A_SUBQUERY
    if (node.this if isinstance(node, exp.Escape) else node).args.get("negate"):  # NOT LIKE is a LIKE that says so
        return NEGATED
    match node:
        case exp.Between():
            low, high = constant(node.args["low"]), constant(node.args["high"])
            if low is None or high is None:
                return _why(node)
            return _on(node.this, And((Compare("", ">=", low), Compare("", "<=", high))), node)
        case exp.In():
            values = [constant(v) for v in node.expressions[:MOST_VALUES]]
            found = tuple(v for v in values if v is not None)
            if not found or len(found) != len(node.expressions):
                return _why(node)
            return _on(node.this, In("", found), node)
        case exp.Is() if isinstance(node.expression, exp.Null):
            return _on(node.this, IsNull(""), node)
        case exp.Escape() if isinstance(node.this, exp.Like) and isinstance(node.expression, exp.Literal):
            return _like(node.this, node.expression.name)
        case exp.Like():
            return _like(node, "\\")
        case exp.StartsWith() if isinstance(prefix := constant(node.expression), str) and prefix:
            return _on(node.this, starting_with(prefix), node)
        case exp.Column() | exp.Dot():
            return _on(node, Compare("", "=", True), node)
    operator = OPERATORS.get(type(node))
    return _compare(node, operator) if operator else _why(node)


def _compare(node: exp.Expr, operator: Operator) -> tuple[exp.Column | exp.Dot, Predicate] | Reason:
    right, left = constant(node.expression), constant(node.this)
    if right is not None:
        return _on(node.this, Compare("", operator, right), node)
    if left is not None:
        return _on(node.expression, Compare("", MIRRORED[operator], left), node)
    return _why(node)


def _like(node: exp.Expr, escape: str) -> tuple[exp.Column | exp.Dot, Predicate] | Reason:
    pattern = constant(node.expression)
    if not isinstance(pattern, str):
        return _why(node)
    literal = (
        re.compile(rf"(?:{re.escape(escape)}.|[^%_{re.escape(escape)}])*", re.DOTALL) if len(escape) == 1 else None
    )
    prefix = literal.match(pattern) if literal else None
    if prefix is None or not prefix[0]:
        return NO_PREFIX
    text = re.sub(re.escape(escape) + "(.)", r"\1", prefix[0], flags=re.DOTALL)
    if prefix.end() == len(pattern):
        return _on(node.this, Compare("", "=", text), node)
    return _on(node.this, starting_with(text), node)


def starting_with(prefix: str) -> Predicate:
    """The values that begin with a text: from it to below the next text of its length, by code point (as UTF-8)."""
    low = Compare("", ">=", prefix)
    stem = prefix.rstrip(chr(LAST_CHARACTER))
    if not stem:
        return low
    following = ord(stem[-1]) + 1
    if following in SURROGATES:
        following = SURROGATES.stop
    return And((low, Compare("", "<", stem[:-1] + chr(following))))


def _on(side: exp.Expr, predicate: Predicate, node: exp.Expr) -> tuple[exp.Column | exp.Dot, Predicate] | Reason:
    column = side.unnest()
    if isinstance(column, exp.Column) or (isinstance(column, exp.Dot) and _is_path(column)):
        return column, predicate
    return _why(node)


def _is_path(node: exp.Expr) -> bool:
    while isinstance(node, exp.Dot) and isinstance(node.expression, exp.Identifier):
        node = node.this
    return isinstance(node, exp.Column)


def _why(node: exp.Expr) -> Reason:
    sides = [side for side in (node.args.get("this"), node.args.get("expression")) if isinstance(side, exp.Expr)]
    columns = [side.find(exp.Column) is not None for side in sides]
    if type(node) not in OPERATORS and not isinstance(node, exp.Between | exp.In | exp.Is | exp.Like):
        return NOT_SUPPORTED
    if len(columns) == 2 and all(columns):
        return TWO_COLUMNS
    if sides and not isinstance(sides[0].unnest(), exp.Column) and columns[0]:
        return OF_A_COLUMN
    return NOT_CONSTANT


def named(predicate: Predicate, column: str) -> Predicate:
    """The predicate with its empty column name filled in."""
    match predicate:
        case Compare(_, operator, value):
            return Compare(column, operator, value)
        case In(_, values):
            return In(column, values)
        case And(operands):
            return And(tuple(named(o, column) for o in operands))
        case _:
            return IsNull(column)


def rejects_null(predicate: Predicate) -> bool:
    """Whether a row whose columns are all null, as an outer join makes, cannot pass."""
    match predicate:
        case Compare() | In() | Not(Compare() | In() | IsNull()):
            return True
        case And(operands):
            return any(map(rejects_null, operands))
        case _:
            return hasattr(predicate, "operands") and all(map(rejects_null, predicate.operands))
