"""What a run predicted, measured and cost, and how its commits store it.

Each commit stores up to three properties in JSON:

- TOUCHED has one entry per z-order column: the column, and predicted and measured touched in the table. For example,
  `[["a",4.1,4.3],["b",null,12]]`.
- COST has the bytes that the run has rewritten and the seconds that this took, for example `[1048576,8.5]`.
- QUERY_COST has the predicted number of files and bytes that a query of the workload opens, for example
  `[2.5,1048576]`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from zlayout.planner.model import QueryCost
from zlayout.reading import parse_json
from zlayout.table.baseline import SIGNIFICANT_DIGITS

TOUCHED = "zlayout.touched"
COST = "zlayout.cost"
QUERY_COST = "zlayout.asked"
# A longer text is neither stored nor read.
MAX_CHARACTERS = 4096


@dataclass(frozen=True, slots=True)
class RunColumn:
    """Touched of one z-order column over all partitions.

    Attributes:
        predicted: The prediction of the plan; None if it had none.
        measured: The value directly after the commit.
    """

    column: str
    predicted: float | None
    measured: float


@dataclass(frozen=True, slots=True)
class RunCost:
    """What a run has rewritten up to a commit.

    Attributes:
        bytes: The size of the files that were replaced.
        seconds: The time from the first read of a row to the commit.
    """

    bytes: int
    seconds: float


@dataclass(frozen=True, slots=True)
class RunMetrics:
    """The metrics that the newest commit of a run stored.

    Attributes:
        version: The version that the commit made.
        columns: Predicted and measured touched; empty if they are not stored or cannot be read.
        cost: Bytes and seconds of the rewrite; None if they are not stored or cannot be read.
        query_cost: The prediction of what a query of the workload opens after the run; None if it is not stored or
            cannot be read.
    """

    run_id: str
    version: int
    columns: tuple[RunColumn, ...]
    cost: RunCost | None = None
    query_cost: QueryCost | None = None

    @property
    def bytes_per_second(self) -> float | None:
        """The rewritten bytes per second; None if they are unknown."""
        return self.cost.bytes / self.cost.seconds if self.cost and self.cost.seconds and self.cost.bytes else None


def run_metrics(run_id: str, version: int, columns: tuple[RunColumn, ...], stored: Mapping[str, object]) -> RunMetrics:
    """Return the metrics of a run. stored: the properties of its newest commit."""
    return RunMetrics(run_id, version, columns, parse_cost(stored.get(COST)), parse_query_cost(stored.get(QUERY_COST)))


def render_touched(columns: tuple[RunColumn, ...]) -> str | None:
    """Return the text of TOUCHED; None if there is no column, or if the text is longer than MAX_CHARACTERS."""
    entries = [
        [c.column, None if c.predicted is None else _rounded(c.predicted), _rounded(c.measured)] for c in columns
    ]
    text = json.dumps(entries, separators=(",", ":"))
    return text if entries and len(text) <= MAX_CHARACTERS else None


def parse_touched(text: object) -> tuple[RunColumn, ...]:
    """Parse the text of TOUCHED. Return an empty tuple for anything that `render_touched` cannot have written."""
    entries = _items(text)
    return tuple(RunColumn(*entry) for entry in entries) if all(map(_is_column, entries)) else ()


def render_cost(cost: RunCost) -> str:
    """Return the text of COST."""
    return json.dumps([cost.bytes, _rounded(cost.seconds)], separators=(",", ":"))


def parse_cost(text: object) -> RunCost | None:
    """Parse the text of COST. Return None for anything that `render_cost` cannot have written."""
    found = _items(text)
    return RunCost(*found) if _is_pair(found) and isinstance(found[0], int) else None


def render_query_cost(cost: QueryCost) -> str:
    """Return the text of QUERY_COST."""
    return json.dumps([_rounded(cost.files), cost.bytes], separators=(",", ":"))


def parse_query_cost(text: object) -> QueryCost | None:
    """Parse the text of QUERY_COST. Return None for anything that `render_query_cost` cannot have written."""
    found = _items(text)
    return QueryCost(*found) if _is_pair(found) and isinstance(found[1], int) else None


def _items(text: object) -> list[Any]:
    if not isinstance(text, str) or len(text) > MAX_CHARACTERS:
        return []
    try:
        found = parse_json(text)
    except ValueError:
        return []
    return found if isinstance(found, list) else []


def _is_pair(items: Sequence[object]) -> bool:
    return len(items) == 2 and all(map(_is_number, items))


def _is_column(entry: object) -> bool:
    match entry:
        case [str(), predicted, measured]:
            return (predicted is None or _is_number(predicted)) and _is_number(measured)
    return False


def _is_number(value: object) -> bool:
    return type(value) in (int, float) and isinstance(value, int | float) and 0 <= value < math.inf


def _rounded(value: float) -> float:
    return float(f"{value:.{SIGNIFICANT_DIGITS}g}")
