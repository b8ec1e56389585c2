"""Find the sources of a SELECT (tables, derived tables, CTEs), and the source that a column belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.optimizer.simplify import simplify

from zlayout.predicate.sql_tree import column_parts, is_column

OPTIONAL_SIDES = ("LEFT", "FULL")  # the sides of joins that may leave the item on their right without a row
Ctes = Mapping[str, "Cte"]


@dataclass(frozen=True, slots=True)
class Cte:
    """A common table expression.

    Attributes:
        query: Its query.
        visible: The CTEs that its query can refer to.
        columns: a and b of `WITH t(a, b)`, in lower case; empty without such a list.
    """

    query: exp.Query
    visible: Ctes
    columns: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """One item of FROM or JOIN. Two sources are equal only if they are the same object.

    Attributes:
        aliases: The names that may qualify its columns, each as a tuple of parts in lower case.
        table: The dotted name or the storage location of a table; empty for other items.
        columns: The names of its columns in lower case; None if they are unknown.
        query: The query of a derived table or CTE; None for other items.
        visible: The CTEs that the query can refer to.
        renamed: Whether the columns of the query are renamed, as in `AS t(a, b)`.
    """

    aliases: tuple[tuple[str, ...], ...]
    table: str
    columns: frozenset[str] | None
    query: exp.Query | None = None
    visible: Ctes | None = None
    renamed: bool = False


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
            own = own_columns(node) or cte.columns
            return Source(((alias or parts[0],),), "", own or outputs(cte.query), cte.query, cte.visible, bool(own))
        names = ((alias,),) if alias else tuple(parts[i:] for i in range(len(parts)))
        columns = known.get(".".join(parts), known.get(parts[-1]))
        return Source(names, ".".join(parts), None if columns is None else frozenset(c.lower() for c in columns))
    if isinstance(node, exp.Subquery) and isinstance(node.this, exp.Query):
        query, own = node.this, own_columns(node)
        return Source(((alias,),), "", own or outputs(query), query, ctes, bool(own))
    return Source(((alias,),), "", None)


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
                return source, ".".join(parts[len(alias) :])
    certain = [s for s in sources if s.columns is not None and lower[0] in s.columns]
    possible = certain or [s for s in sources if s.columns is None]
    return (possible[0], ".".join(parts)) if len(possible) == 1 else None


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
            seen[cte.alias.lower()] = Cte(cte.this, dict(seen), own_columns(cte))
    return seen


def is_star(column: exp.Expr) -> bool:
    """Return whether an output column is `*` or `t.*`. `count(*)` is neither."""
    return isinstance(column, exp.Star) or (isinstance(column, exp.Column) and isinstance(column.this, exp.Star))


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
