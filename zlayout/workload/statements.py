"""Split SQL text into statements, and read the scans of a statement, or the reason why it cannot be read."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING

from zlayout.errors import Location, SpecError
from zlayout.text import quote_value
from zlayout.workload.model import MAX_TEXT, Inverted, Query, Scan, UnreadableError, Unused

if TYPE_CHECKING:
    from sqlglot import exp
    from sqlglot.tokenizer_core import Token

EPOCH = datetime(1970, 1, 1)
MAX_STATEMENT = 100_000  # characters
MAX_WEIGHT = 1e12
MAX_DEPTH = 60  # levels of brackets and CASE, and consecutive prefix operators
# Strings, quoted names, comments and semicolons. An unclosed one extends to the end of the text. Because of the
# possessive quantifiers, matching takes linear time. In some dialects, a backslash escapes the next character.
_OTHERS = r"`[^`]*+(?:`|\Z)|--[^\n]*|/\*.*?(?:\*/|\Z)|;"
_PIECE = re.compile(r"'[^']*+(?:'|\Z)|\"[^\"]*+(?:\"|\Z)|" + _OTHERS, re.DOTALL)
_PIECE_WITH_ESCAPES = re.compile(r"'(?:[^'\\]|\\.?)*+(?:'|\Z)|\"(?:[^\"\\]|\\.?)*+(?:\"|\Z)|" + _OTHERS, re.DOTALL)
MAX_WEIGHT_LENGTH = 200  # characters; a longer comment is not searched for a weight
_WEIGHT = re.compile(r"(?:--|/\*)\s*(weight|days)\s*:(.*?)(?:\*/)?\s*", re.DOTALL | re.IGNORECASE)
_NESTING = {"L_PAREN": 1, "R_PAREN": -1, "L_BRACKET": 1, "R_BRACKET": -1, "CASE": 1, "END": -1}
_PREFIXES = ("NOT", "DASH", "PLUS", "TILDE")


def split(text: str, path: str, *, escapes: bool = True) -> Iterator[Query]:
    """Yield the statements between semicolons.

    A comment `-- weight: 20` in or before a statement sets its weight. A comment `-- days: 7` states that the
    executions of the statements after it took place in 7 days.

    Args:
        text: The content of a SQL file.
        path: The name of the file in locations.
        escapes: Whether a backslash in a string escapes the next character, as in Spark.

    Raises:
        SpecError: ZL071 for an invalid weight or number of days.
    """
    begin, line, weight = 0, 1, 1.0
    days: float | None = None
    parts: list[str] = []
    first_line = 1
    for piece in chain((_PIECE_WITH_ESCAPES if escapes else _PIECE).finditer(text), [None]):
        end = piece.start() if piece else len(text)
        found = piece[0] if piece else ";"
        before, is_comment = text[begin:end], found.startswith(("--", "/*"))
        begin = piece.end() if piece else end
        for part in (before, " " if is_comment else "" if found == ";" else found):
            if part.strip() and not parts:
                first_line = line + part[: len(part) - len(part.lstrip())].count("\n")
            if parts or part.strip():
                parts.append(part)
            line += part.count("\n")
        if is_comment:
            if len(found) <= MAX_WEIGHT_LENGTH and (given := _WEIGHT.fullmatch(found)):
                location = Location(path, line, 1)
                if given[1].lower() == "weight":
                    weight = checked_weight(given[2], location)
                else:
                    days = checked_weight(given[2], location, "number of days")
            line += found.count("\n")
        if found == ";":
            if parts:
                yield Query("".join(parts).strip(), f"{path}:{first_line}", weight, days=days)
            parts, weight = [], 1.0


def checked_weight(text: str, location: Location, name: str = "weight") -> float:
    """Parse a number as `parse_weight` does. Raises SpecError ZL071 with the location."""
    try:
        return parse_weight(text, name)
    except ValueError as error:
        raise SpecError.of("ZL071", str(error), location=location) from None


def parse_weight(text: str, name: str) -> float:
    """Parse a number above 0 and at most MAX_WEIGHT, so that sums of such numbers are finite.

    Args:
        text: The number.
        name: What the number is, for the message.

    Raises:
        ValueError: For another text.
    """
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number <= MAX_WEIGHT:
        raise ValueError(f"expected a {name} above 0, at most {MAX_WEIGHT:,.0f}, found {quote_value(text.strip())}")
    return number


@dataclass(frozen=True, slots=True)
class Read:
    """What one statement reads.

    Attributes:
        scans, unused, inverted: As in `Workload`.
        readable: Whether the statement can be read. If not, `unused` contains the statement with the reason.
        uses_time: Whether the statement refers to the current date or time.
    """

    scans: tuple[Scan, ...] = ()
    unused: tuple[Unused, ...] = ()
    inverted: tuple[Inverted, ...] = ()
    readable: bool = True
    uses_time: bool = False


def read_query(query: Query, known: Mapping[str, Sequence[str]], now: datetime = EPOCH) -> Read:
    """Return the scans and the unused conditions of one statement.

    Args:
        query: The statement.
        known: The column names of tables, by table name in lower case.
        now: The current time (UTC, naive) of a statement without a time of its own.
    """
    from sqlglot import exp

    from zlayout.predicate.sql_tree import fix_current_time
    from zlayout.workload.queries import Reader

    reader = Reader(query, known)
    try:
        with parsing("not Spark SQL that can be parsed"):
            tree = parse(query.text)
            if not isinstance(tree, exp.Query):
                raise UnreadableError("not a query")
            if any(clause.args.get("recursive") for clause in tree.find_all(exp.With)):
                raise UnreadableError("a recursive query")
            uses_time = fix_current_time(tree, query.time or now)
            reader.read(tree, {})
    except UnreadableError as error:
        text = " ".join(query.text[:400].split())[:MAX_TEXT]
        return Read(unused=(Unused(query, text, str(error)),), readable=False)
    return Read(tuple(reader.scans), tuple(reader.unused.values()), tuple(reader.inverted), uses_time=uses_time)


def parse(text: str, dialect: str = "spark") -> exp.Expr | None:
    """Return the tree of a statement, for an INSERT or CREATE that of the query in it.

    Call it within `parsing`, which converts the errors of the parser.

    Args:
        text: The statement.
        dialect: Its dialect, as sqlglot names it.

    Returns:
        The tree; None if the text is not exactly one statement.

    Raises:
        UnreadableError: The text is longer than MAX_STATEMENT.
        RecursionError: The text is nested deeper than MAX_DEPTH.
    """
    from sqlglot import exp

    from zlayout.predicate.sql_tree import dialect_named

    if len(text) > MAX_STATEMENT:
        raise UnreadableError(f"a statement of more than {MAX_STATEMENT} characters")
    parser = dialect_named(dialect)
    if _too_deep(parser.tokenize(text)):
        raise RecursionError
    trees = [tree for tree in parser.parse(text) if tree is not None]
    tree = trees[0] if len(trees) == 1 else None
    inner = tree.expression if isinstance(tree, exp.Insert | exp.Create) else None
    return inner if isinstance(inner, exp.Query) else tree


def _too_deep(tokens: Sequence[Token]) -> bool:
    """The depth of nesting is limited because the parser recurses."""
    depth = prefixes = 0
    for token in tokens:
        name = token.token_type.name
        depth = max(0, depth + _NESTING.get(name, 0))
        prefixes = prefixes + 1 if name in _PREFIXES else 0
        if max(depth, prefixes) > MAX_DEPTH:
            return True
    return False


@contextmanager
def parsing(failure: str) -> Iterator[None]:
    """Convert the errors of sqlglot to UnreadableError, and disable its log, which only repeats them.

    failure: The message for a text that cannot be parsed.
    """
    from sqlglot.errors import SqlglotError

    from zlayout.predicate.sql_tree import PARSER_DEFECTS

    log = logging.getLogger("sqlglot")
    before, log.disabled = log.disabled, True
    try:
        yield
    except RecursionError:
        raise UnreadableError(f"nested deeper than {MAX_DEPTH} levels") from None
    except (SqlglotError, *PARSER_DEFECTS):
        raise UnreadableError(failure) from None
    finally:
        log.disabled = before
