"""Join keys: what a condition on one table implies for another table that is joined to it.

`a.x = b.x AND b.x = 5` implies `a.x = 5`. `a.x = b.x AND b.y = 5` limits the rows of `a` only at run time, which a
simulation of bounds cannot show.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from zlayout.predicate.model import Predicate, columns, renamed
from zlayout.predicate.parse import to_sql
from zlayout.predicate.sql_tree import is_column
from zlayout.workload.sources import Source, dotted_name, owner

MAX_KEYS = 200  # of one SELECT; further keys imply nothing
MAX_CONDITIONS_SHOWN = 20
Found = Mapping[Source, list[Predicate]]


@dataclass(frozen=True, slots=True)
class JoinKey:
    """An equality of two columns of different sources that must hold for each row of a join.

    Attributes:
        text: The condition as SQL.
        sides: The two sources with the name of the column in each.
        limited: The sources whose rows the equality limits.
        optional: The source that has no row if nothing matches, as on the right of a LEFT JOIN; None for other joins.
            If another condition rejects null for it, the equality limits the other source too.
    """

    text: str
    sides: tuple[tuple[Source, str], tuple[Source, str]]
    limited: frozenset[Source]
    optional: Source | None = None

    def directions(self, rejecting: Collection[Source]) -> Iterator[tuple[Source, str, Source, str]]:
        """Yield the source that limits and its column, then the source that is limited and its column.

        rejecting: As in `Clauses`.
        """
        (one, left), (other, right) = self.sides
        inner = self.optional is not None and self.optional in rejecting
        for a, x, b, y in ((one, left, other, right), (other, right, one, left)):
            if b in self.limited or inner:
                yield a, x, b, y


@dataclass
class Clauses:
    """The conditions of one SELECT.

    Attributes:
        sources: The items of FROM and JOIN.
        nullable: The sources that an outer join may leave without a row.
        found: The predicates on each source.
        rejecting: The sources with a predicate in WHERE that is not true if their columns are null, so that it removes
            the rows of an outer join without a match.
        keys: The join keys.
    """

    sources: list[Source] = field(default_factory=list)
    nullable: set[Source] = field(default_factory=set)
    found: dict[Source, list[Predicate]] = field(default_factory=dict)
    rejecting: set[Source] = field(default_factory=set)
    keys: list[JoinKey] = field(default_factory=list)


def join_key(
    node: exp.Expr, sources: Sequence[Source], limited: Collection[Source], optional: Source | None
) -> JoinKey | None:
    """Return the join key that a condition is; None for any other condition.

    Args:
        node: The condition.
        sources: The sources of the SELECT.
        limited, optional: As in `JoinKey`.
    """
    left, right = (node.this.unnest(), node.expression.unnest()) if type(node) is exp.EQ else (node, node)
    if not (is_column(left) and is_column(right)):
        return None
    one, other = owner(dotted_name(left), sources), owner(dotted_name(right), sources)
    if one is None or other is None or one[0] is other[0]:
        return None
    return JoinKey(node.sql("spark"), (one, other), frozenset(limited), optional)


def using_keys(
    join: exp.Join, left: Sequence[Source], right: Source, limited: Collection[Source], optional: Source | None
) -> Iterator[JoinKey]:
    """Yield the join keys of `JOIN ... USING (a, b)`.

    Args:
        join: The join.
        left: The sources on its left.
        right: The source on its right.
        limited, optional: As in `JoinKey`.
    """
    for column in join.args["using"]:
        if found := owner([column.name], left):
            yield JoinKey(f"USING ({column.name})", (found, (right, column.name)), frozenset(limited), optional)


def limited_sources(left: list[Source], right: Source, side: str, kind: str) -> list[Source]:
    """Return the sources whose rows an ON condition limits. A join keeps all rows of the other sources.

    Args:
        left: The sources on the left of the join.
        right: The source on its right.
        side, kind: Of the join, as sqlglot names them, for example LEFT and SEMI; may be empty.
    """
    if kind == "SEMI" or (not side and kind != "ANTI"):
        return [*left, right]
    if kind == "ANTI" or side == "LEFT":
        return [right]
    return left if side == "RIGHT" else []


def spread(keys: Sequence[JoinKey], found: dict[Source, list[Predicate]], rejecting: Collection[Source]) -> None:
    """Add to each source the predicates that join keys imply for it from the predicates on other sources.

    Each predicate passes each key at most once.

    Args:
        keys: The join keys, of which the first MAX_KEYS are used.
        found: The predicates on each source, to which others are added.
        rejecting: As in `Clauses`.
    """
    across: dict[tuple[Source, str], list[tuple[Source, str]]] = {}
    for key in keys[:MAX_KEYS]:
        for one, left, other, right in key.directions(rejecting):
            across.setdefault((one, left), []).append((other, right))
    known = {(one, predicate) for one, predicates in found.items() for predicate in predicates}
    new = [(one, predicate) for one, predicates in found.items() for predicate in predicates] if across else []
    while new:
        one, predicate = new.pop()
        names = columns(predicate)
        if len(names) != 1:
            continue
        (left,) = names
        for other, right in across.get((one, left), []):
            own = renamed(predicate, {left: right})
            if (other, own) not in known:
                known.add((other, own))
                found.setdefault(other, []).append(own)
                new.append((other, own))


def filters(
    keys: Sequence[JoinKey], found: Found, rejecting: Collection[Source]
) -> Iterator[tuple[JoinKey, Source, str]]:
    """Yield each join key through which conditions on one source limit another only at run time.

    Yields:
        The key, the limited source, and the conditions on the other one as SQL.
    """
    for key in keys[:MAX_KEYS]:
        for one, left, other, _ in key.directions(rejecting):
            kept = [to_sql(p) for p in found.get(one, [])[:MAX_CONDITIONS_SHOWN] if columns(p) != {left}]
            if one.query is not None and one.query.find(exp.Where):
                kept.append(f"the conditions of {'.'.join(one.aliases[0]) or 'a subquery'}")
            if kept:
                yield key, other, " AND ".join(kept)
