"""Describe the columns of a workload by a sample: distinct values, correlated columns, possible partition keys."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from zlayout.advisor.model import ColumnUse, Float64, KeySample, Target
from zlayout.advisor.simulate import Ranks
from zlayout.predicate.model import And, Compare, In, Or, Predicate
from zlayout.table.state import Int64

# Columns with at least this rank correlation order the rows so similarly that a layout by one of them serves both.
MIN_CORRELATION = 0.95
# With fewer files per partition, partitioning would result in small files.
MIN_FILES_PER_PARTITION = 4
MAX_PARTITIONS = 200
# With fewer sampled rows per value, the table may have more values than the sample.
MIN_ROWS_PER_VALUE = 100


def rank_correlation(left: Int64, right: Int64) -> float:
    """Return Spearman's rank correlation of two columns over the rows in which neither is null.

    Args:
        left, right: int64[n], the ordinals of the values; -1 for null.

    Returns:
        The correlation, -1 to 1; 0 if a column is constant.
    """
    both = (left >= 0) & (right >= 0)
    if both.sum() < 2:
        return 0.0
    a, b = _mean_ranks(left[both]), _mean_ranks(right[both])
    spread = float(a.std() * b.std())
    return float(((a - a.mean()) * (b - b.mean())).mean() / spread) if spread else 0.0


def correlated_pairs(ranks: Ranks) -> frozenset[frozenset[str]]:
    """Return the pairs of columns whose rank correlation is at least MIN_CORRELATION, positive or negative."""
    names = list(ranks.columns)
    pairs = [(a, b) for i, a in enumerate(names) for b in names[:i]]
    return frozenset(
        frozenset((a, b))
        for a, b in pairs
        if abs(rank_correlation(ranks.columns[a].ordinals, ranks.columns[b].ordinals)) >= MIN_CORRELATION
    )


def _mean_ranks(ordinals: Int64) -> Float64:
    """Return the rank of each value, float64[n]. Equal values have the mean of their ranks."""
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
        shares: The share of the weight of the queries that have a condition on each column, the largest first.
        predicates: All predicates of the workload on the table.
        chosen: The z-order columns of the layout that reads the fewest bytes.
        sample, ranks: The sample, and the same sample as ordinals.
        target: The size of a rewrite.
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
        is_partitioned, are_all = len(target.files) > 1, len(sample) > MIN_ROWS_PER_VALUE * distinct
        key = few and are_all and name in equality_columns and not is_partitioned
        found.append(ColumnUse(name, part, distinct, name in chosen, correlated, key))
    return tuple(found)


def _equality_columns(predicates: Sequence[Predicate]) -> frozenset[str]:
    """Return the columns that predicates compare by `=` or IN, outside of NOT."""
    names: set[str] = set()
    for predicate in predicates:
        match predicate:
            case And(operands) | Or(operands):
                names |= _equality_columns(operands)
            case In(column, _) | Compare(column, "=", _):
                names.add(column)
    return frozenset(names)
