"""What `where:` and workloads know of sqlglot's tree. Importing this imports sqlglot, which takes a while."""

from __future__ import annotations

from sqlglot import exp

from zlayout.predicate.model import Operator

COMPARISONS: dict[type[exp.Expr], Operator] = {
    exp.EQ: "=",
    exp.NEQ: "!=",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
}
# What sqlglot's parser raises on input that it did not foresee.
UNFORESEEN = (ValueError, TypeError, AttributeError, KeyError, IndexError, NotImplementedError)
