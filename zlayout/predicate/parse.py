"""Parse `where` to a predicate, and convert a predicate to SQL.

Everything that could run code is rejected with a specific error: sqlglot parses the text, and each node of its tree is
either converted to a node of `zlayout.predicate.model` or rejected. An engine receives the result of `to_sql`, and
never the text of the user.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from zlayout.errors import Diagnostic, Location, SpecError
from zlayout.predicate.model import (
    And,
    Compare,
    In,
    InKeys,
    IsNull,
    Keys,
    Like,
    Not,
    Or,
    Predicate,
    RejectedError,
    literal,
)
from zlayout.text import path_of, quote_path, quote_value

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.tokenizer_core import Token

MAX_LENGTH = 10_000  # characters
MAX_DEPTH = 50  # nested parentheses, or consecutive prefix operators
_REJECTED_TOKENS = {"SEMICOLON": "';'", "L_BRACKET": "'['", "L_BRACE": "'{'", "CASE": "CASE", "SELECT": "a subquery"}


def parse_where(text: str, location: Location) -> Predicate:
    """Parse a condition in Spark SQL. location: where it is written, for errors.

    Raises:
        SpecError: ZL030, ZL031 or ZL032.
    """
    from zlayout.predicate.rules import strict_predicate

    try:
        return strict_predicate(_parse(text))
    except RejectedError as error:
        found = Diagnostic(error.code, f"{error.message} in where", hint=error.hint, location=location)
        raise SpecError(found) from None
    except RecursionError:
        message = f"expected at most {MAX_DEPTH} levels, found more in where"
        raise SpecError(Diagnostic("ZL030", message, location=location)) from None


def to_sql(predicate: Predicate) -> str:
    """Convert a predicate to canonical Spark SQL with quoted columns. `parse_where` parses it to an equal predicate."""
    match predicate:
        case Compare(column, operator, value):
            return f"{quote_column(column)} {'<>' if operator == '!=' else operator} {literal(value)}"
        case In(column, values):
            return f"{quote_column(column)} IN ({', '.join(map(literal, values))})"
        case InKeys(column, sets):
            return f"{quote_column(column)} IN ({' UNION ALL '.join(map(_select, sets))})"
        case Like(column, pattern, negated):
            escape = " ESCAPE '!'" if "!" in pattern else ""
            return f"{quote_column(column)} {'NOT LIKE' if negated else 'LIKE'} {literal(pattern)}{escape}"
        case IsNull(column):
            return f"{quote_column(column)} IS NULL"
        case Not(IsNull(column)):
            return f"{quote_column(column)} IS NOT NULL"
        case Not(operand):
            return f"NOT ({to_sql(operand)})"
        case And(()):
            return "TRUE"
        case Or(()):
            return "FALSE"
        case And(operands):
            return " AND ".join(f"({to_sql(o)})" for o in operands)
        case Or(operands):
            return " OR ".join(f"({to_sql(o)})" for o in operands)


def _select(keys: Keys) -> str:
    where = "" if keys.predicate is None else f" WHERE {to_sql(keys.predicate)}"
    table = f"delta.{quote_path([keys.table])}" if "/" in keys.table else quote_column(keys.table)
    return f"SELECT {quote_column(keys.column)} FROM {table}{where}"


def quote_column(name: str) -> str:
    """Return a dotted column name with each part in backticks."""
    return quote_path(path_of(name))


def _parse(text: str) -> exp.Expr:
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    from zlayout.predicate.sql_tree import PARSER_DEFECTS, dialect_named

    if len(text) > MAX_LENGTH:
        raise RejectedError("ZL030", f"expected at most {MAX_LENGTH} characters, found {len(text)}")
    try:
        spark = dialect_named("spark")
        _check_tokens(text, spark.tokenize(text))
        trees = spark.parse_into(exp.Condition, text)
    except SqlglotError as error:
        message = f"expected a condition, found text that cannot be parsed{_position(error)}"
        raise RejectedError("ZL030", message, "check quotes, parentheses and operators") from None
    except PARSER_DEFECTS as error:
        message = f"expected a condition, found text that cannot be parsed ({type(error).__name__})"
        raise RejectedError("ZL030", message) from None
    if len(trees) != 1 or trees[0] is None:
        raise RejectedError("ZL030", "expected one condition, found " + ("none" if len(trees) < 2 else "several"))
    return trees[0]


def _check_tokens(text: str, tokens: list[Token]) -> None:
    """Reject tokens that are never allowed, and nesting so deep that the recursion of the parser would fail."""
    from zlayout.predicate.rules import ALLOWED

    escape = next((e[0] for e in re.finditer(r"\\(.)", text, re.DOTALL) if e[1] not in "\\'\"nrt"), None)
    if escape:
        raise RejectedError("ZL032", f"the escape {quote_value(escape)} is not allowed", r"allowed: \\ \' \n \r \t")
    depth = prefixes = 0
    for index, token in enumerate(tokens):
        name = token.token_type.name
        # The tree shows no comments, escapes and casts: a cast looks like DATE '...'.
        if token.comments or name == "HINT":
            raise RejectedError("ZL031", "a comment is not allowed")
        if name in _REJECTED_TOKENS:
            raise RejectedError("ZL031", f"{_REJECTED_TOKENS[name]} is not allowed", ALLOWED)
        depth += (name == "L_PAREN") - (name == "R_PAREN")
        prefixes = prefixes + 1 if name in ("NOT", "DASH", "PLUS", "TILDE") else 0
        if max(depth, prefixes) > MAX_DEPTH:
            raise RejectedError("ZL030", f"expected at most {MAX_DEPTH} levels, found more")
        called = index + 1 < len(tokens) and tokens[index + 1].token_type.name == "L_PAREN"
        # The tokenizer converts 1L to 1::BIGINT, whose `::` is not in the text.
        written = name == "DCOLON" and text[token.start : token.end + 1] == "::"
        if written or (called and token.text.upper() in ("CAST", "TRY_CAST", "DATE", "TIMESTAMP")):
            raise RejectedError("ZL031", "a cast is not allowed", "write the literal in the type of the column")


def _position(error: Exception) -> str:
    """Where the syntax error is, '' if unknown. sqlglot's own message contains internal names and terminal colours."""
    details = getattr(error, "errors", None) or [{}]
    return f" near column {details[0]['col']}" if details[0].get("col") else ""
