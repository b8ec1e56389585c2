"""One parsed query to the scans of its tables: conditions go down to the tables, as an optimizer pushes them.

Only what must hold for every row that the query needs from a table is kept, so that a prediction from it never skips
a file that an engine would open for less. Of an OR over several tables each table keeps what all its branches imply
(TPC-H 19); a condition behind an outer join goes down only where nulls cannot pass it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from sqlglot import exp

from zlayout.predicate.conditions import NEGATED, Reason, condition, named, rejects_null
from zlayout.predicate.model import And, Compare, In, IsNull, Not, Or, Predicate, columns
from zlayout.workload.model import Query, Scan, Unused
from zlayout.workload.sources import Cte, Ctes, Source, column_parts, generated, own_columns, owner, source

MOST_SCANS = 1_000
CUT = 200
OPTIONAL = ("LEFT", "FULL")  # joins that may leave what is on their right without a row
# only of these is the predicate exactly the condition, so that its negation is one too
NEGATABLE = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.Between, exp.In, exp.Is)
NO_OWNER = Reason("a column whose table is not known (qualify it, or give the tables' columns)")
SEVERAL_TABLES = Reason("an OR over several tables")
OUTER_JOIN = Reason("a condition that does not limit the table, because of an outer join")
AFTER_GROUPING = Reason("a condition on groups or windows")


class TooManyScansError(Exception):
    """A query that reads more than MOST_SCANS tables, as CTEs that use each other twice can."""


class Reader:
    """The scans and unused conditions of one query."""

    def __init__(self, query: Query, known: Mapping[str, Sequence[str]]) -> None:
        self.query = query
        self.known = known
        self.scans: list[Scan] = []
        self.unused: dict[tuple[str, str], Unused] = {}
        self.visits = 0

    def read(self, node: exp.Query, ctes: Ctes, given: Sequence[Predicate] = ()) -> None:
        """Scan a query's tables. given: predicates on its output columns that its reader asks for."""
        self.visits += 1
        if self.visits > MOST_SCANS:
            raise TooManyScansError
        ctes = _with_ctes(node, ctes)
        if node.args.get("limit") or node.args.get("offset"):
            given = ()
        if isinstance(node, exp.Subquery):
            if isinstance(node.this, exp.Query):
                self.read(node.this, ctes, given)
        elif isinstance(node, exp.SetOperation):
            left, right = node.this.named_selects, node.expression.named_selects
            self.read(node.this, ctes, given)
            self.read(node.expression, ctes, list(_renamed(given, dict(zip(_lower(left), right, strict=False)))))
        elif isinstance(node, exp.Select):
            self._select(node, ctes, given)

    def _select(self, node: exp.Select, ctes: Ctes, given: Sequence[Predicate]) -> None:
        sources: list[Source] = []
        nullable: set[Source] = set()
        found: dict[Source, list[Predicate]] = {}
        clause = node.args.get("from_") or node.args.get("from")
        for item, join, optional in _items(clause.this if clause else None, node.args.get("joins") or []):
            one = source(item, ctes, self.known)
            before, side, kind = list(sources), join.side if join else "", join.kind if join else ""
            sources.append(one)
            if len(sources) > MOST_SCANS:
                raise TooManyScansError
            if join and join.args.get("on"):
                limited = _limited(before, one, side, kind)
                self._conditions(join.args["on"], sources, limited, nullable, found)
            if kind not in ("SEMI", "ANTI"):
                nullable |= {one} if optional else set()
                nullable |= set(before) if side in ("RIGHT", "FULL") else set()
        sources += [generated(lateral) for lateral in node.args.get("laterals") or []]
        if where := node.args.get("where"):
            self._conditions(where.this, sources, sources, nullable, found)
        for clause_name in ("having", "qualify"):
            if late := node.args.get(clause_name):
                self._note(late.this, AFTER_GROUPING)
        if not node.args.get("qualify") and not any(_own(node, exp.Window)):
            self._push_given(node, sources, nullable, given, found)
        for one in sources:
            self._scan(one, found.get(one, []))
        for inner in _subqueries(node):
            self.read(inner, ctes)

    def _scan(self, one: Source, predicates: list[Predicate]) -> None:
        if one.query is not None:
            self.read(one.query, one.visible or {}, [] if one.renamed else predicates)
        elif one.table:
            if len(self.scans) >= MOST_SCANS:
                raise TooManyScansError
            self.scans.append(Scan(self.query, one.table, _all_of(predicates)))

    def _push_given(
        self,
        node: exp.Select,
        sources: list[Source],
        nullable: set[Source],
        given: Iterable[Predicate],
        found: dict[Source, list[Predicate]],
    ) -> None:
        """Conditions on output columns that are columns of a source, or pass through `SELECT *` from one source."""
        inner = {e.alias_or_name.lower(): e.unalias() for e in node.selects if not _is_star(e)}
        for predicate in given:
            owners = {}
            for name in columns(predicate):
                first, *rest = name.split(".")
                at = inner.get(first.lower())
                if at is None and any(map(_is_star, node.selects)) and len(sources) == 1:
                    owners[name] = (sources[0], name)
                elif isinstance(at, exp.Column | exp.Dot) and (mine := owner([*column_parts(at), *rest], sources)):
                    owners[name] = mine
            whose = {one for one, _ in owners.values()}
            if len(whose) == 1 and len(owners) == len(columns(predicate)):
                one = whose.pop()
                if (one not in nullable and not _has_subtotals(node)) or rejects_null(predicate):
                    found.setdefault(one, []).append(_rename(predicate, {k: v for k, (_, v) in owners.items()}))

    def _conditions(
        self,
        node: exp.Expr,
        sources: list[Source],
        limited: list[Source],
        nullable: set[Source],
        found: dict[Source, list[Predicate]],
    ) -> None:
        for part in _flat(node, exp.And):
            leaves: dict[int, tuple[Source, Predicate] | None] = {}
            noted = self._leaves(part, sources, leaves)
            used = False
            owners = {leaf[0] for leaf in leaves.values() if leaf}
            for one in owners & set(limited):
                predicate = _implied(part, one, leaves)
                if predicate is not None and (one not in nullable or rejects_null(predicate)):
                    found.setdefault(one, []).append(predicate)
                    used = True
            if not used and not noted:
                self._note(part, SEVERAL_TABLES if len(owners) > 1 else OUTER_JOIN)

    def _leaves(
        self, node: exp.Expr, sources: list[Source], leaves: dict[int, tuple[Source, Predicate] | None]
    ) -> bool:
        """Read each comparison once; True if some could not be used, which are noted."""
        node = node.unnest()
        if isinstance(node, exp.And | exp.Or):
            # a sum, since all of them have to be read
            return sum(self._leaves(p, sources, leaves) for p in _flat(node, type(node))) > 0
        if isinstance(node, exp.Not):
            inner = node.this.unnest()
            if not isinstance(inner, (*NEGATABLE, exp.And, exp.Or, exp.Not)):
                reason = condition(inner)
                self._note(node, reason if isinstance(reason, Reason) else NEGATED)
                return True
            return self._leaves(inner, sources, leaves)
        read = condition(node)
        if isinstance(read, Reason):
            self._note(node, read)
            return True
        mine = owner(column_parts(read[0]), sources)
        if mine is None:
            self._note(node, NO_OWNER)
            return True
        leaves[id(node)] = (mine[0], named(read[1], mine[1]))
        return False

    def _note(self, node: exp.Expr, reason: Reason) -> None:
        text = node.sql("spark")
        text = text if len(text) <= CUT else text[: CUT - 3] + "..."
        self.unused.setdefault((text, reason.text), Unused(self.query, text, reason.text))


def _limited(before: list[Source], one: Source, side: str, kind: str) -> list[Source]:
    """The sources whose rows an ON condition limits: not those whose rows the join keeps in any case."""
    if kind == "SEMI" or (not side and kind != "ANTI"):
        return [*before, one]
    if kind == "ANTI" or side == "LEFT":
        return [one]
    return before if side == "RIGHT" else []


def _implied(node: exp.Expr, one: Source, leaves: dict[int, tuple[Source, Predicate] | None]) -> Predicate | None:
    """What a condition implies for the rows of one source alone, None for nothing."""
    node = node.unnest()
    if isinstance(node, exp.And):
        parts = [p for o in _flat(node, exp.And) if (p := _implied(o, one, leaves)) is not None]
        return _all_of(parts)
    if isinstance(node, exp.Or):
        branches = [_implied(o, one, leaves) for o in _flat(node, exp.Or)]
        sure = [b for b in branches if b is not None]
        return Or(tuple(sure)) if len(sure) == len(branches) else None
    if isinstance(node, exp.Not):
        return _negated(node.this.unnest(), one, leaves)
    leaf = leaves.get(id(node))
    return leaf[1] if leaf and leaf[0] is one else None


def _negated(node: exp.Expr, one: Source, leaves: dict[int, tuple[Source, Predicate] | None]) -> Predicate | None:
    """The negation, by De Morgan's laws, so that of AND and OR too only what is implied is kept."""
    if isinstance(node, exp.Not):
        return _implied(node.this, one, leaves)
    if isinstance(node, exp.And | exp.Or):
        parts = [_negated(o.unnest(), one, leaves) for o in _flat(node, type(node))]
        sure = [p for p in parts if p is not None]
        if isinstance(node, exp.Or):
            return _all_of(sure)
        return Or(tuple(sure)) if len(sure) == len(parts) else None
    leaf = leaves.get(id(node))
    return Not(leaf[1]) if leaf and leaf[0] is one and isinstance(node, NEGATABLE) else None


def _all_of(parts: Sequence[Predicate]) -> Predicate | None:
    if not parts:
        return None
    flat = tuple(q for p in parts for q in (p.operands if isinstance(p, And) else (p,)))
    return flat[0] if len(flat) == 1 else And(flat)


def _flat(node: exp.Expr, kind: type[exp.Expr]) -> list[exp.Expr]:
    """The operands of a chain of ANDs or ORs, in order; chains may be long, so no recursion."""
    parts, stack = [], [node]
    while stack:
        at = stack.pop().unnest()
        if isinstance(at, kind):
            stack += [at.args["expression"], at.args["this"]]
        else:
            parts.append(at)
    return parts


def _items(first: exp.Expr | None, joins: Sequence[exp.Join]) -> Iterator[tuple[exp.Expr, exp.Join | None, bool]]:
    """FROM and JOIN items in order; `(a JOIN b)` in brackets as if they were not there.

    Whether an outer join, its own or one around such brackets, may leave the item without a row is told beside it.
    """
    pairs = [] if first is None else [(first, None)]
    for item, join in [*pairs, *((j.this, j) for j in joins)]:
        optional = join is not None and join.side in OPTIONAL
        if isinstance(item, exp.Subquery) and isinstance(item.this, exp.Table):
            yield item.this, join, optional
            nested = [*(item.this.args.get("joins") or []), *(item.args.get("joins") or [])]
        else:
            yield item, join, optional
            nested = item.args.get("joins") or []
        yield from ((j.this, j, optional or j.side in OPTIONAL) for j in nested)


def _with_ctes(node: exp.Query, ctes: Ctes) -> Ctes:
    clause = node.args.get("with_") or node.args.get("with")
    seen = dict(ctes)
    for cte in clause.expressions if clause else []:
        if isinstance(cte.this, exp.Query):
            seen[cte.alias.lower()] = Cte(cte.this, dict(seen), own_columns(cte))
    return seen


def _is_star(column: exp.Expr) -> bool:
    """`*` or `t.*`, but not `count(*)`."""
    return isinstance(column, exp.Star) or (isinstance(column, exp.Column) and isinstance(column.this, exp.Star))


def _has_subtotals(node: exp.Select) -> bool:
    """ROLLUP, CUBE and GROUPING SETS make nulls of their own in the columns that they group by."""
    group = node.args.get("group")
    return group is not None and group.find(exp.Rollup, exp.Cube, exp.GroupingSets) is not None


def _own(node: exp.Select, kind: type[exp.Expr]) -> Iterator[exp.Expr]:
    """Nodes of a kind in a SELECT's own columns."""
    return (found for e in node.selects for found in e.find_all(kind))


def _subqueries(node: exp.Select) -> Iterator[exp.Query]:
    """Outermost queries in expressions: those in FROM and WITH are read where they are used."""
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


def _lower(names: Iterable[str]) -> list[str]:
    return [n.lower() for n in names]


def _renamed(given: Iterable[Predicate], names: Mapping[str, str]) -> Iterator[Predicate]:
    """Predicates on one branch's outputs as predicates on the other's; those that have no counterpart are left out."""
    for predicate in given:
        new = {c: names.get(c.lower(), "") for c in columns(predicate)}
        if "*" not in new.values() and all(new.values()):
            yield _rename(predicate, new)


def _rename(predicate: Predicate, names: Mapping[str, str]) -> Predicate:
    match predicate:
        case Compare(column, operator, value):
            return Compare(names[column], operator, value)
        case In(column, values):
            return In(names[column], values)
        case IsNull(column):
            return IsNull(names[column])
        case Not(operand):
            return Not(_rename(operand, names))
        case And(operands):
            return And(tuple(_rename(o, names) for o in operands))
        case Or(operands):
            return Or(tuple(_rename(o, names) for o in operands))
