"""`where:` as text to a whitelisted predicate and back. Anything that could run code is refused by name.

sqlglot parses, but nothing of its tree is kept: each node is turned into one of `zlayout.predicate.model` or refused,
and what goes to an engine is `to_sql` of the result, never the user's text.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING

from zlayout.errors import Diagnostic, Location, SpecError
from zlayout.predicate.literals import RefusedError, day, instant, literal, number
from zlayout.predicate.model import MIRRORED, And, Compare, In, IsNull, Not, Operator, Or, Predicate, Value
from zlayout.spec.yaml import quoted
from zlayout.sql_text import quoted_name

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.tokenizer_core import Token

MAX_LENGTH = 10_000
MAX_DEPTH = 50
ALLOWED = "allowed: AND OR NOT, = != < <= > >=, IN, BETWEEN, IS NULL, columns and literals"

_SUFFIXED = {
    "TINYINT": int,
    "SMALLINT": int,
    "INT": int,
    "BIGINT": int,
    "DOUBLE": float,
    "DECIMAL": Decimal,
}
_REFUSED_TOKENS = {"SEMICOLON": "';'", "L_BRACKET": "'['", "L_BRACE": "'{'", "CASE": "CASE", "SELECT": "a subquery"}
_NAMES = {
    **dict.fromkeys(("Add", "Sub", "Mul", "Div", "IntDiv", "Mod", "Neg"), "arithmetic"),
    "NullSafeEQ": "<=>",
    "NullSafeNEQ": "IS DISTINCT FROM",
    "Is": "IS other than IS [NOT] NULL",
    "RegexpLike": "RLIKE",
    "Boolean": "true or false by itself",
    "Literal": "a literal by itself",
}


def parse_where(text: str, location: Location) -> Predicate:
    """Parse a condition in Spark SQL. Raises SpecError: ZL030 syntax, ZL031 not allowed, ZL032 a bad literal."""
    try:
        tree = _parse(text)
        return _Converter().predicate(tree)
    except RefusedError as refused:
        found = Diagnostic(refused.code, f"{refused.message} in where", hint=refused.hint, location=location)
        raise SpecError(found) from None
    except RecursionError:
        message = f"expected a where of at most {MAX_DEPTH} levels, found more"
        raise SpecError(Diagnostic("ZL030", message, location=location)) from None


def to_sql(predicate: Predicate) -> str:
    """Canonical Spark SQL of a predicate, with every column quoted; `parse_where` gives the same predicate again."""
    match predicate:
        case Compare(column, operator, value):
            return f"{quote_column(column)} {'<>' if operator == '!=' else operator} {literal(value)}"
        case In(column, values):
            return f"{quote_column(column)} IN ({', '.join(map(literal, values))})"
        case IsNull(column):
            return f"{quote_column(column)} IS NULL"
        case Not(IsNull(column)):
            return f"{quote_column(column)} IS NOT NULL"
        case Not(operand):
            return f"NOT ({to_sql(operand)})"
        case And(operands):
            return " AND ".join(f"({to_sql(o)})" for o in operands)
        case Or(operands):
            return " OR ".join(f"({to_sql(o)})" for o in operands)


def quote_column(name: str) -> str:
    """A dotted column name with each part in backticks."""
    return quoted_name(name.split("."))


def _parse(text: str) -> exp.Expr:
    from sqlglot import exp
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import SqlglotError

    from zlayout.predicate.sqlglot_terms import UNFORESEEN

    if len(text) > MAX_LENGTH:
        raise RefusedError("ZL030", f"expected at most {MAX_LENGTH} characters, found {len(text)}")
    try:
        spark = Dialect.get_or_raise("spark")
        _screen(text, spark.tokenize(text))
        trees = spark.parse_into(exp.Condition, text)
    except SqlglotError as error:
        raise RefusedError("ZL030", f"not a condition: {_reason(error)}") from None
    except UNFORESEEN as error:
        raise RefusedError("ZL030", f"not a condition: {type(error).__name__}") from None
    if len(trees) != 1 or trees[0] is None:
        raise RefusedError("ZL030", "expected one condition, found " + ("none" if len(trees) < 2 else "several"))
    return trees[0]


def _screen(text: str, tokens: list[Token]) -> None:
    """Refuse what the tree no longer shows (comments, casts), and depth before the parser recurses into it."""
    escape = next((e[0] for e in re.finditer(r"\\(.)", text, re.DOTALL) if e[1] not in "\\'\"nrt"), None)
    if escape:
        raise RefusedError("ZL032", f"the escape {quoted(escape)} is not allowed", r"allowed: \\ \' \n \r \t")
    depth = prefixes = 0
    for index, token in enumerate(tokens):
        name = token.token_type.name
        if token.comments or name == "HINT":
            raise RefusedError("ZL031", "a comment is not allowed")
        if name in _REFUSED_TOKENS:
            raise RefusedError("ZL031", f"{_REFUSED_TOKENS[name]} is not allowed", ALLOWED)
        depth += (name == "L_PAREN") - (name == "R_PAREN")
        prefixes = prefixes + 1 if name in ("NOT", "DASH", "PLUS", "TILDE") else 0
        if max(depth, prefixes) > MAX_DEPTH:
            raise RefusedError("ZL030", f"expected at most {MAX_DEPTH} levels, found more")
        called = index + 1 < len(tokens) and tokens[index + 1].token_type.name == "L_PAREN"
        # The tokenizer turns 1L into 1::BIGINT.
        written = name == "DCOLON" and text[token.start : token.end + 1] == "::"
        if written or (called and token.text.upper() in ("CAST", "TRY_CAST", "DATE", "TIMESTAMP")):
            raise RefusedError("ZL031", "a cast is not allowed", "write the literal in the type of the column")


def _reason(error: Exception) -> str:
    """What sqlglot's error says, without its place, its own names and its terminal colours."""
    details = getattr(error, "errors", None) or [{}]
    place = f" near column {details[0]['col']}" if details[0].get("col") else ""
    return "it cannot be parsed" + place


class _Converter:
    """sqlglot's tree to ours, node by node; a node that is not named here is refused."""

    def __init__(self) -> None:
        from sqlglot import exp

        from zlayout.predicate.sqlglot_terms import COMPARISONS

        self.exp = exp
        self.comparisons = COMPARISONS

    def predicate(self, node: exp.Expr) -> Predicate:
        exp = self.exp
        node = self._unwrap(node)
        if type(node) is exp.And:
            return And(self._operands(node, exp.And))
        if type(node) is exp.Or:
            return Or(self._operands(node, exp.Or))
        if type(node) is exp.Not:
            return Not(self.predicate(node.this))
        if type(node) in self.comparisons:
            return self._compare(node, self.comparisons[type(node)])
        if type(node) is exp.Between:
            return self._between(node)
        if type(node) is exp.In:
            return self._in(node)
        if type(node) is exp.Is and type(node.expression) is exp.Null and not node.args.get("negate"):
            return IsNull(self._column(node.this))
        if type(node) is exp.Column:
            raise RefusedError("ZL030", f"expected a condition, found the column {quoted(node.name)}", "write c = true")
        raise self._refusal(node)

    def _operands(self, node: exp.Expr, kind: type[exp.Expr]) -> tuple[Predicate, ...]:
        """Flat: `a AND b AND c` is one And of three. A chain leans left and may be long, so no recursion."""
        right: list[exp.Expr] = []
        while type(node) is kind:
            right.append(node.expression)
            node = node.this
        flat: list[Predicate] = []
        for operand in (node, *reversed(right)):
            found = self.predicate(operand)
            same = isinstance(found, And) if kind is self.exp.And else isinstance(found, Or)
            flat.extend(found.operands if same and isinstance(found, And | Or) else (found,))
        return tuple(flat)

    def _compare(self, node: exp.Expr, operator: Operator) -> Predicate:
        left, right = self._unwrap(node.this), self._unwrap(node.expression)
        if type(left) is self.exp.Column and type(right) is self.exp.Column:
            raise RefusedError("ZL031", "a comparison of two columns is not allowed", "compare a column with a literal")
        if type(right) is self.exp.Column:
            return Compare(self._column(right), MIRRORED[operator], self._value(left))
        return Compare(self._column(left), operator, self._value(right))

    def _between(self, node: exp.Expr) -> Predicate:
        if node.args.get("symmetric"):
            raise RefusedError("ZL031", "BETWEEN SYMMETRIC is not allowed", ALLOWED)
        column = self._column(node.this)
        low, high = self._value(node.args["low"]), self._value(node.args["high"])
        return And((Compare(column, ">=", low), Compare(column, "<=", high)))

    def _in(self, node: exp.Expr) -> Predicate:
        extra = [name for name, value in node.args.items() if value and name not in ("this", "expressions")]
        if extra:
            what = "a subquery" if extra[0] == "query" else f"IN {extra[0].upper()}"
            raise RefusedError("ZL031", f"{what} is not allowed", ALLOWED)
        if not node.expressions:
            raise RefusedError("ZL030", "IN needs at least one value")
        return In(self._column(node.this), tuple(self._value(v) for v in node.expressions))

    def _column(self, node: exp.Expr) -> str:
        node = self._unwrap(node)
        parts: list[str] = []
        while type(node) is self.exp.Dot and type(node.expression) is self.exp.Identifier:
            parts.insert(0, node.expression.name)
            node = node.this
        if type(node) is not self.exp.Column:
            if self._is_literal(node):
                raise RefusedError(
                    "ZL031", "a comparison without a column is not allowed", "compare a column with a literal"
                )
            raise self._refusal(node)
        if any(type(part) is not self.exp.Identifier for part in node.parts):
            raise self._refusal(next(p for p in node.parts if type(p) is not self.exp.Identifier))
        names = [part.name for part in node.parts] + parts
        for name in names:
            if not name or "." in name or not name.isprintable():
                raise RefusedError("ZL031", f"the column name {quoted(name)} is not allowed", "a nested column is a.b")
        return ".".join(names)

    def _value(self, node: exp.Expr) -> Value:
        exp = self.exp
        node = self._unwrap(node)
        if type(node) is exp.Neg:
            value = self._value(node.this)
            if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
                raise RefusedError("ZL032", "expected a number after '-'")
            # minus rounds a decimal to the 28 digits of Python's context
            return value.copy_negate() if isinstance(value, Decimal) else -value
        if type(node) is exp.Boolean:
            return bool(node.this)
        if type(node) is exp.Literal:
            return str(node.this) if node.is_string else number(node.this)
        if type(node) is exp.Null:
            raise RefusedError("ZL031", "a comparison with NULL is not allowed", "write IS NULL")
        if type(node) in (exp.Cast, exp.TryCast) and type(node.this) is exp.Literal:
            return self._typed(node)
        if type(node) is exp.Column:
            raise RefusedError(
                "ZL031",
                f"the column {quoted(node.name)} as a value is not allowed",
                "compare a column with a literal; text goes in '...'",
            )
        raise self._refusal(node)

    def _typed(self, node: exp.Expr) -> Value:
        """DATE '...', TIMESTAMP '...', and numbers with a suffix such as 1L or 1.5BD."""
        text, target = str(node.this.this), node.args["to"].this.name
        if target == "DATE":
            return day(text)
        if target in ("TIMESTAMP", "TIMESTAMPTZ", "TIMESTAMPLTZ", "TIMESTAMPNTZ"):
            return instant(text)
        if target in _SUFFIXED and (not node.this.is_string or target == "DECIMAL"):
            return number(text, _SUFFIXED[target])
        raise RefusedError("ZL031", f"a literal of type {target} is not allowed", ALLOWED)

    def _is_literal(self, node: exp.Expr) -> bool:
        exp = self.exp
        return type(node) in (exp.Literal, exp.Boolean, exp.Null, exp.Neg, exp.Cast, exp.TryCast)

    def _unwrap(self, node: exp.Expr) -> exp.Expr:
        while type(node) is self.exp.Paren:
            node = node.this
        return node

    def _refusal(self, node: exp.Expr) -> RefusedError:
        exp = self.exp
        if isinstance(node, exp.Anonymous):
            name = f"the function {quoted(str(node.this))[1:-1]}()"
        elif isinstance(node, exp.Subquery | exp.Query | exp.Exists):
            name = "a subquery"
        elif isinstance(node, exp.Func) and not isinstance(node, exp.Connector | exp.Binary):
            name = f"the function {node.sql_name().lower()}()"
        else:
            name = _NAMES.get(type(node).__name__, type(node).__name__.upper())
        return RefusedError("ZL031", f"{name} is not allowed", ALLOWED)
