"""Describe the columns of a workload by the sample: distinct values, correlated columns, possible partition keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from zlayout.advisor.model import ColumnUse, Float64, KeySample, Target
from zlayout.advisor.simulate import Ranks
from zlayout.predicate.model import And, Compare, In, Or, Predicate
from zlayout.table.state import Int64

# Rank correlation of correlated columns: they order the rows so similarly that a layout by one serves queries on both.
MIN_CORRELATION = 0.95
# With fewer files per partition, partitioning would result in small files.
MIN_FILES_PER_PARTITION = 4
MAX_PARTITIONS = 200


def rank_correlation(left: Int64, right: Int64) -> float:
    """Spearman's rank correlation, -1..1, over the rows where neither column is null (-1); 0 for a constant column."""
    both = (left >= 0) & (right >= 0)
    if both.sum() < 2:
        return 0.0
    a, b = _mean_ranks(left[both]), _mean_ranks(right[both])
    spread = float(a.std() * b.std())
    return float(((a - a.mean()) * (b - b.mean())).mean() / spread) if spread else 0.0


def correlated_pairs(ranks: Ranks) -> frozenset[frozenset[str]]:
    """All pairs of columns whose rank correlation is at least MIN_CORRELATION, positive or negative."""
    names = list(ranks.columns)
    pairs = [(a, b) for i, a in enumerate(names) for b in names[:i]]
    return frozenset(
        frozenset((a, b))
        for a, b in pairs
        if abs(rank_correlation(ranks.columns[a].ordinals, ranks.columns[b].ordinals)) >= MIN_CORRELATION
    )


def _mean_ranks(ordinals: Int64) -> Float64:
    counts = np.bincount(ordinals)
    ranks: Float64 = (np.cumsum(counts) - (counts - 1) / 2.0)[ordinals]
    return ranks


def column_uses(
    shares: Mapping[str, float],
    predicates: Sequence[Predicate],
    chosen: Sequence[str],
    sample: KeySample,
    ranks: Ranks,
    target: Target,
) -> tuple[ColumnUse, ...]:
    """Describe each column of the workload that the table has.

    Args:
        shares: the share of the workload's weight with a condition on each column, the most frequent column first.
        predicates: all predicates of the workload on the table.
        chosen: the z-order columns of the best layout.
        sample, ranks: the sample, and its columns as ordinals.
        target: the size of a rewrite.
    """
    found = []
    equality_columns = _equality_columns(predicates)
    for name, part in shares.items():
        if name not in ranks.columns:
            continue
        ranked = ranks.columns[name]
        correlated = None
        if name not in chosen:
            pairs = [(c, rank_correlation(ranked.ordinals, ranks.columns[c].ordinals)) for c in chosen]
            strong = [(c, r) for c, r in pairs if abs(r) >= MIN_CORRELATION]
            correlated = max(strong, key=lambda pair: abs(pair[1]), default=None)
        distinct = len(ranked.distinct)
        files = int(target.files.sum())
        few = 2 <= distinct <= min(MAX_PARTITIONS, files // MIN_FILES_PER_PARTITION)
        key = few and name in equality_columns and len(target.files) == 1 and len(sample) > 100 * distinct
        found.append(ColumnUse(name, part, distinct, name in chosen, correlated, key))
    return tuple(found)


def _equality_columns(predicates: Sequence[Predicate]) -> frozenset[str]:
    """The columns with equality conditions."""
    names: set[str] = set()
    for predicate in predicates:
        match predicate:
            case And(operands) | Or(operands):
                names |= _equality_columns(operands)
            case In(column, _) | Compare(column, "=", _):
                names.add(column)
    return frozenset(names)
