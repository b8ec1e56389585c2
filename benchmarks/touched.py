"""Counts the files that queries with a fixed seed touch, by the bounds in the metadata, and the joint optimum."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from zlayout.predicate.model import And, Compare, Predicate
from zlayout.predicate.prune import may_match
from zlayout.table.metrics import joint_optimum
from zlayout.table.state import FileTable

QUERIES = 200
RANGES = (0.001, 0.01, 0.05)
SEED = 20261121


def key_columns(root: Path, keys: tuple[str, ...]) -> pa.Table:
    """The key columns of the generated data, types as in the tables."""
    table = pq.read_table(root / "tpch" / "lineitem.parquet", columns=list(keys))
    if "l_quantity" in keys:
        at = table.schema.get_field_index("l_quantity")
        table = table.set_column(at, "l_quantity", table["l_quantity"].cast(pa.float64()).cast(pa.int64()))
    for at, field in enumerate(table.schema):
        if pa.types.is_binary_view(field.type) or pa.types.is_string_view(field.type):  # which Arrow does not sort
            table = table.set_column(at, field.name, table[field.name].cast(pa.string()))
    return table.combine_chunks()


def mean_touched(files: FileTable, data: pa.Table, keys: tuple[str, ...]) -> tuple[dict[str, float], dict[str, float]]:
    """Return the mean number of files touched: by equality for each column, and by ranges for each column and pair."""
    rng = np.random.default_rng(SEED)
    ordered = {key: data[key].combine_chunks().take(pc.sort_indices(data[key])) for key in keys}
    equality = {}
    for key in keys:
        values = ordered[key].take(pa.array(rng.integers(0, len(data), QUERIES)))
        equality[key] = _mean(files, [Compare(key, "=", v) for v in values.to_pylist()])
    ranges = {}
    for share in RANGES:
        for chosen in [(key,) for key in keys] + list(combinations(keys, 2)):
            queries = [And(tuple(_range(ordered[key], key, share, rng) for key in chosen)) for _ in range(QUERIES)]
            ranges[f"{' & '.join(chosen)} {share:.1%}"] = _mean(files, queries)
    return equality, ranges


def lowest(data: pa.Table, keys: tuple[str, ...], files: int) -> dict[str, float]:
    """Return the joint optimum of each column, with distinct and frequent values known from the data."""
    counts = [np.asarray(pc.value_counts(data[key].combine_chunks()).field("counts")) for key in keys]
    distinct = [_equally_frequent(c / len(data), files) for c in counts]
    return dict(zip(keys, joint_optimum(files, (1.0,) * len(keys), distinct).tolist(), strict=True))


def _equally_frequent(share: NDArray[np.float64], files: int) -> float:
    """Return the number of equally frequent values with the same joint optimum: 1 / (sum of squared shares).

    A value with the share s fills s * N files. Those that fill less than a file count as equally frequent.
    """
    heavy = share[share > 1 / files]
    rest = max(1.0 - heavy.sum(), 0.0)
    return float(1.0 / ((heavy**2).sum() + rest**2 / max(len(share) - len(heavy), 1)))


def _range(ordered: pa.Array, key: str, share: float, rng: np.random.Generator) -> Predicate:
    width = max(1, int(len(ordered) * share))
    start = int(rng.integers(0, len(ordered) - width + 1))
    low, high = ordered[start].as_py(), ordered[start + width - 1].as_py()
    return And((Compare(key, ">=", low), Compare(key, "<=", high)))


def _mean(files: FileTable, queries: Sequence[Predicate]) -> float:
    return float(np.mean([may_match(query, files.bounds, files.rows).sum() for query in queries]))
