"""What apply did to one table, as plain data beside what was planned."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from zlayout.errors import Diagnostic
from zlayout.planner.picture import Boxes, StripCell


class Outcome(StrEnum):
    """How an apply left a table."""

    AS_DECLARED = "as_declared"
    WITHIN_BUDGET = "within_budget"
    NOT_YET = "not_yet"
    FAILED = "failed"
    UNKNOWN = "unknown"
    INTERRUPTED = "interrupted"


@dataclass(frozen=True, slots=True)
class MeasuredColumn:
    """touched, depth and overlaps of one z-order column, measured again after the run, with the depth histogram."""

    column: str
    touched: float
    depth: float
    overlaps: float
    depth_histogram: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class TableResult:
    """What a run left. Byte counts are of files on disk; problems is empty where the table is as declared now.

    outcome: as_declared; within_budget (all that a byte budget allowed); not_yet (some groups met concurrent
    changes); failed; unknown (a commit's outcome, or the table could not be read again); interrupted (by a person).
    columns and size_histogram are measured afresh, empty where that was not reached; boxes and strip likewise, for
    the HTML report, where one was asked for.
    """

    run_id: str
    outcome: Outcome
    commits: int
    files_removed: int
    files_added: int
    bytes_added: int
    problems: tuple[Diagnostic, ...] = ()
    columns: tuple[MeasuredColumn, ...] = ()
    size_histogram: tuple[tuple[str, int], ...] = ()
    boxes: Boxes | None = None
    strip: tuple[StripCell, ...] = ()

    @property
    def succeeded(self) -> bool:
        """Whether the table is as declared, or as far as a byte budget allows."""
        return self.outcome in (Outcome.AS_DECLARED, Outcome.WITHIN_BUDGET)
