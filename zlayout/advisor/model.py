"""What advise works on and what it finds, as plain data. Shapes: Q queries, N files, P partitions, n sampled rows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zlayout.predicate.model import Predicate
from zlayout.spec.model import Layout
from zlayout.table.state import ColumnBounds, Int32, Int64
from zlayout.workload.model import Query

Float64 = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class KeySample:
    """Rows drawn from the table, all columns of length n. keys: by dotted name. partition: int32[n]."""

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
    """What a rewrite of the whole table has to spread. int64[P] each: live rows, their bytes, files to write."""

    rows: Int64
    bytes: Int64
    files: Int64


@dataclass(frozen=True, slots=True)
class FileSet:
    """Files as a reader sees them before it opens one; all of length N.

    rows: int64, of which the bounds' null counts are a part. bytes: float64. partition: int32[N].
    """

    bounds: Mapping[str, ColumnBounds]
    rows: Int64
    bytes: Float64
    partition: Int32

    def __len__(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, slots=True)
class Asked:
    """What one query asks of the table. predicates: one a scan."""

    query: Query
    predicates: tuple[Predicate, ...]

    @property
    def place(self) -> str:
        return self.query.place

    @property
    def weight(self) -> float:
        return self.query.weight


@dataclass(frozen=True, slots=True)
class TableQuery(Asked):
    """partitions: bool[P] a scan, the partitions that their values alone do not rule out."""

    partitions: tuple[Bools, ...]


@dataclass(frozen=True, slots=True)
class Costs:
    """files, bytes: float64[Q], what each query opens. weights: float64[Q]."""

    files: Float64
    bytes: Float64
    weights: Float64

    @property
    def mean_files(self) -> float:
        return float(np.average(self.files, weights=self.weights))

    @property
    def mean_bytes(self) -> float:
        return float(np.average(self.bytes, weights=self.weights))


@dataclass(frozen=True, slots=True)
class Choice:
    """One layout, simulated. touched: files that an equality query opens, by column. files: of the whole table."""

    layout: Layout
    files: int
    costs: Costs
    touched: Mapping[str, float]

    @property
    def title(self) -> str:
        weights = {c.name: c.weight for c in self.layout.columns}
        names = ", ".join(n if w == 1 else f"{n} ({w:g})" for n, w in weights.items())
        return f"{self.layout.curve}: {names}"


@dataclass(frozen=True, slots=True)
class ColumnUse:
    """A column of the workload's conditions. share: of the queries' weight. distinct: values in the sample.

    follows: a chosen column whose order it shares, and their rank correlation.
    """

    name: str
    share: float
    distinct: int
    chosen: bool
    follows: tuple[str, float] | None = None
    partition_key: bool = False


@dataclass(frozen=True, slots=True)
class Study:
    """All that `simulate` and `advise` say of one table; every report is made from it.

    choices: in the order asked for, then the one that the search found. best: of these the one with the fewest bytes
    read, None where none is better than `now`. declared: the layout of the table's spec. steps: the best layout with
    1, 2, ... columns. workload: the files. statements: queries in them; reading_all: those that read every file in any
    layout. unused: (query, condition, reason). seconds: what the search took; hurried: the time limit ended it.
    notes: sentences on what the answer presumes.
    """

    table: str
    format: str
    version: int
    rows: int
    bytes: int
    files: int
    sampled: int
    seed: int
    workload: tuple[str, ...]
    queries: tuple[TableQuery, ...]
    statements: int
    reading_all: int
    unused: tuple[tuple[str, str, str], ...]
    now: Costs
    floor: Costs
    choices: tuple[Choice, ...]
    best: Choice | None
    declared: Choice | None
    columns: tuple[ColumnUse, ...]
    steps: tuple[Choice, ...] = ()
    tried: int = 0
    seconds: float = 0.0
    hurried: bool = False
    notes: tuple[str, ...] = ()
