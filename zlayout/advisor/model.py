"""The data classes of `simulate` and `advise`. Shapes: Q queries, P partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from zlayout.predicate.model import Predicate
from zlayout.spec.model import Layout
from zlayout.table.partition import PartitionField
from zlayout.workload.model import Inverted, Query, Unused

Float64 = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class TableQuery:
    """One query, and its predicates on the table: one for each scan that has a predicate.

    Attributes:
        partitions: bool[P] for each predicate, whether the present files of a partition may have matching rows; empty
            before `in_partitions`.
        of_partitions: For each predicate a condition by which the engine skips only whole partitions, or None; empty if
            there is none.
    """

    query: Query
    predicates: tuple[Predicate, ...]
    partitions: tuple[Bools, ...] = ()
    of_partitions: tuple[Predicate | None, ...] = ()

    @property
    def scans(self) -> Iterator[tuple[Predicate, Bools, Predicate | None]]:
        """The predicate of each scan, with its partitions and its condition on partitions."""
        yield from zip(self.predicates, self.partitions, self.of_partitions or repeat(None), strict=False)

    @property
    def location(self) -> str:
        return self.query.location

    @property
    def weight(self) -> float:
        return self.query.weight


class Use(StrEnum):
    """The classes of queries on the table by how a study uses them."""

    USED = "used"
    """The query has a condition that can be used, and is simulated."""
    IGNORED = "ignored"
    """The query has conditions, but none can be used, so that the files that it reads are unknown."""
    READS_ALL = "reads_all"
    """The query has no condition on the table, and reads all of it in any layout."""
    UNREAD = "unread"
    """The query cannot be parsed, but its text contains the name of the table."""


@dataclass(frozen=True, slots=True)
class Coverage:
    """The number and the weight of the queries on the table, by their use in a study.

    Attributes:
        queries, weights: The number of queries, and the sum of their weights.
    """

    queries: Mapping[Use, int] = field(default_factory=dict)
    weights: Mapping[Use, float] = field(default_factory=dict)

    @staticmethod
    def of(uses: Mapping[Query, Use]) -> Coverage:
        """Return the coverage of queries with known use."""
        weights = {
            use: sum(query.weight for query, of in uses.items() if of is use) for use in dict.fromkeys(uses.values())
        }
        return Coverage(dict(Counter(uses.values())), weights)

    def share(self, use: Use) -> float:
        """Return the share of the weight of all queries on the table, 0 to 1."""
        total = sum(self.weights.values())
        return self.weights.get(use, 0.0) / total if total else 0.0


@dataclass(frozen=True, slots=True)
class TableWorkload:
    """The part of a workload that concerns one table.

    Attributes:
        queries: The queries with conditions that can be used.
        coverage: The number and the weight of all queries on the table.
        unused: The unused conditions of the queries on the table, and the statements that cannot be parsed.
        inverted: The conditions on a function of a column that are used as conditions on the column.
        unknown: The queries that may or may not read every file of the table: they cannot be parsed, or have an unused
            condition and a scan without any other condition. By another scan, such a query can be in `queries` too.
    """

    queries: tuple[TableQuery, ...]
    coverage: Coverage
    unused: tuple[Unused, ...] = ()
    inverted: tuple[Inverted, ...] = ()
    unknown: tuple[Query, ...] = ()


@dataclass(frozen=True, slots=True)
class Costs:
    """The cost of each query.

    Attributes:
        files, bytes: float64[Q] each, the number and the size of the files that the query opens.
        weights: float64[Q], the weight of the query.
    """

    files: Float64
    bytes: Float64
    weights: Float64

    @staticmethod
    def mean(each: Sequence[Costs]) -> Costs:
        """Return the mean of several costs of the same queries."""
        return Costs(
            np.mean([c.files for c in each], axis=0), np.mean([c.bytes for c in each], axis=0), each[0].weights
        )

    def with_size_ratio(self, ratio: float) -> Costs:
        """Return the costs with the bytes multiplied by a ratio."""
        return Costs(self.files, self.bytes * ratio, self.weights)

    def at_most(self, other: Costs) -> Costs:
        """Return the costs, but for each query at most those of the other."""
        return Costs(np.minimum(self.files, other.files), np.minimum(self.bytes, other.bytes), self.weights)

    def of(self, index: list[int]) -> Costs:
        """Return the costs of the queries with these indices."""
        return Costs(self.files[index], self.bytes[index], self.weights[index])

    @property
    def mean_files(self) -> float:
        """The mean number of files, weighted by the weights of the queries."""
        return float(np.average(self.files, weights=self.weights))

    @property
    def mean_bytes(self) -> float:
        """The mean number of bytes, weighted by the weights of the queries."""
        return float(np.average(self.bytes, weights=self.weights))

    @property
    def total_bytes(self) -> float:
        """The number of bytes of all queries, each times its weight."""
        return float(self.bytes @ self.weights)


@dataclass(frozen=True, slots=True)
class Choice:
    """A simulated layout.

    Attributes:
        files: The number of files of the whole table in this layout.
        costs: The cost of each query.
        touched: touched(c) of each z-order column.
        partition_by: The partitioning; None if it is that of the table.
    """

    layout: Layout
    files: int
    costs: Costs
    touched: Mapping[str, float]
    partition_by: tuple[PartitionField, ...] | None = None

    @property
    def title(self) -> str:
        """The curve, the columns with weights other than 1, and the partitioning if it is another one."""
        names = (c.name if c.weight == 1 else f"{c.name} ({c.weight:g})" for c in self.layout.columns)
        partitions = f", in partitions by {', '.join(map(str, self.partition_by))}" if self.partition_by else ""
        return f"{self.layout.curve}: {', '.join(names)}{partitions}"


@dataclass(frozen=True, slots=True)
class ColumnUse:
    """A column in the conditions of the workload.

    Attributes:
        share: The share of the weight of the queries that have a condition on it.
        distinct: The number of distinct values in the sample.
        chosen: Whether it is a z-order column of the layout that reads the fewest bytes.
        follows: Such a z-order column with which it is correlated, and the rank correlation; None if there is none.
        partition_key: Whether it is suitable for `partition_by`.
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

    Attributes:
        table, format, version: The names of the table and of its format, and the observed version.
        rows, bytes, files: The live rows of the table, and the size and the number of its files.
        sampled, seed: The number of sampled rows, and the seed of the sample.
        queries: The queries with predicates on the table.
        statements: The number of queries in the workload files.
        coverage: The number and the weight of all queries on the table.
        now: The costs of the present files.
        floor: The lowest cost of each query in any layout.
        choices: The requested layouts in their order, then the layouts that the search found.
        best: The choice with the fewest bytes read; None if it saves too little (`zlayout.advisor.study.MIN_SAVING`).
        declared: The declared layout; None if it was not simulated.
        columns: The columns in the conditions of the queries.
        steps: The best layout with 1, 2, ... columns.
        tried, seconds: The number of simulated layouts, and the duration of the study.
        interrupted: Whether the time limit ended the search.
        notes: Further sentences about the result.
        workload: The workload files.
        unused: The conditions that cannot be used.
        inverted: The conditions on functions of columns that are used as conditions on the columns.
        assumed_time: The time (UTC, naive) to which `current_date()` was set in queries without a time of their own;
            None if no such query refers to it.
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
        """The names of the columns of all steps, in the order in which the search added them."""
        return list(dict.fromkeys(c.name for step in self.steps for c in step.layout.columns))

    def __repr__(self) -> str:
        best = self.best.title if self.best else "the present files"
        return f"<{type(self).__name__} of {self.table}: {len(self.queries):,} queries, best layout {best}>"
