"""Find the scans of a parsed query, and push its conditions down to the tables as an optimizer does.

A condition is kept only if it must be true for every row that the query needs from a table, so that a prediction never
skips a file that an engine would open. From an OR over several tables, each table gets what all branches imply for it
(as in query 19 of TPC-H). A condition above an outer join is pushed down only if it is not true for nulls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sqlglot import exp

from zlayout.predicate.conditions import NEGATABLE, Converted, Reason, UnusableError, condition
from zlayout.predicate.model import Not, Or, Predicate, columns, conjunction, rejects_null, renamed
from zlayout.predicate.parse import to_sql
from zlayout.predicate.sql_tree import operands
from zlayout.workload.joins import Clauses, filters, join_key, limited_sources, spread, using_keys
from zlayout.workload.model import MAX_TEXT, Inverted, Query, Scan, UnreadableError, Unused
from zlayout.workload.sources import (
    Ctes,
    Source,
    dotted_name,
    ends_early,
    from_items,
    has_subtotals,
    is_star,
    is_true,
    own_nodes,
    owner,
    source_of,
    subqueries,
    tables_in,
    tables_of,
    view_source,
    with_ctes,
)

MAX_SCANS = 1_000  # of one query. Each of its CTEs may read the previous one twice, which doubles the number of scans.
TOO_MANY = "too many tables"
Leaves = dict[int, tuple[Source, Converted]]  # the source and the predicate of each comparison, by id() of its node


class Reader:
    """Collects the scans, the unused and the inverted conditions of one query. known: as in `read_query`."""

    def __init__(self, query: Query, known: Mapping[str, Sequence[str]]) -> None:
        self.query = query
        self.known = known
        self.scans: list[Scan] = []
        self.unused: dict[tuple[str, str], Unused] = {}
        self.inverted: list[Inverted] = []
        self.visits = 0

    def read(self, node: exp.Query, ctes: Ctes, given: Sequence[Predicate] = ()) -> None:
        """Collect the scans of a query or subquery.

        Args:
            node: Its tree.
            ctes: The CTEs that it can refer to.
            given: The predicates on its output columns that the enclosing query requires.

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
                self.read(node.this, ctes, given)
        elif isinstance(node, exp.SetOperation):
            left, right = node.this.named_selects, node.expression.named_selects
            self.read(node.this, ctes, given)
            counterparts = {a.lower(): b for a, b in zip(left, right, strict=False)}
            pushed = list(_on_outputs(given, counterparts))
            if len(pushed) < len(given):
                self._lost(given, Reason.COMPUTED)
            self.read(node.expression, ctes, pushed)
        elif isinstance(node, exp.Select):
            self._select(node, ctes, given)

    def _select(self, node: exp.Select, ctes: Ctes, given: Sequence[Predicate]) -> None:
        clauses = Clauses()
        sources, nullable = clauses.sources, clauses.nullable
        clause = node.args.get("from_") or node.args.get("from")
        for item, join, optional in from_items(clause.this if clause else None, node.args.get("joins") or []):
            source = source_of(item, ctes, self.known)
            before, side, kind = list(sources), join.side if join else "", join.kind if join else ""
            sources.append(source)
            if len(sources) > MAX_SCANS:
                raise UnreadableError(TOO_MANY)
            limited = limited_sources(before, source, side, kind)
            outer = source if side == "LEFT" and not kind else None
            if join and join.args.get("on"):
                self._conditions(join.args["on"], clauses, limited, outer)
            if join and join.args.get("using"):
                clauses.keys += using_keys(join, before, source, limited, outer)
            if kind not in ("SEMI", "ANTI"):
                nullable |= {source} if optional else set()
                nullable |= set(before) if side in ("RIGHT", "FULL") else set()
        sources += [view_source(lateral) for lateral in node.args.get("laterals") or []]
        if where := node.args.get("where"):
            self._conditions(where.this, clauses, sources, None, in_where=True)
        for clause_name in ("having", "qualify"):
            if late := node.args.get(clause_name):
                computed = late.find(exp.AggFunc, exp.Window) is not None
                self._note(late.this, Reason.AFTER_GROUPING, frozenset() if computed else None)
        if not node.args.get("qualify") and not any(own_nodes(node, exp.Window)):
            self._push_given(node, clauses, given)
        else:
            self._lost(given, Reason.AFTER_GROUPING)
        spread(clauses.keys, clauses.found, clauses.rejecting)
        self._join_notes(clauses)
        if ends_early(node):
            self._note(node.args["limit"], Reason.LIMIT, tables_of(sources))
        for source in sources:
            self._scan(source, clauses.found.get(source, []))
        for inner in subqueries(node):
            self.read(inner, ctes)

    def _join_notes(self, clauses: Clauses) -> None:
        noted = set()
        for key, source, text in filters(clauses.keys, clauses.found, clauses.rejecting):
            noted.add(key)
            self._add(f"{key.text}, with {text}", Reason.JOIN_FILTER, tables_of([source]))
        for key in clauses.keys:
            if key not in noted:
                self._add(key.text, Reason.TWO_COLUMNS, frozenset())

    def _scan(self, source: Source, predicates: list[Predicate]) -> None:
        if source.query is not None:
            if source.renamed:
                self._lost(predicates, Reason.COMPUTED)
            self.read(source.query, source.visible or {}, [] if source.renamed else predicates)
        elif source.table:
            if len(self.scans) >= MAX_SCANS:
                raise UnreadableError(TOO_MANY)
            self.scans.append(Scan(self.query, source.table, conjunction(predicates)))
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
                first, *rest = name.split(".")
                at = inner.get(first.lower())
                if at is None and any(map(is_star, node.selects)) and len(sources) == 1:
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
                continue
            if is_true(part):
                continue
            leaves: Leaves = {}
            noted = self._leaves(part, clauses.sources, leaves)
            owners = {source for source, _ in leaves.values()}
            for source in clauses.sources:
                if source not in owners:
                    continue
                predicate = _implied(part, source, leaves) if source in limited else None
                if predicate is not None and (source not in clauses.nullable or rejects_null(predicate)):
                    clauses.found.setdefault(source, []).append(predicate)
                    if in_where and rejects_null(predicate):
                        clauses.rejecting.add(source)
                elif not noted:
                    reason = Reason.SEVERAL_TABLES if len(owners) > 1 else Reason.OUTER_JOIN
                    self._note(part, reason, tables_of([source]))

    def _leaves(self, node: exp.Expr, sources: list[Source], leaves: Leaves, *, negated: bool = False) -> bool:
        """Convert each comparison once, and add it to `leaves`. Return whether any is noted as unused."""
        node = node.unnest()
        if isinstance(node, exp.And | exp.Or):
            # `sum` converts all operands, while `any` would stop at the first unused one.
            return sum(self._leaves(p, sources, leaves, negated=negated) for p in operands(node, type(node))) > 0
        if isinstance(node, exp.Not):
            inner = node.this.unnest()
            if isinstance(inner, (*NEGATABLE, exp.And, exp.Or, exp.Not)):
                return self._leaves(inner, sources, leaves, negated=not negated)
            self._note(node, _why_not_negated(inner), tables_in(node, sources))
            return True
        owners: list[Source] = []

        def name(column: exp.Expr) -> str:
            found = owner(dotted_name(column), sources)
            if found is None:
                raise UnusableError(Reason.NO_OWNER)
            owners.append(found[0])
            return found[1]

        try:
            converted = condition(node, name)
            if negated and not converted.exact:
                raise UnusableError(Reason.NEGATED)
        except UnusableError as error:
            self._note(node, error.reason, tables_in(node, sources))
            return True
        leaves[id(node)] = (owners[0], converted)
        if converted.inverted:
            self.inverted.append(
                Inverted(self.query, shortened(node.sql("spark")), to_sql(converted.predicate), owners[0].table)
            )
        return False

    def _lost(self, given: Iterable[Predicate], reason: Reason, tables: frozenset[str] | None = None) -> None:
        """Note conditions on the result of a query that cannot be pushed down to its tables."""
        for predicate in given:
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


def _why_not_negated(node: exp.Expr) -> Reason:
    try:
        condition(node, lambda _column: "")
    except UnusableError as error:
        return error.reason
    return Reason.NEGATED


def _implied(node: exp.Expr, source: Source, leaves: Leaves, negated: bool = False) -> Predicate | None:
    """Return the predicate on `source` that a condition, or its negation, implies. Uses De Morgan's laws."""
    node = node.unnest()
    if isinstance(node, exp.Not):
        return _implied(node.this, source, leaves, not negated)
    if isinstance(node, exp.And | exp.Or):
        parts = [_implied(o, source, leaves, negated) for o in operands(node, type(node))]
        implied = [p for p in parts if p is not None]
        if isinstance(node, exp.And) != negated:
            return conjunction(implied)
        return Or(tuple(implied)) if len(implied) == len(parts) else None
    owned, converted = leaves.get(id(node), (None, None))
    if owned is not source or converted is None:
        return None
    return converted.predicate if not negated else Not(converted.predicate) if converted.exact else None


def _on_outputs(given: Iterable[Predicate], names: Mapping[str, str]) -> Iterator[Predicate]:
    for predicate in given:
        new = {c: names.get(c.lower(), "") for c in columns(predicate)}
        if "*" not in new.values() and all(new.values()):
            yield renamed(predicate, new)
