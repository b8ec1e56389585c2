"""What a SELECT reads from: tables, derived tables and CTEs by alias, and whose a column is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp

Ctes = Mapping[str, "Cte"]


@dataclass(frozen=True, slots=True)
class Cte:
    """columns: in lower case, those that `WITH t(a, b)` names; empty where it names none."""

    query: exp.Query
    visible: Ctes
    columns: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """aliases: the names, each as parts, that may stand before a column. columns: in lower case, None if not known.

    table is empty for a derived table, which has its query instead, and for what is neither (VALUES, a function).
    renamed: its columns are not those of its query, as in `AS t(a, b)`.
    """

    aliases: tuple[tuple[str, ...], ...]
    table: str
    columns: frozenset[str] | None
    query: exp.Query | None = None
    visible: Ctes | None = None
    renamed: bool = False


def source(node: exp.Expr, ctes: Ctes, known: Mapping[str, Sequence[str]]) -> Source:
    """The source that an item of FROM or JOIN is."""
    alias = node.alias.lower()
    if isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier):
        parts = tuple(part.name.lower() for part in node.parts)
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
    """The columns that an alias names, in lower case: of `AS t(a, b)` a and b."""
    return frozenset(name.lower() for name in node.alias_column_names)


def generated(lateral: exp.Expr) -> Source:
    """The columns of a LATERAL VIEW, which are no table's."""
    alias = lateral.args.get("alias")
    names = frozenset(c.name.lower() for c in alias.columns) if isinstance(alias, exp.TableAlias) else frozenset()
    return Source(((lateral.alias.lower(),),), "", names or None)


def outputs(query: exp.Query) -> frozenset[str] | None:
    """The columns that a query gives, in lower case; None where a star hides them."""
    names = frozenset(name.lower() for name in query.named_selects)
    return None if "*" in names or not names else names


def owner(parts: Sequence[str], sources: Sequence[Source]) -> tuple[Source, str] | None:
    """Whose column this is and its dotted name there; None if no source has it, or more than one may."""
    lower = tuple(p.lower() for p in parts)
    for one in sources:
        for alias in one.aliases:
            if len(lower) > len(alias) and lower[: len(alias)] == alias:
                return one, ".".join(parts[len(alias) :])
    sure = [s for s in sources if s.columns is not None and lower[0] in s.columns]
    possible = sure or [s for s in sources if s.columns is None]
    return (possible[0], ".".join(parts)) if len(possible) == 1 else None


def column_parts(node: exp.Expr) -> list[str]:
    """The names in `t.a.b`, however deep."""
    tail: list[str] = []
    while isinstance(node, exp.Dot):
        tail.append(node.expression.name)
        node = node.this
    return [part.name for part in node.parts] + tail[::-1] if isinstance(node, exp.Column) else tail[::-1]
