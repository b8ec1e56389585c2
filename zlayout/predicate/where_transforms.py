"""Convert comparisons of `years(c)`, `months(c)`, `days(c)` and `hours(c)` in `where` to comparisons of the column.

A transform is the period that contains the value, so that each comparison is equivalent to a range of the column. The
literal is a period as Iceberg writes partitions: '2026', '2026-01', '2026-01-31' or '2026-01-31-23'.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime

from sqlglot import exp

from zlayout.message_text import quote_value
from zlayout.predicate.inverse import compared_period
from zlayout.predicate.literals import RejectedError
from zlayout.predicate.model import MIRRORED, And, Operator, Or, Predicate, Value
from zlayout.predicate.periods import end
from zlayout.predicate.sql_tree import COMPARISONS, Rules, further_arguments

_PERIODS = {
    "years": ("YEAR", r"(\d{4})", "2026"),
    "months": ("MONTH", r"(\d{4})-(\d{2})", "2026-01"),
    "days": ("DAY", r"(\d{4})-(\d{2})-(\d{2})", "2026-01-31"),
    "hours": ("HOUR", r"(\d{4})-(\d{2})-(\d{2})-(\d{2})", "2026-01-31-23"),
}


def transformed(node: exp.Expr, rules: Rules) -> Predicate | None:
    """Convert a comparison, IN or BETWEEN of a transform of a column; None for another condition.

    Raises:
        RejectedError: ZL032, if a literal is not a period of the transform; and the exceptions of `rules`.
    """
    if type(node) in COMPARISONS and _name(node.expression) and not _name(node.this):
        compare = _comparison(node.expression.unnest(), rules)
        return compare(MIRRORED[COMPARISONS[type(node)]], node.this)
    if not _name(node.args.get("this")):
        return None
    compare = _comparison(node.this.unnest(), rules)
    if type(node) in COMPARISONS:
        return compare(COMPARISONS[type(node)], node.expression)
    if type(node) is exp.Between and not node.args.get("symmetric"):
        return And((compare(">=", node.args["low"]), compare("<=", node.args["high"])))
    if type(node) is exp.In and node.expressions and not further_arguments(node):
        return Or(tuple(compare("=", value) for value in node.expressions))
    return None


def _name(node: object) -> str:
    """The name of the transform that the node calls, '' if it does not call one."""
    node = node.unnest() if isinstance(node, exp.Expr) else node
    if not isinstance(node, exp.Anonymous) or len(node.expressions) != 1:
        return ""
    name = str(node.this).lower()
    return name if name in _PERIODS else ""


def _comparison(call: exp.Expr, rules: Rules) -> Callable[[Operator, exp.Expr], Predicate]:
    name, column = _name(call), rules.column(call.expressions[0])
    unit = _PERIODS[name][0]

    def compare(operator: Operator, node: exp.Expr) -> Predicate:
        value = rules.value(node)
        try:
            low = _begin(name, value)
            return compared_period(column, operator, low, end(low, unit), begins=True)
        except (ValueError, OverflowError):
            example = _PERIODS[name][2]
            message = f"expected a period like '{example}' for {name}(), found {quote_value(str(value))}"
            raise RejectedError("ZL032", message) from None

    return compare


def _begin(name: str, value: Value) -> date:
    """The begin of the period that a literal names. Raises ValueError."""
    if name == "days" and isinstance(value, date) and not isinstance(value, datetime):
        return value
    found = re.fullmatch(_PERIODS[name][1], value, re.ASCII) if isinstance(value, str) else None
    if found is None:
        raise ValueError(value)
    parts = [int(part) for part in found.groups()]
    year, month, day = (*parts[:3], 1, 1)[:3]
    return datetime(year, month, day, parts[3]) if len(parts) == 4 else date(year, month, day)
