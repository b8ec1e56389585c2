"""Merge executed statements by query shape. Statements of one shape differ only in their constants.

Constants are kept, binned or omitted. If they are binned, a few statements of each shape are kept: those at quantiles
of the constants, each of which represents an equal share of the executions. If they are omitted, each constant becomes
a parameter (`?`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from sqlglot import exp

from zlayout.workload.history.records import Executed, History, Problem
from zlayout.workload.model import UnreadableError
from zlayout.workload.statements import parse, parsing

BINS = 10
# The constants of a statement in their order, in a form that can be sorted: a number with an empty string, or 0 with
# another constant as a string.
Constants = tuple[tuple[float, str], ...]


class Values(StrEnum):
    """What is done with the constants of statements."""

    KEEP = "keep"
    BIN = "bin"
    OMIT = "omit"


@dataclass(frozen=True, slots=True)
class Merged:
    """A statement of a workload in Spark SQL, and the number of its executions."""

    text: str
    count: float


def merge(history: History, catalogs: frozenset[str], values: Values, bins: int = BINS) -> tuple[Merged, ...]:
    """Merge the statements of a history by query shape. Statements that cannot be parsed become its problems.

    Args:
        history: The history.
        catalogs: The names of the catalogs of the project. Other names of catalogs are removed, because other engines
            name catalogs differently. A table is then found by schema and name.
        values: What is done with constants.
        bins: With `Values.BIN`, the maximum number of statements of one shape.

    Returns:
        The statements, the most frequent first.
    """
    shapes: dict[str, dict[tuple[Constants, str], float]] = defaultdict(lambda: defaultdict(float))
    for one in history.executed:
        try:
            with parsing(f"a statement that cannot be parsed as {one.dialect} SQL"):
                tree = parse(one.text, one.dialect)
                if not isinstance(tree, exp.Query) or tree.find(exp.Table) is None:
                    history.left_out["statements that read no table by a query"] += 1
                    continue
                _qualify(tree, one, catalogs)
                text = _sql(tree)
                constants = _omit_constants(tree)
                shapes[_sql(tree)][constants, text] += one.count
        except UnreadableError as error:
            history.problems.append(Problem(one.location, str(error)))
    merged = (m for shape, found in shapes.items() for m in _statements(shape, found, values, bins))
    return tuple(sorted(merged, key=lambda m: (-m.count, m.text)))


def _statements(
    shape: str, found: Mapping[tuple[Constants, str], float], values: Values, bins: int
) -> Iterator[Merged]:
    """found: the number of executions, by the constants and the text of a statement."""
    if values is Values.OMIT:
        yield Merged(shape, sum(found.values()))
    elif values is Values.KEEP or len(found) <= bins:
        yield from (Merged(text, count) for (_, text), count in found.items())
    else:
        yield from _binned(sorted((constants, text, count) for (constants, text), count in found.items()), bins)


def _binned(found: Sequence[tuple[Constants, str, float]], bins: int) -> Iterator[Merged]:
    """Yield the statement in the middle of each of `bins` equal shares of the executions. found: in sorted order."""
    total = sum(count for _, _, count in found)
    chosen: dict[str, float] = defaultdict(float)
    end, at = 0.0, 0
    for _, text, count in found:
        end += count
        while at < bins and (at + 0.5) * total / bins <= end:
            chosen[text] += total / bins
            at += 1
    yield from (Merged(text, count) for text, count in chosen.items())


def _qualify(tree: exp.Query, one: Executed, catalogs: frozenset[str]) -> None:
    ctes = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier) or (not table.db and table.name.lower() in ctes):
            continue
        if not table.db and one.schema:
            table.set("db", exp.to_identifier(one.schema))
            if one.catalog in catalogs:
                table.set("catalog", exp.to_identifier(one.catalog))
        elif table.catalog and table.catalog not in catalogs:
            table.set("catalog", None)


def _omit_constants(tree: exp.Query) -> Constants:
    found: list[tuple[float, str]] = []
    for node in list(tree.find_all(exp.Literal, exp.Boolean)):
        is_number = isinstance(node, exp.Literal) and not node.is_string
        try:
            found.append((float(node.this), "") if is_number else (0.0, str(node.this)))
        except ValueError:
            found.append((0.0, str(node.this)))
        node.replace(exp.Placeholder())
    for values in list(tree.find_all(exp.In)):
        parameters = values.expressions
        if len(parameters) > 1 and all(isinstance(p, exp.Placeholder) for p in parameters):
            values.set("expressions", parameters[:1])  # Lists of any length have the same shape.
    return tuple(found)


def _sql(tree: exp.Query) -> str:
    text = tree.sql(dialect="spark", comments=False)
    return " ".join(text.split("\n"))


def to_file(merged: Iterable[Merged], days: float | None = None) -> str:
    """Return the text of a SQL workload file: one statement per line, each after a comment with its weight.

    days: The number of days of the history, which becomes the first comment; None if it is unknown.
    """
    first = "" if days is None else f"-- days: {days:g}\n"
    return first + "".join(f"-- weight: {m.count:.12g}\n{m.text};\n" for m in merged)
