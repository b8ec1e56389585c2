"""Convert the conditions of a sqlglot tree to predicates, under given `Rules`.

`zlayout.predicate.where_rules` has the strict rules of `where`. `zlayout.predicate.conditions` has the lenient rules of
workloads, which also evaluate constant expressions. Importing this module imports sqlglot, which is slow.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol

from sqlglot import exp

from zlayout.predicate.literals import number
from zlayout.predicate.model import MIRRORED, And, Compare, In, IsNull, Operator, Predicate, Value

Comparisons = Mapping[type[exp.Expr], Operator]
COMPARISONS: Comparisons = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
# Errors that sqlglot raises for unexpected input, besides those that it documents.
PARSER_DEFECTS = (ValueError, TypeError, AttributeError, KeyError, IndexError, NotImplementedError)


class Rules(Protocol):
    """The rules of a conversion. Each method raises an exception for a node that is not allowed."""

    def column(self, node: exp.Expr) -> str:
        """The dotted name of a column."""
        ...

    def value(self, node: exp.Expr) -> Value:
        """The value of a constant."""
        ...

    def rejection(self, node: exp.Expr) -> Exception:
        """The exception for a condition that `convert` does not support."""
        ...


def convert(node: exp.Expr, rules: Rules, comparisons: Comparisons = COMPARISONS) -> Predicate:
    """Convert a condition on one column: a comparison, IN, BETWEEN or IS NULL.

    Args:
        node: the condition.
        rules: the rules.
        comparisons: the operators of the comparisons that are supported, by type of node.

    Raises:
        Exception: as the methods of `rules`.
    """
    if type(node) is exp.Is and type(node.expression) is exp.Null and not node.args.get("negate"):
        return IsNull(rules.column(node.this))
    subject, sides = compared(node, is_column, comparisons)
    if not sides or (type(node) in comparisons and is_column(subject) and is_column(sides[0][1])):
        raise rules.rejection(node)
    values = [(operator, rules.value(side)) for operator, side in sides]
    column = rules.column(subject)
    if type(node) is exp.In:
        return In(column, tuple(value for _, value in values))
    parts = tuple(Compare(column, operator, value) for operator, value in values)
    return parts[0] if len(parts) == 1 else And(parts)


def compared(
    node: exp.Expr, is_subject: Callable[[exp.Expr], bool], comparisons: Comparisons = COMPARISONS
) -> tuple[exp.Expr, list[tuple[Operator, exp.Expr]]]:
    """Split a comparison, BETWEEN or IN into its subject and what this is compared with.

    The subject is on the left, unless `is_subject` is true for the right side alone.

    Returns:
        The subject, and the operators and nodes that it is compared with. There are none for another condition.
    """
    if type(node) in comparisons:
        left, right, operator = node.this.unnest(), node.expression.unnest(), comparisons[type(node)]
        if not is_subject(left) and is_subject(right):
            return right, [(MIRRORED[operator], left)]
        return left, [(operator, right)]
    subject = node.this.unnest() if isinstance(node.this, exp.Expr) else node
    if type(node) is exp.Between and not node.args.get("symmetric"):
        return subject, [(">=", node.args["low"]), ("<=", node.args["high"])]
    if type(node) is exp.In and not further_arguments(node):
        return subject, [("=", value) for value in node.expressions]
    return subject, []


def further_arguments(node: exp.Expr) -> list[str]:
    """The names of the arguments of IN besides a column and a list of values, such as a subquery."""
    return [name for name, value in node.args.items() if value and name not in ("this", "expressions")]


def root(node: exp.Expr) -> exp.Expr:
    """The innermost node of a chain of accesses to nested fields; the node itself if it is no such access."""
    while type(node) is exp.Dot and type(node.expression) is exp.Identifier:
        node = node.this
    return node


def is_column(node: exp.Expr) -> bool:
    """Whether the node is a column or a nested field of one, such as `t.a.b.c.d.e`."""
    return type(root(node)) is exp.Column


def column_parts(node: exp.Expr) -> list[exp.Expr]:
    """The parts of the dotted name of a node for which `is_column` is true."""
    tail: list[exp.Expr] = []
    while isinstance(node, exp.Dot):
        tail.insert(0, node.expression)
        node = node.this
    return [*node.parts, *tail] if isinstance(node, exp.Column) else tail


def operands(node: exp.Expr, node_type: type[exp.Expr]) -> list[exp.Expr]:
    """The operands of a chain of ANDs or ORs (`node_type`), in order. A chain may be too long for recursion."""
    found, stack = [], [node]
    while stack:
        top = stack.pop().unnest()
        if type(top) is node_type:
            stack += [top.args["expression"], top.args["this"]]
        else:
            found.append(top)
    return found


def literal_value(node: exp.Expr) -> Value | None:
    """The value of TRUE, FALSE, a string or a number; None for another node. Raises RejectedError ZL032."""
    if type(node) is exp.Boolean:
        return bool(node.this)
    if type(node) is exp.Literal:
        return str(node.this) if node.is_string else number(node.this)
    return None
