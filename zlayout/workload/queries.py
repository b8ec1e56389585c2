"""Find the scans of a parsed query: its conditions are pushed down to the tables, as an optimizer does.

A condition is kept only if it must hold for every row that the query needs from a table, so that a prediction never
skips a file that an engine would open. Of an OR over several tables each table keeps what all branches imply (TPC-H
19). A condition above an outer join is pushed down only if nulls cannot satisfy it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sqlglot import exp

from zlayout.predicate.conditions import Reason, UnusableError, condition
from zlayout.predicate.model import Not, Or, Predicate, columns, conjunction, rejects_null, renamed
from zlayout.predicate.sql_tree import operands
from zlayout.workload.model import MAX_TEXT, Query, Scan, Unused
from zlayout.workload.sources import (
    Ctes,
    Source,
    dotted_name,
    from_items,
    has_subtotals,
    is_star,
    own_nodes,
    owner,
    source,
    subqueries,
    view_source,
    with_ctes,
)

MAX_SCANS = 1_000
# Nodes whose predicate is equivalent to their condition, so that the negations are equivalent too.
NEGATABLE = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In, exp.Is)
Leaves = dict[int, tuple[Source, Predicate]]  # owner and predicate of each comparison, by id() of its node


class TooManyScansError(Exception):
    """A query has more than MAX_SCANS scans, for example because each of its CTEs reads the previous one twice."""


class Reader:
    """Collects the scans and unused conditions of one query."""

    def __init__(self, query: Query, known: Mapping[str, Sequence[str]]) -> None:
        self.query = query
        self.known = known
        self.scans: list[Scan] = []
        self.unused: dict[tuple[str, str], Unused] = {}
        self.visits = 0

    def read(self, node: exp.Query, ctes: Ctes, given: Sequence[Predicate] = ()) -> None:
        """Record the scans of a query.

        Args:
            node: the query.
            ctes: the CTEs that it can refer to.
            given: predicates on its output columns that the enclosing query requires.
        """
        self.visits += 1
        if self.visits > MAX_SCANS:
            raise TooManyScansError
        ctes = with_ctes(node, ctes)
        if node.args.get("limit") or node.args.get("offset"):
            given = ()
        if isinstance(node, exp.Subquery):
            if isinstance(node.this, exp.Query):
                self.read(node.this, ctes, given)
        elif isinstance(node, exp.SetOperation):
            left, right = node.this.named_selects, node.expression.named_selects
            self.read(node.this, ctes, given)
            counterparts = {a.lower(): b for a, b in zip(left, right, strict=False)}
            self.read(node.expression, ctes, list(_on_outputs(given, counterparts)))
        elif isinstance(node, exp.Select):
            self._select(node, ctes, given)

    def _select(self, node: exp.Select, ctes: Ctes, given: Sequence[Predicate]) -> None:
        sources: list[Source] = []
        nullable: set[Source] = set()
        found: dict[Source, list[Predicate]] = {}
        clause = node.args.get("from_") or node.args.get("from")
        for item, join, optional in from_items(clause.this if clause else None, node.args.get("joins") or []):
            one = source(item, ctes, self.known)
            before, side, kind = list(sources), join.side if join else "", join.kind if join else ""
            sources.append(one)
            if len(sources) > MAX_SCANS:
                raise TooManyScansError
            if join and join.args.get("on"):
                limited = _limited(before, one, side, kind)
                self._conditions(join.args["on"], sources, limited, nullable, found)
            if kind not in ("SEMI", "ANTI"):
                nullable |= {one} if optional else set()
                nullable |= set(before) if side in ("RIGHT", "FULL") else set()
        sources += [view_source(lateral) for lateral in node.args.get("laterals") or []]
        if where := node.args.get("where"):
            self._conditions(where.this, sources, sources, nullable, found)
        for clause_name in ("having", "qualify"):
            if late := node.args.get(clause_name):
                self._note(late.this, Reason.AFTER_GROUPING)
        if not node.args.get("qualify") and not any(own_nodes(node, exp.Window)):
            self._push_given(node, sources, nullable, given, found)
        for one in sources:
            self._scan(one, found.get(one, []))
        for inner in subqueries(node):
            self.read(inner, ctes)

    def _scan(self, one: Source, predicates: list[Predicate]) -> None:
        if one.query is not None:
            self.read(one.query, one.visible or {}, [] if one.renamed else predicates)
        elif one.table:
            if len(self.scans) >= MAX_SCANS:
                raise TooManyScansError
            self.scans.append(Scan(self.query, one.table, conjunction(predicates)))

    def _push_given(
        self,
        node: exp.Select,
        sources: list[Source],
        nullable: set[Source],
        given: Iterable[Predicate],
        found: dict[Source, list[Predicate]],
    ) -> None:
        """Push down the predicates on output columns that are columns of a source, also through `SELECT *`."""
        inner = {e.alias_or_name.lower(): e.unalias() for e in node.selects if not is_star(e)}
        for predicate in given:
            owners = {}
            for name in columns(predicate):
                first, *rest = name.split(".")
                at = inner.get(first.lower())
                if at is None and any(map(is_star, node.selects)) and len(sources) == 1:
                    owners[name] = (sources[0], name)
                elif isinstance(at, exp.Column | exp.Dot) and (mine := owner([*dotted_name(at), *rest], sources)):
                    owners[name] = mine
            whose = {one for one, _ in owners.values()}
            if len(whose) == 1 and len(owners) == len(columns(predicate)):
                one = whose.pop()
                if (one not in nullable and not has_subtotals(node)) or rejects_null(predicate):
                    found.setdefault(one, []).append(
                        renamed(predicate, {name: own for name, (_, own) in owners.items()})
                    )

    def _conditions(
        self,
        node: exp.Expr,
        sources: list[Source],
        limited: list[Source],
        nullable: set[Source],
        found: dict[Source, list[Predicate]],
    ) -> None:
        for part in operands(node, exp.And):
            leaves: Leaves = {}
            noted = self._leaves(part, sources, leaves)
            used = False
            owners = {one for one, _ in leaves.values()}
            for one in owners & set(limited):
                predicate = _implied(part, one, leaves)
                if predicate is not None and (one not in nullable or rejects_null(predicate)):
                    found.setdefault(one, []).append(predicate)
                    used = True
            if not used and not noted:
                self._note(part, Reason.SEVERAL_TABLES if len(owners) > 1 else Reason.OUTER_JOIN)

    def _leaves(self, node: exp.Expr, sources: list[Source], leaves: Leaves) -> bool:
        """Convert each comparison once and add it to `leaves`. Returns whether some were noted as unused."""
        node = node.unnest()
        if isinstance(node, exp.And | exp.Or):
            # `sum` converts all operands, while `any` would stop at the first
            return sum(self._leaves(p, sources, leaves) for p in operands(node, type(node))) > 0
        if isinstance(node, exp.Not):
            inner = node.this.unnest()
            if isinstance(inner, (*NEGATABLE, exp.And, exp.Or, exp.Not)):
                return self._leaves(inner, sources, leaves)
            self._note(node, _why_not_negated(inner))
            return True
        owners: list[Source] = []

        def name(column: exp.Expr) -> str:
            found = owner(dotted_name(column), sources)
            if found is None:
                raise UnusableError(Reason.NO_OWNER)
            owners.append(found[0])
            return found[1]

        try:
            predicate = condition(node, name)
        except UnusableError as error:
            self._note(node, error.reason)
            return True
        leaves[id(node)] = (owners[0], predicate)
        return False

    def _note(self, node: exp.Expr, reason: Reason) -> None:
        text = node.sql("spark")
        text = text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 3] + "..."
        self.unused.setdefault((text, reason), Unused(self.query, text, reason))


def _why_not_negated(node: exp.Expr) -> Reason:
    try:
        condition(node, lambda _column: "")
    except UnusableError as error:
        return error.reason
    return Reason.NEGATED


def _limited(before: list[Source], one: Source, side: str, kind: str) -> list[Source]:
    """The sources whose rows an ON condition limits. A join keeps all rows of the others."""
    if kind == "SEMI" or (not side and kind != "ANTI"):
        return [*before, one]
    if kind == "ANTI" or side == "LEFT":
        return [one]
    return before if side == "RIGHT" else []


def _implied(node: exp.Expr, one: Source, leaves: Leaves, negated: bool = False) -> Predicate | None:
    """The predicate on one source that a condition, or its negation, implies; None if it implies none.

    Negations are moved to the leaves by De Morgan's laws.
    """
    node = node.unnest()
    if isinstance(node, exp.Not):
        return _implied(node.this, one, leaves, not negated)
    if isinstance(node, exp.And | exp.Or):
        parts = [_implied(o, one, leaves, negated) for o in operands(node, type(node))]
        implied = [p for p in parts if p is not None]
        if isinstance(node, exp.And) != negated:
            return conjunction(implied)
        return Or(tuple(implied)) if len(implied) == len(parts) else None
    owned, predicate = leaves.get(id(node), (None, None))
    if owned is not one or predicate is None:
        return None
    return predicate if not negated else Not(predicate) if isinstance(node, NEGATABLE) else None


def _on_outputs(given: Iterable[Predicate], names: Mapping[str, str]) -> Iterator[Predicate]:
    """Rename the output columns of one branch of a set operation to those of the other, if all have a counterpart."""
    for predicate in given:
        new = {c: names.get(c.lower(), "") for c in columns(predicate)}
        if "*" not in new.values() and all(new.values()):
            yield renamed(predicate, new)
