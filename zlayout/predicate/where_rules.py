"""The strict rules of `where`: it consists of columns, literals and a few operators. Everything else is rejected."""

from __future__ import annotations

from decimal import Decimal

from sqlglot import exp

from zlayout.message_text import quote_value
from zlayout.predicate.constants import TIMESTAMP_TYPES
from zlayout.predicate.literals import RejectedError, day, instant, number
from zlayout.predicate.model import And, Not, Or, Predicate, Value, conjunction
from zlayout.predicate.sql_tree import (
    COMPARISONS,
    column_parts,
    convert,
    further_arguments,
    is_column,
    literal_value,
    operands,
    root,
)

ALLOWED = "allowed: AND OR NOT, = != < <= > >=, IN, BETWEEN, IS NULL, columns and literals"
_SUFFIXED = {"TINYINT": int, "SMALLINT": int, "INT": int, "BIGINT": int, "DOUBLE": float, "DECIMAL": Decimal}
_NAMES = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "IntDiv", "Mod", "Neg"), "arithmetic"),
    "Between": "BETWEEN SYMMETRIC",
    "NullSafeEQ": "<=>",
    "NullSafeNEQ": "IS DISTINCT FROM",
    "Is": "IS other than IS [NOT] NULL",
    "RegexpLike": "RLIKE",
    "Boolean": "true or false by itself",
    "Literal": "a literal by itself",
}


def strict_predicate(node: exp.Expr) -> Predicate:
    """Convert a parsed `where` to a predicate. Raises RejectedError ZL030 to ZL032."""
    node = node.unnest()
    if type(node) is exp.And:
        return conjunction(map(strict_predicate, operands(node, exp.And))) or And(())
    if type(node) is exp.Or:
        return Or(tuple(map(strict_predicate, operands(node, exp.Or))))
    if type(node) is exp.Not:
        return Not(strict_predicate(node.this))
    return convert(node, _WhereRules())


class _WhereRules:
    def column(self, node: exp.Expr) -> str:
        node = node.unnest()
        if type(node) in (exp.Literal, exp.Boolean, exp.Null, exp.Neg, exp.Cast, exp.TryCast):
            raise _not_allowed("a comparison without a column", "compare a column with a literal")
        if not is_column(node):
            raise self.rejection(root(node))
        parts = column_parts(node)
        for part in parts:
            if type(part) is not exp.Identifier:
                raise self.rejection(part)
            if not part.name or "." in part.name or not part.name.isprintable():
                raise _not_allowed(f"the column name {quote_value(part.name)}", "write a nested column as a.b")
        return ".".join(part.name for part in parts)

    def value(self, node: exp.Expr) -> Value:
        node = node.unnest()
        if (found := literal_value(node)) is not None:
            return found
        if type(node) is exp.Neg:
            value = self.value(node.this)
            if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
                raise RejectedError("ZL032", "expected a number after '-'")
            # unary minus would round a decimal to the 28 digits of Python's context
            return value.copy_negate() if isinstance(value, Decimal) else -value
        if type(node) is exp.Null:
            raise _not_allowed("a comparison with NULL", "write IS NULL")
        if type(node) in (exp.Cast, exp.TryCast) and type(node.this) is exp.Literal:
            return _typed(node)
        if type(node) is exp.Column:
            hint = "compare a column with a literal, and put strings in '...'"
            raise _not_allowed(f"the column {quote_value(node.name)} as a value", hint)
        raise self.rejection(node)

    def rejection(self, node: exp.Expr) -> RejectedError:
        if type(node) is exp.Column:
            return RejectedError(
                "ZL030", f"expected a condition, found the column {quote_value(node.name)}", "write c = true"
            )
        if type(node) in COMPARISONS:
            return _not_allowed("a comparison of two columns", "compare a column with a literal")
        if type(node) is exp.In:
            if not (others := further_arguments(node)):
                return RejectedError("ZL030", "IN needs at least one value")
            return _not_allowed("a subquery" if others[0] == "query" else f"IN {others[0].upper()}")
        if isinstance(node, exp.Anonymous):
            return _not_allowed(f"the function {quote_value(str(node.this))[1:-1]}()")
        if isinstance(node, exp.Subquery | exp.Query | exp.Exists):
            return _not_allowed("a subquery")
        if isinstance(node, exp.Func) and not isinstance(node, exp.Connector | exp.Binary):
            return _not_allowed(f"the function {node.sql_name().lower()}()")
        return _not_allowed(_NAMES.get(type(node).__name__, type(node).__name__.upper()))


def _not_allowed(name: str, hint: str = ALLOWED) -> RejectedError:
    return RejectedError("ZL031", f"{name} is not allowed", hint)


def _typed(node: exp.Expr) -> Value:
    """The value of DATE '...', TIMESTAMP '...', or a number with a suffix such as 1L or 1.5BD."""
    text, target = str(node.this.this), node.args["to"].this.name
    if target == "DATE":
        return day(text)
    if target in TIMESTAMP_TYPES:
        return instant(text)
    if target in _SUFFIXED and (not node.this.is_string or target == "DECIMAL"):
        return number(text, _SUFFIXED[target])
    raise _not_allowed(f"a literal of type {target}")
