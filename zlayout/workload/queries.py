"""Find the scans of a parsed query, and push its conditions down to the tables as an optimizer does: `Reader`.

A condition is kept only if it must be true for every row that the query needs from a table, so that a prediction never
skips a file that an engine would open. From an OR over several tables, each table gets what all branches imply for it
(as in query 19 of TPC-H). A condition above an outer join is pushed down only if it is not true for nulls.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from sqlglot import exp
from sqlglot.optimizer.simplify import simplify

from zlayout.predicate.model import (
    InKeys,
    Keys,
    Like,
    NeedsRows,
    Not,
    Or,
    Predicate,
    Reason,
    columns,
    conjunction,
    rejects_null,
    renamed,
    without,
)
from zlayout.predicate.parse import to_sql
from zlayout.predicate.rules import NEGATABLE, UnusableError, condition, like
from zlayout.predicate.sql_tree import column_parts, is_column, operands
from zlayout.text import dotted, path_of
from zlayout.workload.model import MAX_TEXT, Inverted, Query, Scan, UnreadableError, Unused

# The sources of a SELECT (tables, derived tables, CTEs), and the source that a column belongs to.


OPTIONAL_SIDES = ("LEFT", "FULL")  # the sides of joins that may leave the item on their right without a row
FURTHER = "*"  # stands for further columns of a source, of which only some are known
Ctes = Mapping[str, "Source"]


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """One item of FROM or JOIN, or a common table expression. Two sources are equal only if they are the same object.

    Attributes:
        aliases: The names that may qualify its columns, each as a tuple of parts in lower case.
        table: The dotted name or the storage location of a table; empty for other items.
        columns: The names of its columns in lower case, with FURTHER if it may have others; None if they are unknown.
        query: The query of a derived table or CTE; None for other items.
        visible: The CTEs that the query can refer to.
        renamed: Whether its columns are others than those of the table or query, as after `AS t(a, b)` and PIVOT.
        changed: Whether the rows of a table are not its present rows, because of time travel or PIVOT.
    """

    aliases: tuple[tuple[str, ...], ...]
    table: str
    columns: frozenset[str] | None
    query: exp.Query | None = None
    visible: Ctes | None = None
    renamed: bool = False
    changed: bool = False


class Sources(list[Source]):
    """The sources of a SELECT in order.

    Attributes:
        merged: For each column of a USING, in lower case, the source whose column an unqualified name means. None if it
            is neither of the two, as after a FULL JOIN.
        visible: The CTEs that subqueries in the conditions can refer to.
    """

    def __init__(
        self,
        sources: Iterable[Source] = (),
        merged: Mapping[str, Source | None] | None = None,
        visible: Ctes | None = None,
    ) -> None:
        super().__init__(sources)
        self.merged: dict[str, Source | None] = dict(merged or {})
        self.visible: Ctes = visible or {}


def source_of(node: exp.Expr, ctes: Ctes, known: Mapping[str, Sequence[str]]) -> Source:
    """Return the source that an item of FROM or JOIN is.

    Args:
        node: The item.
        ctes: The CTEs that it can refer to, by name in lower case.
        known: The column names of tables, by table name in lower case.
    """
    alias = node.alias.lower()
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
        parts = tuple(part.name.lower() for part in node.parts)
        if len(parts) == 2 and parts[0] == "delta" and "/" in parts[1]:  # delta.`s3://bucket/table`
            return Source(((alias,),) if alias else (parts,), node.name, None)
        cte = ctes.get(parts[0]) if len(parts) == 1 else None
        if cte:
            own = own_columns(node)
            aliases = ((alias or parts[0],),)
            renamed = cte.renamed or bool(own) or bool(node.args.get("pivots"))
            return replace(cte, aliases=aliases, columns=own or cte.columns, renamed=renamed)
        names = ((alias,),) if alias else tuple(parts[i:] for i in range(len(parts)))
        columns = known.get(".".join(parts), known.get(parts[-1]))
        at_version = any(child.find(exp.Parameter) for child in node.iter_expressions())  # t@v3
        clauses = ("version", "when", "changes")
        renamed = bool(own_columns(node) or node.args.get("pivots"))
        changed = at_version or any(node.args.get(name) for name in clauses) or renamed
        known_columns = None if columns is None else frozenset(c.lower() for c in columns)
        return Source(names, ".".join(parts), known_columns, renamed=renamed, changed=changed)
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query):
        return query_source(node, ctes)
    return Source(((alias,),), "", None)


def query_source(node: exp.Expr, ctes: Ctes) -> Source:
    """Return the source that a derived table or CTE is. ctes: those that its query can refer to."""
    own = own_columns(node)
    renamed = bool(own or node.args.get("pivots"))
    return Source(((node.alias.lower(),),), "", own or outputs(node.this), node.this, ctes, renamed)


def own_columns(node: exp.Expr) -> frozenset[str]:
    """Return the columns that an alias names, in lower case: a and b for `AS t(a, b)`."""
    return frozenset(name.lower() for name in node.alias_column_names)


def view_source(lateral: exp.Expr) -> Source:
    """Return the source that a LATERAL VIEW is. Its columns belong to no table."""
    alias = lateral.args.get("alias")
    names = frozenset(c.name.lower() for c in alias.columns) if isinstance(alias, exp.TableAlias) else frozenset()
    return Source(((lateral.alias.lower(),),), "", names or None)


def outputs(query: exp.Query) -> frozenset[str] | None:
    """Return the output columns of a query in lower case; None if a star makes them unknown."""
    names = frozenset(name.lower() for name in query.named_selects)
    return None if "*" in names or not names else names


def owner(parts: Sequence[str], sources: Sequence[Source]) -> tuple[Source, str] | None:
    """Return the source that a column belongs to, and the name of the column in it.

    Args:
        parts: The parts of the name as written.
        sources: The sources of the SELECT.

    Returns:
        None if the source is unknown or ambiguous.
    """
    lower = tuple(p.lower() for p in parts)
    for source in sources:
        for alias in source.aliases:
            if len(lower) > len(alias) and lower[: len(alias)] == alias:
                return source, dotted(parts[len(alias) :])
    if isinstance(sources, Sources) and lower[0] in sources.merged:
        meant = sources.merged[lower[0]]
        return None if meant is None else (meant, dotted(parts))
    certain = [s for s in sources if s.columns is not None and lower[0] in s.columns]
    possible = certain or [s for s in sources if s.columns is None or FURTHER in s.columns]
    return (possible[0], dotted(parts)) if len(possible) == 1 else None


def is_outside(parts: Sequence[str], sources: Sequence[Source]) -> bool:
    """Return whether a column belongs to none of the sources of a subquery, so that it is one of an enclosing query."""
    lower = tuple(p.lower() for p in parts)
    for source in sources:
        if source.columns is None or FURTHER in source.columns or lower[0] in source.columns:
            return False
        if any(len(lower) > len(alias) and lower[: len(alias)] == alias for alias in source.aliases):
            return False
    return True


def dotted_name(node: exp.Expr) -> list[str]:
    """Return the parts of the name of a column such as `t.a.b`."""
    return [part.name for part in column_parts(node)]


def from_items(first: exp.Expr | None, joins: Sequence[exp.Join]) -> Iterator[tuple[exp.Expr, exp.Join | None, bool]]:
    """Yield the items of FROM and JOIN in order, also those inside brackets: `(a JOIN b)`.

    Args:
        first: The item of FROM; None without FROM.
        joins: The joins.

    Yields:
        The item; its join, None for the first item; and whether the item may have no row, because of its own outer join
        or of one around the brackets.
    """
    pairs = [] if first is None else [(first, None)]
    for item, join in [*pairs, *((j.this, j) for j in joins)]:
        optional = join is not None and join.side in OPTIONAL_SIDES
        if isinstance(item, exp.Subquery) and isinstance(item.this, exp.Table):
            yield item.this, join, optional
            nested = [*(item.this.args.get("joins") or []), *(item.args.get("joins") or [])]
        else:
            yield item, join, optional
            nested = item.args.get("joins") or []
        yield from ((j.this, j, optional or j.side in OPTIONAL_SIDES) for j in nested)


def with_ctes(node: exp.Query, ctes: Ctes) -> Ctes:
    """Return the CTEs that a query can refer to. ctes: those of the enclosing queries."""
    clause = node.args.get("with_") or node.args.get("with")
    seen = dict(ctes)
    for cte in clause.expressions if clause else []:
        if isinstance(cte.this, exp.Query):
            seen[cte.alias.lower()] = query_source(cte, dict(seen))
    return seen


def is_star(column: exp.Expr) -> bool:
    """Return whether an output column is `*` or `t.*`. `count(*)` is neither."""
    return isinstance(column, exp.Star) or (isinstance(column, exp.Column) and isinstance(column.this, exp.Star))


def passes(column: exp.Expr, name: str) -> bool:
    """Return whether an output column is `*` or `t.*` that has a column of this name unchanged."""
    star = column.this if isinstance(column, exp.Column) else column
    if not isinstance(star, exp.Star) or star.args.get("replace") or star.args.get("rename"):
        return False
    return name.lower() not in {left_out.name.lower() for left_out in star.args.get("except_") or []}


def has_subtotals(node: exp.Select) -> bool:
    """Return whether ROLLUP, CUBE or GROUPING SETS add rows in which grouping columns are null."""
    group = node.args.get("group")
    return group is not None and group.find(exp.Rollup, exp.Cube, exp.GroupingSets) is not None


def own_nodes(node: exp.Select, kind: type[exp.Expr]) -> Iterator[exp.Expr]:
    """Yield the nodes of one type in the output columns of a SELECT."""
    return (found for e in node.selects for found in e.find_all(kind))


def subqueries(node: exp.Select) -> Iterator[exp.Query]:
    """Yield the outermost subqueries in expressions. Those in FROM and WITH are sources."""
    skipped = {"from", "from_", "with", "with_"}
    stack: list[exp.Expr] = []
    for key, value in node.args.items():
        if key == "joins":
            stack += [j.args["on"] for j in value if j.args.get("on")]
        elif key not in skipped:
            stack += [v for v in (value if isinstance(value, list) else [value]) if isinstance(v, exp.Expr)]
    while stack:
        at = stack.pop()
        if isinstance(at, exp.Query):
            yield at
        else:
            stack += list(at.iter_expressions())


def tables_of(sources: Iterable[Source]) -> frozenset[str] | None:
    """Return the names of the tables of sources; None if one of the sources is a query."""
    sources = tuple(sources)
    return None if any(s.query is not None for s in sources) else frozenset(s.table for s in sources if s.table)


def tables_in(node: exp.Expr, sources: Sequence[Source]) -> frozenset[str] | None:
    """Return the names of the tables of the columns in a condition, without those in its subqueries.

    Returns:
        None if the table of a column is unknown, or if there is no column.
    """
    found = []
    stack = [node]
    while stack:
        at = stack.pop()
        if isinstance(at, exp.Query):
            continue
        if is_column(at):
            found.append(owner(dotted_name(at), sources))
        else:
            stack += list(at.iter_expressions())
    owners = [owned[0] for owned in found if owned is not None]
    return tables_of(owners) if found and len(owners) == len(found) else None


def is_true(node: exp.Expr) -> bool:
    """Return whether a condition is true for every row because it has no columns, such as `1 = 1`."""
    if node.find(exp.Column, exp.Query, exp.Anonymous):
        return False
    found = simplify(node.copy())
    return isinstance(found, exp.Boolean) and bool(found.this)


def ends_early(node: exp.Select) -> bool:
    """Return whether engines stop reading at the LIMIT of a SELECT, because no other clause needs all rows."""
    needing = ("where", "joins", "group", "having", "qualify", "order", "sort", "distinct", "cluster", "distribute")
    if not node.args.get("limit") or any(node.args.get(name) for name in needing):
        return False
    return not any(own_nodes(node, exp.AggFunc)) and not any(own_nodes(node, exp.Window))


# Join keys: what a condition on one table implies for another table that is joined to it.
#
# `a.x = b.x AND b.x = 5` implies `a.x = 5`. `a.x = b.x AND b.y = 5` limits the rows of `a` only at run time: `a.x` is
# then one of the keys of `b` (`InKeys`), which need the rows of `b`.


MAX_KEYS = 200  # of one SELECT; further keys imply nothing
MAX_HOPS = 4  # joins between a table and the one whose conditions limit it
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
        common_keys: The join keys that all operands of an OR contain.
        present: The sources with a join key in WHERE, which also removes the rows of an outer join without a match.
    """

    sources: Sources = field(default_factory=Sources)
    nullable: set[Source] = field(default_factory=set)
    found: dict[Source, list[Predicate]] = field(default_factory=dict)
    rejecting: set[Source] = field(default_factory=set)
    keys: list[JoinKey] = field(default_factory=list)
    common_keys: list[JoinKey] = field(default_factory=list)
    present: set[Source] = field(default_factory=set)


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


def common_join_keys(
    node: exp.Expr, sources: Sequence[Source], limited: Collection[Source], optional: Source | None
) -> list[JoinKey]:
    """Return the join keys that each operand of an OR contains. The arguments are those of `join_key`."""
    branches = []
    for branch in operands(node, exp.Or):
        keys = (join_key(part, sources, limited, optional) for part in operands(branch, exp.And))
        branches.append({frozenset(key.sides): key for key in keys if key})
    return [key for sides, key in branches[0].items() if all(sides in branch for branch in branches)]


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
            yield JoinKey(
                f"USING ({column.name})", (found, (right, dotted([column.name]))), frozenset(limited), optional
            )


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
        if len(names) != 1 or without(Like, predicate) is not predicate:
            continue  # engines that ignore spaces in the equality do not ignore them in LIKE
        (left,) = names
        for other, right in across.get((one, left), []):
            own = renamed(predicate, {left: right})
            if (other, own) not in known:
                known.add((other, own))
                found.setdefault(other, []).append(own)
                new.append((other, own))


Limiting = Mapping[Source, Sequence[tuple[str, Source, str]]]


def limiting_keys(keys: Sequence[JoinKey], rejecting: Collection[Source]) -> Limiting:
    """Return for each source its columns that contain only values of a column of another source.

    `a.x = b.x AND b.x = c.x` limits `a.x` to the values of `b.x` and to those of `c.x`.

    Args:
        keys: The join keys, of which the first MAX_KEYS are used.
        rejecting: As in `Clauses`.

    Returns:
        The column of the source, the other source, and its column. Those of the nearest sources come first.
    """
    back: dict[tuple[Source, str], list[tuple[Source, str]]] = {}
    for key in keys[:MAX_KEYS]:
        for one, left, other, right in key.directions(rejecting):
            back.setdefault((other, right), []).append((one, left))
    found: dict[Source, list[tuple[str, Source, str]]] = {}
    for source, column in back:
        reached, new = {(source, column)}, [(source, column)]
        while new:
            for at in back.get(new.pop(0), []):
                if at not in reached:
                    reached.add(at)
                    new.append(at)
                    if at[0] is not source:
                        found.setdefault(source, []).append((column, *at))
    return found


def output_column(node: exp.Select, sources: Sequence[Source], name: str) -> tuple[Source, str] | None:
    """Return the source and the column that an output column is, without a change of its values.

    name: In lower case.

    Returns:
        None if it is another expression, or if it is unknown.
    """
    stars = [e for e in node.selects if is_star(e)]
    named = [e for e in node.selects if not is_star(e) and e.unnest().alias_or_name.lower() == name]
    if not named and len(stars) == len(sources) == 1:
        return (sources[0], dotted([name])) if passes(stars[0], name) else None
    at = named[0].unalias().unnest() if len(named) == 1 and not stars else None
    return owner(dotted_name(at), sources) if at is not None and is_column(at) else None


def filters(
    keys: Sequence[JoinKey], found: Found, rejecting: Collection[Source]
) -> Iterator[tuple[JoinKey, Source, str]]:
    """Yield each join key through which conditions on one source limit another only at run time.

    Yields:
        The key, the limited source, and the conditions on the other one as SQL.
    """
    for key in keys[:MAX_KEYS]:
        for one, left, other, _ in key.directions(rejecting):
            plain = [p for p in found.get(one, []) if without(NeedsRows, p) is p]
            kept = [to_sql(p) for p in plain[:MAX_CONDITIONS_SHOWN] if columns(p) != {left}]
            if one.query is not None and one.query.find(exp.Where):
                kept.append(f"the conditions of {'.'.join(one.aliases[0]) or 'a subquery'}")
            if kept:
                yield key, other, " AND ".join(kept)


def correlations(
    where: exp.Expr, inner: Sequence[Source], outer: Sequence[Source]
) -> Iterator[tuple[tuple[Source, str], tuple[Source, str]]]:
    """Yield the columns of each `x = outer.y` in WHERE of a subquery: its own, then that of the enclosing SELECT."""
    for part in operands(where, exp.And):
        left, right = (part.this.unnest(), part.expression.unnest()) if type(part) is exp.EQ else (part, part)
        if not (is_column(left) and is_column(right)):
            continue
        for inside, outside in ((left, right), (right, left)):
            own, name = owner(dotted_name(inside), inner), dotted_name(outside)
            if own is not None and is_outside(name, inner) and (other := owner(name, outer)) is not None:
                yield own, other


# The scans of a query and its subqueries.

MAX_SCANS = 1_000  # of one query. Each of its CTEs may read the previous one twice, which doubles the number of scans.
MAX_KEY_QUERIES = 1_000  # CTEs, derived tables and subqueries of one query that are read for their keys
TOO_MANY = "too many tables"


class Reader:
    """Collects the scans, the unused and the inverted conditions of one query. known: as in `read_query`."""

    def __init__(self, query: Query, known: Mapping[str, Sequence[str]]) -> None:
        self.query = query
        self.known = known
        self.scans: list[Scan] = []
        self.unused: dict[tuple[str, str], Unused] = {}
        self.inverted: list[Inverted] = []
        self.visits = 0
        self.key_queries = 0

    def read(
        self, node: exp.Query, ctes: Ctes, given: Sequence[Predicate] = (), enclosing: Clauses | None = None
    ) -> None:
        """Collect the scans of a query or subquery.

        Args:
            node: Its tree.
            ctes: The CTEs that it can refer to.
            given: The predicates on its output columns that the enclosing query requires.
            enclosing: For a subquery in an expression, the conditions of the enclosing SELECT.

        Raises:
            UnreadableError: The query has more than MAX_SCANS scans.
        """
        self.visits += 1
        if self.visits > MAX_SCANS:
            raise UnreadableError(TOO_MANY)
        ctes = with_ctes(node, ctes)
        if node.args.get("limit") or node.args.get("offset"):
            self._lost(given, Reason.LIMIT)
            given = ()
        if isinstance(node, exp.Subquery):
            if isinstance(node.this, exp.Query):
                self.read(node.this, ctes, given, enclosing)
        elif isinstance(node, exp.SetOperation):
            left, right = node.this.named_selects, node.expression.named_selects
            if node.args.get("by_name"):
                self._lost(given, Reason.COMPUTED)
                given = ()
            self.read(node.this, ctes, given)
            counterparts = {a.lower(): b for a, b in zip(left, right, strict=False)}
            pushed = list(_on_outputs(given, counterparts))
            if len(pushed) < len(given):
                self._lost(given, Reason.COMPUTED)
            self.read(node.expression, ctes, pushed)
        elif isinstance(node, exp.Select):
            self._select(node, ctes, given, enclosing)

    def _select(self, node: exp.Select, ctes: Ctes, given: Sequence[Predicate], enclosing: Clauses | None) -> None:
        clauses = self._clauses(node, ctes, given, enclosing)
        self._join_notes(clauses)
        if ends_early(node):
            self._note(node.args["limit"], Reason.LIMIT, tables_of(clauses.sources))
        for source in clauses.sources:
            self._scan(source, self._required(clauses, source))
        for inner in subqueries(node):
            self.read(inner, ctes, (), clauses)

    def _clauses(
        self, node: exp.Select, ctes: Ctes, given: Sequence[Predicate], enclosing: Clauses | None = None
    ) -> Clauses:
        """Return the conditions of a SELECT, also those that its join keys imply. The arguments are those of `read`."""
        clauses = Clauses(Sources(visible=ctes))
        sources, nullable = clauses.sources, clauses.nullable
        clause = node.args.get("from_") or node.args.get("from")
        for item, join, optional in from_items(clause.this if clause else None, node.args.get("joins") or []):
            source = source_of(item, ctes, self.known)
            before = Sources(sources, sources.merged, ctes)
            side, kind = (join.side, join.kind) if join else ("", "")
            sources.append(source)
            if len(sources) > MAX_SCANS:
                raise UnreadableError(TOO_MANY)
            limited = limited_sources(before, source, side, kind)
            outer = source if side == "LEFT" and kind in ("", "OUTER") else None
            if join and join.args.get("on"):
                self._conditions(join.args["on"], clauses, limited, outer)
            if join and join.args.get("using"):
                clauses.keys += using_keys(join, before, source, limited, outer)
                for column in join.args["using"]:
                    kept = owner([column.name], before)
                    meant = None if kept is None or side == "FULL" else source if side == "RIGHT" else kept[0]
                    sources.merged[column.name.lower()] = meant
            if kind not in ("SEMI", "ANTI"):
                nullable |= {source} if optional else set()
                nullable |= set(before) if side in ("RIGHT", "FULL") else set()
        sources += [view_source(lateral) for lateral in node.args.get("laterals") or []]
        if where := node.args.get("where"):
            self._conditions(where.this, clauses, sources, None, in_where=True)
            if enclosing is not None:
                self._correlated(where.this, clauses, enclosing)
        for clause_name in ("having", "qualify"):
            if late := node.args.get(clause_name):
                computed = late.find(exp.AggFunc, exp.Window) is not None
                self._note(late.this, Reason.AFTER_GROUPING, frozenset() if computed else None)
        if not node.args.get("qualify") and not any(own_nodes(node, exp.Window)):
            self._push_given(node, clauses, given)
        else:
            self._lost(given, Reason.AFTER_GROUPING)
        spread(clauses.keys, clauses.found, clauses.rejecting)
        return clauses

    def _required(self, clauses: Clauses, target: Source) -> list[Predicate]:
        """Return the predicates on a source, with those on the keys of the sources that are joined to it."""
        # Each other source limits the target through the nearest source only.
        limiting = limiting_keys([*clauses.keys, *clauses.common_keys], clauses.rejecting | clauses.present)
        parts: dict[Source, list[tuple[str, Source, str]]] = {}
        order, hops = [target], {target: 0}
        for at in order:
            new = [part for part in limiting.get(at, ()) if part[1] not in hops] if hops[at] < MAX_HOPS else []
            parts[at] = new
            order += dict.fromkeys(other for _, other, _ in new)
            hops |= {other: hops[at] + 1 for _, other, _ in new}
        required: dict[Source, list[Predicate]] = {}
        for at in reversed(order):
            required[at] = list(clauses.found.get(at, ()))
            for column, other, key in parts[at]:
                known = required[other]
                if other.table and all(columns(p) == {key} and without(NeedsRows, p) is p for p in known):
                    continue  # `spread` has renamed these predicates
                if (sets := self._keys_of(other, key, known)) and any(s.predicate is not None for s in sets):
                    required[at].append(InKeys(column, sets))
        return required[target]

    def _correlated(self, where: exp.Expr, clauses: Clauses, enclosing: Clauses) -> None:
        """Add the predicates on the keys of the enclosing SELECT, for `x = outer.y` in WHERE."""
        # Only rows with such a key can change the result of the subquery for a row that the enclosing SELECT needs.
        for (source, column), other in correlations(where, clauses.sources, enclosing.sources):
            sets = self._keys_of(*other, self._required(enclosing, other[0]))
            if sets and any(s.predicate is not None for s in sets):
                clauses.found.setdefault(source, []).append(InKeys(column, sets))

    def _keys_of(self, source: Source, column: str, required: Sequence[Predicate]) -> tuple[Keys, ...] | None:
        """Return the sets of the values that a column of a source may have; None if they are unknown."""
        if source.changed:
            return None
        if source.table:
            return (Keys(source.table, column, conjunction(required)),)
        name, *nested = path_of(column)
        if source.query is None or source.renamed or nested:
            return None
        return self._keys(source.query, source.visible or {}, name.lower(), required)

    def _keys(self, node: exp.Expr, ctes: Ctes, name: str, given: Sequence[Predicate]) -> tuple[Keys, ...] | None:
        """Return the sets of values that an output column (name in lower case) may have; None if they are unknown."""
        self.key_queries += 1
        if self.key_queries > MAX_KEY_QUERIES or not isinstance(node, exp.Query):
            return None
        ctes = with_ctes(node, ctes)
        if node.args.get("limit") or node.args.get("offset"):
            given = ()
        if isinstance(node, exp.Subquery):
            return self._keys(node.this, ctes, name, given)
        if isinstance(node, exp.SetOperation):
            return self._keys_of_operation(node, ctes, name, given)
        if not isinstance(node, exp.Select):
            return None
        with self._without_notes():
            clauses = self._clauses(node, ctes, given)
            owned = output_column(node, clauses.sources, name)
            return None if owned is None else self._keys_of(*owned, self._required(clauses, owned[0]))

    @contextmanager
    def _without_notes(self) -> Iterator[None]:
        """Note no condition of a query that is read for its keys, because `read` notes those of each query."""
        notes = self.unused, self.inverted
        self.unused, self.inverted = {}, []
        try:
            yield
        finally:
            self.unused, self.inverted = notes

    def _keys_of_operation(
        self, node: exp.SetOperation, ctes: Ctes, name: str, given: Sequence[Predicate]
    ) -> tuple[Keys, ...] | None:
        left, right = ([n.lower() for n in side.named_selects] for side in (node.this, node.expression))
        if node.args.get("by_name") or "*" in (*left, *right) or len(left) != len(right) or left.count(name) != 1:
            return None
        found = self._keys(node.this, ctes, name, given)
        if found is None or not isinstance(node, exp.Union):
            return found
        counterpart = right[left.index(name)]
        pushed = list(_on_outputs(given, dict(zip(left, right, strict=True))))
        others = self._keys(node.expression, ctes, counterpart, pushed) if right.count(counterpart) == 1 else None
        return None if others is None else found + others

    def _in_query(self, node: exp.Expr, sources: Sources) -> tuple[Source, InKeys] | None:
        """Return the source and the predicate of `column IN (SELECT ...)` or `column = (SELECT ...)`."""
        subject, query = node.this, node.args.get("query")
        if type(node) is exp.EQ:
            subject, query = node.this.unnest(), node.expression
            if isinstance(node.this, exp.Subquery):
                subject, query = node.expression.unnest(), node.this
        if not isinstance(query, exp.Query) or not is_column(subject) or len(query.selects) != 1:
            return None
        owned = owner(dotted_name(subject), sources)
        sets = (
            self._keys(query, sources.visible, query.selects[0].unnest().alias_or_name.lower(), ()) if owned else None
        )
        if owned is None or sets is None or all(s.predicate is None for s in sets):
            return None
        return owned[0], InKeys(owned[1], sets, shortened(node.sql("spark")), type(node) is exp.EQ)

    def _exists(self, node: exp.Exists, sources: Sources) -> dict[Source, Predicate]:
        """Return the predicates that `EXISTS (SELECT ... WHERE x = outer.y)` implies for the sources of `outer.y`."""
        query = node.this
        where = query.args.get("where") if type(query) is exp.Select else None
        # A SELECT of an aggregate alone, or of a total, has a row even if no row matches.
        if where is None or query.args.get("group") or query.args.get("having"):
            return {}
        if any(own_nodes(query, exp.AggFunc)) or any(own_nodes(query, exp.Anonymous)):
            return {}
        self.key_queries += 1
        if self.key_queries > MAX_KEY_QUERIES:
            return {}
        found: dict[Source, list[Predicate]] = {}
        with self._without_notes():
            clauses = self._clauses(query, with_ctes(query, sources.visible or {}), ())
            for own, (source, column) in correlations(where.this, clauses.sources, sources):
                sets = self._keys_of(*own, self._required(clauses, own[0]))
                if sets and any(s.predicate is not None for s in sets):
                    found.setdefault(source, []).append(InKeys(column, sets, shortened(node.sql("spark"))))
        return {source: p for source, predicates in found.items() if (p := conjunction(predicates)) is not None}

    def _join_notes(self, clauses: Clauses) -> None:
        noted = set()
        for key, source, text in filters(clauses.keys, clauses.found, clauses.rejecting):
            noted.add(key)
            self._add(f"{key.text}, with {text}", Reason.JOIN_FILTER, tables_of([source]))
        for key in clauses.keys:
            if key not in noted:
                self._add(key.text, Reason.TWO_COLUMNS, frozenset())

    def _scan(self, source: Source, predicates: list[Predicate]) -> None:
        if source.renamed:
            self._lost(predicates, Reason.COMPUTED)
            predicates = []
        if source.query is not None:
            self.read(source.query, source.visible or {}, predicates)
        elif source.table:
            if len(self.scans) >= MAX_SCANS:
                raise UnreadableError(TOO_MANY)
            plain = [p for p in predicates if without(NeedsRows, p) is p]
            on_keys = [p for p in (without(Like, p) for p in predicates) if p is not None]
            through = tuple(p for p in on_keys if without(InKeys, p) is not p)
            self.scans.append(Scan(self.query, source.table, conjunction(plain), through))
        else:
            self._lost(predicates, Reason.TABLE_FUNCTION, frozenset())

    def _push_given(self, node: exp.Select, clauses: Clauses, given: Iterable[Predicate]) -> None:
        """Push down the predicates on output columns that are columns of a source, also through `SELECT *`."""
        sources = clauses.sources
        inner = {e.alias_or_name.lower(): e.unalias() for e in node.selects if not is_star(e)}
        for predicate in given:
            owners = {}
            reason = Reason.COMPUTED
            for name in columns(predicate):
                first, *rest = path_of(name)
                at = inner.get(first.lower())
                if at is None and any(passes(star, first) for star in node.selects) and len(sources) == 1:
                    owners[name] = (sources[0], name)
                elif isinstance(at, exp.Column | exp.Dot) and (owned := owner([*dotted_name(at), *rest], sources)):
                    owners[name] = owned
                elif at is not None and at.find(exp.AggFunc):
                    reason = Reason.AFTER_GROUPING
            whose = {source for source, _ in owners.values()}
            if len(whose) == 1 and len(owners) == len(columns(predicate)):
                source = whose.pop()
                if (source not in clauses.nullable and not has_subtotals(node)) or rejects_null(predicate):
                    own = renamed(predicate, {name: column for name, (_, column) in owners.items()})
                    clauses.found.setdefault(source, []).append(own)
                    continue
                reason = Reason.OUTER_JOIN
            self._lost([predicate], reason, frozenset() if reason is Reason.AFTER_GROUPING else None)

    def _conditions(
        self,
        node: exp.Expr,
        clauses: Clauses,
        limited: list[Source],
        optional: Source | None,
        *,
        in_where: bool = False,
    ) -> None:
        """Add the join keys and the predicates of ON or WHERE to the clauses. limited, optional: as in `JoinKey`."""
        for part in operands(node, exp.And):
            if key := join_key(part, clauses.sources, limited, optional):
                clauses.keys.append(key)
                if in_where:
                    clauses.present |= {source for source, _ in key.sides}
                continue
            if is_true(part):
                continue
            if isinstance(part, exp.Or):
                clauses.common_keys += common_join_keys(part, clauses.sources, limited, optional)
            owners: set[Source | None] = set()
            implied = self._implied(part, clauses.sources, owners)
            for source in clauses.sources:
                if source not in owners:
                    continue
                predicate = implied.get(source) if source in limited else None
                if predicate is not None and (source not in clauses.nullable or rejects_null(predicate)):
                    plain = without(NeedsRows, predicate)
                    both = [predicate] if plain is None or plain is predicate else [plain, predicate]
                    clauses.found.setdefault(source, []).extend(both)
                    if in_where and plain is not None and rejects_null(plain):
                        clauses.rejecting.add(source)
                elif None not in owners:
                    reason = Reason.SEVERAL_TABLES if len(owners) > 1 else Reason.OUTER_JOIN
                    self._note(part, reason, tables_of([source]))

    def _implied(
        self, node: exp.Expr, sources: Sources, owners: set[Source | None], *, negated: bool = False
    ) -> dict[Source, Predicate]:
        """Return the predicate on each source that a condition, or its negation, implies. Uses De Morgan's laws."""
        # `owners` gets the sources of all comparisons, and None if one is noted as unused.
        node = node.unnest()
        if isinstance(node, exp.And | exp.Or):
            parts = [self._implied(p, sources, owners, negated=negated) for p in operands(node, type(node))]
            named = {source for part in parts for source in part}
            if isinstance(node, exp.And) != negated:
                return {s: p for s in named if (p := conjunction(part[s] for part in parts if s in part))}
            return {s: Or(tuple(part[s] for part in parts)) for s in named if all(s in part for part in parts)}
        if not negated and (keys := self._in_query(node, sources)):
            self._note(node, Reason.SUBQUERY, tables_in(node, sources))
            owners |= {None, keys[0]}
            return dict([keys])
        if not negated and isinstance(node, exp.Exists) and (limited := self._exists(node, sources)):
            self._note(node, Reason.SUBQUERY, tables_of(limited))
            owners |= {None, *limited}
            return limited
        try:
            if isinstance(node, exp.Not):
                inner = node.this.unnest()
                if isinstance(inner, (*NEGATABLE, exp.And, exp.Or, exp.Not)):
                    return self._implied(inner, sources, owners, negated=not negated)
                condition(inner, lambda _column: "")  # raises the error of what is negated
                raise UnusableError(Reason.NEGATED)
            found: list[Source] = []
            converted = condition(node, lambda column: _named(column, sources, found))
            if negated and not converted.exact:
                raise UnusableError(Reason.NEGATED)
        except UnusableError as error:
            self._note(node, error.reason, tables_in(node, sources))
            owners.add(None)
            return self._like(node, sources, owners, negated=negated)
        source, predicate = found[0], converted.predicate
        owners.add(source)
        if converted.inverted:
            self.inverted.append(Inverted(self.query, shortened(node.sql("spark")), to_sql(predicate), source.table))
        return {source: Not(predicate) if negated else predicate}

    def _like(
        self, node: exp.Expr, sources: Sources, owners: set[Source | None], *, negated: bool
    ) -> dict[Source, Predicate]:
        """Return the condition on a source that needs its rows. The arguments are those of `_implied`."""
        found: list[Source] = []
        try:
            predicate = like(node, lambda column: _named(column, sources, found), negated=negated)
        except UnusableError:
            return {}
        owners |= set(found)
        return {} if predicate is None else {found[0]: predicate}

    def _lost(self, given: Iterable[Predicate], reason: Reason, tables: frozenset[str] | None = None) -> None:
        """Note conditions on the result of a query that cannot be pushed down to its tables."""
        for predicate in given:
            if without(NeedsRows, predicate) is predicate:
                self._add(to_sql(predicate), reason, tables)

    def _note(self, node: exp.Expr, reason: Reason, tables: frozenset[str] | None) -> None:
        self._add(node.sql("spark"), reason, tables)

    def _add(self, text: str, reason: Reason, tables: frozenset[str] | None) -> None:
        text = shortened(text)
        known = self.unused.get((text, reason))
        if known is not None:
            tables = None if tables is None or known.tables is None else tables | known.tables
        self.unused[text, reason] = Unused(self.query, text, reason, tables)


def shortened(text: str) -> str:
    """Return the text, shortened to MAX_TEXT characters."""
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 3] + "..."


def _named(column: exp.Expr, sources: Sequence[Source], found: list[Source]) -> str:
    """Return the name of a column in its source, which is added to `found`. Raises UnusableError."""
    owned = owner(dotted_name(column), sources)
    if owned is None:
        raise UnusableError(Reason.NO_OWNER)
    found.append(owned[0])
    return owned[1]


def _on_outputs(given: Iterable[Predicate], names: Mapping[str, str]) -> Iterator[Predicate]:
    for predicate in given:
        new = {c: names.get(c.lower(), "") for c in columns(predicate)}
        if "*" not in new.values() and all(new.values()):
            yield renamed(predicate, new)
