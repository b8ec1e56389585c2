"""Split SQL text into statements, and read the scans of a statement. A statement that cannot be read has a reason."""

from __future__ import annotations

import logging
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from itertools import chain

from zlayout.errors import Location, SpecError
from zlayout.workload.model import Inverted, Query, Scan, Unused

EPOCH = datetime(1970, 1, 1)
MAX_STATEMENT = 100_000  # characters
MAX_WEIGHT = 1e12
MAX_DEPTH = 60
# Strings, names in quotes, comments and semicolons. An unclosed one extends to the end of the text. Because of the
# possessive quantifiers, matching takes linear time.
_PIECE = re.compile(
    r"'(?:[^'\\]|\\.?)*+(?:'|\Z)|\"(?:[^\"\\]|\\.?)*+(?:\"|\Z)|`[^`]*+(?:`|\Z)|--[^\n]*|/\*.*?(?:\*/|\Z)|;", re.DOTALL
)
MAX_WEIGHT_LENGTH = 200  # characters of a comment
_WEIGHT = re.compile(r"(?:--|/\*)\s*(weight|days)\s*:(.*?)(?:\*/)?\s*", re.DOTALL | re.IGNORECASE)
_NESTING = {"L_PAREN": 1, "R_PAREN": -1, "L_BRACKET": 1, "R_BRACKET": -1, "CASE": 1, "END": -1}
_PREFIXES = ("NOT", "DASH", "PLUS", "TILDE")


def split(text: str, path: str) -> Iterator[Query]:
    """Yield the statements between semicolons. A comment `-- weight: 20` in or before a statement sets its weight.

    A comment `-- days: 7` states that the statements after it ran as often as their weights in so many days.

    Raises SpecError ZL071 for an invalid weight.
    """
    begin, line, weight = 0, 1, 1.0
    days: float | None = None
    parts: list[str] = []
    first_line = 1
    for piece in chain(_PIECE.finditer(text), [None]):
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
                value = weight_of(given[2], Location(path, line, 1))
                weight, days = (value, days) if given[1].lower() == "weight" else (weight, value)
            line += found.count("\n")
        if found == ";":
            if parts:
                yield Query("".join(parts).strip(), f"{path}:{first_line}", weight, days=days)
            parts, weight = [], 1.0


def weight_of(text: str, location: Location) -> float:
    """Parse a weight. It is above 0 and at most MAX_WEIGHT, so that sums are finite. Raises SpecError ZL071."""
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not 0 < weight <= MAX_WEIGHT:
        shown = text.strip()[:40]
        message = f"expected a weight above 0, at most {MAX_WEIGHT:,.0f}, found {shown!r}"
        raise SpecError.of("ZL071", message, location=location)
    return weight


@dataclass(frozen=True, slots=True)
class Read:
    """What one statement reads. `Workload` describes the fields.

    uses_time: whether the statement refers to the current date or time.
    """

    scans: tuple[Scan, ...] = ()
    unused: tuple[Unused, ...] = ()
    inverted: tuple[Inverted, ...] = ()
    readable: bool = True
    uses_time: bool = False


def read_query(query: Query, known: Mapping[str, Sequence[str]], now: datetime = EPOCH) -> Read:
    """The scans and unused conditions of one statement. A statement that cannot be parsed is an unused condition.

    Args:
        known: the column names of tables, by table name in lower case.
        now: the current time (UTC, naive) of a query without a time.
    """
    from sqlglot import exp
    from sqlglot.dialects.dialect import Dialect
    from sqlglot.errors import SqlglotError

    from zlayout.predicate.constants import fix_current_time
    from zlayout.predicate.sql_tree import PARSER_DEFECTS
    from zlayout.workload.queries import Reader, TooManyScansError

    def unusable(reason: str) -> Read:
        text = " ".join(query.text[:400].split())[:200]
        return Read(unused=(Unused(query, text, reason),), readable=False)

    if len(query.text) > MAX_STATEMENT:
        return unusable(f"a statement of more than {MAX_STATEMENT} characters")
    try:
        with silent():
            spark = Dialect.get_or_raise("spark")
            if too_deep(spark.tokenize(query.text)):
                return unusable(f"nested deeper than {MAX_DEPTH} levels")
            trees = spark.parse(query.text)
            tree = trees[0] if len(trees) == 1 else None
            if isinstance(tree, exp.Insert | exp.Create) and isinstance(tree.expression, exp.Query):
                tree = tree.expression
            if not isinstance(tree, exp.Query):
                return unusable("not a query")
            if any(clause.args.get("recursive") for clause in tree.find_all(exp.With)):
                return unusable("a recursive query")
            uses_time = fix_current_time(tree, query.time or now) > 0
            reader = Reader(query, known)
            reader.read(tree, {})
    except TooManyScansError:
        return unusable("too many tables")
    except RecursionError:
        return unusable(f"nested deeper than {MAX_DEPTH} levels")
    except (SqlglotError, *PARSER_DEFECTS):
        return unusable("not Spark SQL that can be parsed")
    return Read(tuple(reader.scans), tuple(reader.unused.values()), tuple(reader.inverted), uses_time=uses_time)


def too_deep(tokens: Sequence[object]) -> bool:
    """Whether the tokens are nested too deeply for the parser, which recurses."""
    depth = prefixes = 0
    for token in tokens:
        name = token.token_type.name  # type: ignore[attr-defined]
        depth = max(0, depth + _NESTING.get(name, 0))
        prefixes = prefixes + 1 if name in _PREFIXES else 0
        if max(depth, prefixes) > MAX_DEPTH:
            return True
    return False


@contextmanager
def silent() -> Iterator[None]:
    """Disable the log of sqlglot, since unsupported SQL is reported in the result."""
    log = logging.getLogger("sqlglot")
    before, log.disabled = log.disabled, True
    try:
        yield
    finally:
        log.disabled = before
