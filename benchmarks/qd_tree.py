"""A greedy qd-tree: a layout in which each part of a table has its own cut, unlike curve `workload`.

The algorithm is that of Z. Yang et al., "Qd-tree: Learning Data Layouts for Big Data Analytics", SIGMOD 2020, with the
constants of the queries as cuts (`zlayout.advisor.cuts`). A leaf is one file. It can have more rows than an average
file, if no cut saves the queries anything, and has at least two thirds of them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from zlayout.advisor.cuts import MAX_CANDIDATES, CutGains, candidates
from zlayout.advisor.model import TableQuery
from zlayout.curve.kd import rank_with_cuts
from zlayout.predicate.model import columns
from zlayout.table.state import Int64


def leaves_of(rows: pa.Table, queries: Sequence[TableQuery], files: int) -> list[Int64]:
    """Return the rows of each leaf of the tree, as ascending indices.

    Args:
        rows: All rows of the table.
        queries: The queries from whose constants the cuts are chosen.
        files: The number of files of the table, if all of them were average.
    """
    pairs = [(predicate, query.weight) for query in queries for predicate in query.predicates]
    predicates, weights = zip(*pairs, strict=True)
    names = sorted(frozenset().union(*map(columns, predicates)))
    ranked, cuts = rank_with_cuts({name: rows[name] for name in names}, candidates(queries)[:MAX_CANDIDATES])
    gains = CutGains(names, ranked, cuts, predicates, np.array(weights)[:, np.newaxis])
    ordinals = np.stack([one.ordinals for one in ranked])
    leaves: list[Int64] = []
    parts = [(np.arange(len(rows)), files)]
    while parts:
        part, number = parts.pop()
        found = gains.best(ordinals[:, part], number, 0, len(rows) / files) if number > 1 else None
        if found is None or found[1] <= 0:
            leaves.append(part)
            continue
        cut, _, left = found
        is_left = ordinals[cuts.column[cut], part] < cuts.threshold[cut]
        parts += [(part[~is_left], number - left), (part[is_left], left)]
    return leaves
