"""Parse the filters of scans as Spark and Iceberg print them in query plans.

Spark prints values without quotes (`EqualTo(l_shipmode,AIR)`). All literals are therefore strings, which are later
converted to the type of the column. In a list of IN, a string with a comma is read as two values. A filter with
unbalanced brackets is not used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from zlayout.predicate.model import And, Compare, In, IsNull, Not, Operator, Or, Predicate, starts_with
from zlayout.workload.model import Query, UnreadableError

NOT_READ = "a pushed filter that cannot be parsed"
NO_BOUNDS = "a pushed filter that min and max cannot decide"
NOT_PUSHED = "a function or arithmetic on a column"
JOIN_FILTER = "a filter through a join, which limits the table only at run time"
MAX_DEPTH = 60
_OPERATORS: dict[str, Operator] = {
    "EqualTo": "=",
    "GreaterThan": ">",
    "GreaterThanOrEqual": ">=",
    "LessThan": "<",
    "LessThanOrEqual": "<=",
}
_SYMBOLS: dict[str, Operator] = {"=": "=", "<=>": "=", "<=": "<=", ">=": ">=", "<": "<", ">": ">"}
_NAMES = (*_OPERATORS, "EqualNullSafe", "In", "And", "Or", "Not", "IsNull", "IsNotNull", "StringStartsWith")
_OTHERS = ("StringEndsWith", "StringContains", "AlwaysTrue", "AlwaysFalse")
_CALL = re.compile(rf"({'|'.join((*_NAMES, *_OTHERS))})\(")
_BEGIN = re.compile(rf"{_CALL.pattern}|\(|isnull\(|isnotnull\(|NOT |[^\s()#,]+#\d")
_COLUMN = re.compile(r"`((?:[^`]|``)+)`|([^,()`\s]+)")
_ATTRIBUTE = r"([^\s()#]+)#\d+L?"
_PARTITION_LEAF = re.compile(rf"\(?{_ATTRIBUTE} ({'|'.join(_SYMBOLS)}) ([^()]*)\)?")
_PARTITION_NULL = re.compile(rf"(isnull|isnotnull)\({_ATTRIBUTE}\)")
_PARTITION_IN = re.compile(rf"\(?{_ATTRIBUTE} IN \(((?:[^(),]|,(?! ))*)\)+")
_ID = re.compile(r"#\d+L?")
# A function of a column, or arithmetic on one. Null tests and SQL operators, which look like functions, are excluded.
_COMPUTED = re.compile(
    r"\b(?!(?:isnull|isnotnull|in|inset|and|or|not)\b)[A-Za-z_]\w*\([^()]*#\d|#\d+L? [-+*/%] ", re.IGNORECASE
)

Unread = tuple[tuple[str, str], ...]  # the text of each unused filter, and the reason


def pushed_filters(text: str) -> tuple[list[Predicate], Unread]:
    """Parse the pushed filters of a file scan, such as `[IsNotNull(a), EqualTo(a,5)]`.

    Returns:
        The predicates, and the unused filters.
    """
    found, left = [], []
    for item in _split(text.strip()[1:-1], ", ", _BEGIN):
        try:
            found.append(_pushed(item, 0))
        except UnreadableError as error:
            left.append((item, str(error)))
    return found, tuple(left)


def partition_filters(text: str) -> tuple[list[Predicate], Unread]:
    """Parse the partition filters of a file scan, such as `[isnotnull(region#12), (region#12 = east)]`.

    Only null tests, simple comparisons and IN are used.

    Returns:
        The predicates, and the unused filters.
    """
    found: list[Predicate] = []
    left = []
    for item in _split(text.strip()[1:-1], ", ", _BEGIN):
        if null := _PARTITION_NULL.fullmatch(item):
            test = IsNull(null[2])
            found.append(test if null[1] == "isnull" else Not(test))
        elif item.startswith("dynamicpruning"):
            left.append((_ID.sub("", item), JOIN_FILTER))
        elif len(_ID.findall(item)) > 1:  # another column, or a subquery whose result is not in the log
            left.append((item, NOT_READ))
        elif listed := _PARTITION_IN.fullmatch(item):
            found.append(In(listed[1], tuple(listed[2].split(","))))
        elif leaf := _PARTITION_LEAF.fullmatch(item):
            found.append(Compare(leaf[1], _SYMBOLS[leaf[2]], leaf[3]))
        else:
            left.append((item, NOT_READ))
    return found, tuple(left)


def sql_filters(text: str) -> tuple[list[Predicate], Unread]:
    """Parse the filters of an Iceberg scan, such as `a IS NOT NULL, a >= 5`.

    They are SQL. A date is the number of days and a timestamp the number of microseconds since 1970.

    Returns:
        The predicates, and the unused filters.
    """
    from sqlglot import exp

    from zlayout.workload.statements import parse, parsing, read_query

    if not text.strip():
        return [], ()
    try:
        with parsing(NOT_READ):
            tree = parse(f"SELECT {text}")
    except UnreadableError:
        tree = None
    if not isinstance(tree, exp.Select):
        return [], ((text, NOT_READ),)
    where = " AND ".join(f"({part.sql('spark')})" for part in tree.selects)
    # The filters of a plan do not refer to the current time, because Spark has replaced it by a constant.
    read = read_query(Query(f"SELECT 1 FROM t WHERE {where}", ""), {})
    found = [s.predicate for s in read.scans if s.predicate is not None]
    return found, tuple((u.text, u.reason) for u in read.unused)


def not_pushed(text: str) -> Unread:
    """Return the conditions of a Filter node that Spark does not push to the scan.

    They contain a function of a column, or arithmetic on one.

    Args:
        text: The description of the node, such as `Filter (isnotnull(a#1) AND (length(a#1) = 3))`.
    """
    inner = text.removeprefix("Filter").strip()
    while inner.startswith("(") and next(_outside_brackets(inner), -1) == len(inner) - 1:
        inner = inner[1:-1]
    parts = _split(inner, " AND ")
    if 1 < len(parts) <= MAX_DEPTH:
        return tuple(found for part in parts for found in not_pushed(part))
    return tuple((_ID.sub("", part).strip("()"), NOT_PUSHED) for part in parts if _COMPUTED.search(part))


def _pushed(text: str, depth: int) -> Predicate:
    call = _CALL.match(text)
    if call is None or not text.endswith(")") or depth > MAX_DEPTH:
        raise UnreadableError(NOT_READ)
    name, inner = call[1], text[call.end() : -1]
    if name in _OTHERS:
        raise UnreadableError(NO_BOUNDS)
    if name in ("And", "Or"):
        parts = tuple(_pushed(part, depth + 1) for part in _split(inner, ",", _BEGIN))
        if len(parts) != 2:
            raise UnreadableError(NOT_READ)
        return And(parts) if name == "And" else Or(parts)
    if name == "Not":
        return Not(_pushed(inner, depth + 1))
    return _leaf(name, inner)


def _leaf(name: str, inner: str) -> Predicate:
    column = _COLUMN.match(inner)
    at = "" if column is None else column[1].replace("``", "`") if column[1] else column[2]
    rest = inner[column.end() :] if column else ""
    if at and not rest and name in ("IsNull", "IsNotNull"):
        return IsNull(at) if name == "IsNull" else Not(IsNull(at))
    if not rest.startswith(",") or name in ("IsNull", "IsNotNull"):
        raise UnreadableError(NOT_READ)
    value = rest[1:]
    if name == "In":
        listed = re.fullmatch(r"\s*\[(.*)\]\s*", value, re.DOTALL)
        values = tuple(v for v in listed[1].split(",") if v != "null") if listed else ()
        if not values:
            raise UnreadableError(NOT_READ)
        return In(at, values)
    if name == "StringStartsWith":
        return starts_with(at, value)
    if value == "null":
        return IsNull(at)
    if name == "EqualNullSafe":
        # For a null value, `<=>` is false while `=` is null, so that the negation of `<=>` is true.
        return And((Compare(at, "=", value), Not(IsNull(at))))
    return Compare(at, _OPERATORS[name], value)


def _split(text: str, separator: str, item: re.Pattern[str] = re.compile("")) -> list[str]:
    """Split a text at the separators that are outside of brackets and followed by a match of `item`."""
    if not text:
        return []
    parts, begin = [], 0
    for at in _outside_brackets(text):
        if text.startswith(separator, at) and item.match(text, at + len(separator)):
            parts.append(text[begin:at])
            begin = at + len(separator)
    return [*parts, text[begin:]]


def _outside_brackets(text: str) -> Iterator[int]:
    """Yield the positions of the characters outside of brackets, and of the closing brackets of outermost pairs."""
    depth = 0
    for at, character in enumerate(text):
        depth += (character == "(") - (character == ")")
        if depth == 0:
            yield at
