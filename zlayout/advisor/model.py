"""The data classes of `simulate` and `advise`. Shapes: Q queries, N files, P partitions, n sampled rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zlayout.predicate.model import Predicate
from zlayout.spec.layout import Layout
from zlayout.table.state import ColumnBounds, Int32, Int64
from zlayout.workload.model import Inverted, Query, Unused

Float64 = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class KeySample:
    """Rows drawn from the table.

    keys: the key columns by dotted name, each of length n. partition: int32[n]. seed: of the random numbers.
    """

    keys: Mapping[str, pa.Array]
    partition: Int32
    seed: int = 0

    def __len__(self) -> int:
        return len(self.partition)

    def take(self, rows: Int64) -> KeySample:
        index = pa.array(rows)
        return KeySample({c: v.take(index) for c, v in self.keys.items()}, self.partition[rows], self.seed)


@dataclass(frozen=True, slots=True)
class Target:
    """The size of a rewrite of the whole table: int64[P] each, live rows, their bytes, and files to write."""

    rows: Int64
    bytes: Int64
    files: Int64


@dataclass(frozen=True, slots=True)
class FileSet:
    """The metadata of N files by which readers prune.

    rows: int64[N], including nulls. bytes: float64[N]. partition: int32[N].
    """

    bounds: Mapping[str, ColumnBounds]
    rows: Int64
    bytes: Float64
    partition: Int32

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class QueryPredicates:
    """The predicates of one query on the table, one for each scan with a predicate."""

    query: Query
    predicates: tuple[Predicate, ...]

    @property
    def location(self) -> str:
        return self.query.location

    @property
    def weight(self) -> float:
        return self.query.weight


class Use(StrEnum):
    """What a study makes of a query that reads the table."""

    USED = "used"
    """It has conditions that exclude files, and is simulated."""
    IGNORED = "ignored"
    """None of its conditions can be used, so that the files that it reads are unknown."""
    READS_ALL = "reads_all"
    """It has no condition on the table, and reads all of it in any layout."""
    UNREAD = "unread"
    """It cannot be parsed, and names the table."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of the workload on the table a study rests on.

    queries, weights: the number of queries and the sum of their weights, by use.
    """

    queries: Mapping[Use, int] = field(default_factory=dict)
    weights: Mapping[Use, float] = field(default_factory=dict)

    @staticmethod
    def of(uses: Mapping[Query, Use]) -> Coverage:
        weights = {
            use: sum(query.weight for query, of in uses.items() if of is use) for use in dict.fromkeys(uses.values())
        }
        return Coverage(dict(Counter(uses.values())), weights)

    def share(self, use: Use) -> float:
        """The share of the weight, 0..1."""
        total = sum(self.weights.values())
        return self.weights.get(use, 0.0) / total if total else 0.0


@dataclass(frozen=True, slots=True)
class TableWorkload:
    """The part of a workload that concerns one table.

    queries: those with usable conditions. unused: the other conditions of all queries that read the table. inverted:
    the conditions that are used in another form. unknown: the queries that may read any file, because they cannot be
    parsed, or because no condition of a scan can be used. Other scans of the same query may have usable conditions.
    """

    queries: tuple[QueryPredicates, ...]
    coverage: Coverage
    unused: tuple[Unused, ...] = ()
    inverted: tuple[Inverted, ...] = ()
    unknown: tuple[Query, ...] = ()


@dataclass(frozen=True, slots=True)
class TableQuery(QueryPredicates):
    """The predicates of one query, and the partitions that remain after pruning.

    partitions: bool[P] for each predicate, the partitions of which present files may have matching rows.
    """

    partitions: tuple[Bools, ...]


@dataclass(frozen=True, slots=True)
class Costs:
    """The files and bytes that each query opens: float64[Q] each. weights: float64[Q], of the queries."""

    files: Float64
    bytes: Float64
    weights: Float64

    def of(self, index: list[int]) -> Costs:
        """The costs of some of the queries."""
        return Costs(self.files[index], self.bytes[index], self.weights[index])

    @property
    def mean_files(self) -> float:
        return float(np.average(self.files, weights=self.weights))

    @property
    def mean_bytes(self) -> float:
        return float(np.average(self.bytes, weights=self.weights))


@dataclass(frozen=True, slots=True)
class Choice:
    """A simulated layout. files: the number of files of the whole table. touched: touched(c) by column."""

    layout: Layout
    files: int
    costs: Costs
    touched: Mapping[str, float]

    @property
    def title(self) -> str:
        names = (c.name if c.weight == 1 else f"{c.name} ({c.weight:g})" for c in self.layout.columns)
        return f"{self.layout.curve}: {', '.join(names)}"


@dataclass(frozen=True, slots=True)
class ColumnUse:
    """A column in the conditions of the workload.

    share: the share of the queries' weight with a condition on it. distinct: the number of distinct values in the
    sample. chosen: whether it is a z-order column of the best layout. follows: the chosen column that it is correlated
    with, and the rank correlation. partition_key: whether it is suitable for `partition_by`.
    """

    name: str
    share: float
    distinct: int
    chosen: bool
    follows: tuple[str, float] | None = None
    partition_key: bool = False


@dataclass(frozen=True, slots=True)
class Study:
    """The result of `simulate` and `advise` for one table, from which every report is made.

    sampled: the number of sampled rows. workload: the workload files. queries: the queries with predicates on the
    table. statements: the number of queries in the files. unused: the conditions that are not used. inverted: the
    conditions on functions of columns that are used as ranges. assumed_time: the time (UTC, naive) that
    `current_date()` means, None if no query refers to it without a time of its own. now: the costs of the present
    files. choices: the requested layouts in their order, then the layouts that the search found. best: the choice with
    the fewest bytes read, None if no choice is better than `now`. steps: the best layout with 1, 2, ... columns. tried:
    the number of simulated layouts. interrupted: whether the time limit ended the search.
    """

    table: str
    format: str
    version: int
    rows: int
    bytes: int
    files: int
    sampled: int
    seed: int
    queries: tuple[TableQuery, ...]
    statements: int
    coverage: Coverage
    now: Costs
    floor: Costs
    choices: tuple[Choice, ...]
    best: Choice | None
    declared: Choice | None
    columns: tuple[ColumnUse, ...]
    steps: tuple[Choice, ...] = ()
    tried: int = 0
    seconds: float = 0.0
    interrupted: bool = False
    notes: tuple[str, ...] = ()
    workload: tuple[str, ...] = ()
    unused: tuple[Unused, ...] = ()
    inverted: tuple[Inverted, ...] = ()
    assumed_time: datetime | None = None

    @property
    def step_columns(self) -> list[str]:
        """The columns of all steps, in the order in which the search added them."""
        return list(dict.fromkeys(c.name for step in self.steps for c in step.layout.columns))

    def __repr__(self) -> str:
        best = self.best.title if self.best else "the present files"
        return f"<{type(self).__name__} of {self.table}: {len(self.queries):,} queries, best layout {best}>"
