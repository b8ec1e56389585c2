"""The files that a plan rewrites, as `zlayout.planner.select` found them."""

from __future__ import annotations

from dataclasses import dataclass

from zlayout.planner.actions import Reason
from zlayout.planner.model import Decay
from zlayout.planner.partitions import Floats, Index


@dataclass(frozen=True, slots=True)
class SelectedFiles:
    """The files of one group (int64 indices into the file table), and the reason for their rewrite."""

    files: Index
    reason: Reason


@dataclass(frozen=True, slots=True)
class FileSelection:
    """The files to rewrite, and the predicted result.

    Attributes:
        groups: The groups of files.
        touched: float64[P, d], predicted for each partition.
        files: int64[P], the predicted number of files of each partition.
        decay: The decay measures of the worst partition.
        out_of_scope: The number of partitions that are out of scope.
        partially_matched: The number of these that are partially matched.
        moves: Whether the partitioning changes, so that nothing can be predicted for the present partitions.
        adopted: The number of adopted files that are not rewritten.
        adopted_partitions: The number of partitions that have them.
        left_out: The number of groups that a budget is not spent on, because their rewrite gains nothing.
        left_out_files: The number of files of these groups.
        left_out_bytes: The size of these files.
        hot: The groups of files that wait, because their partitions are hot.
        rarely_read: The groups of files that wait, because the workload rarely reads their partitions. They count as
            within tolerance: neither `decay` nor `every_group` contains them.
    """

    groups: tuple[SelectedFiles, ...]
    touched: Floats
    files: Index
    decay: tuple[Decay, ...]
    out_of_scope: int
    partially_matched: int
    moves: bool = False
    adopted: int = 0
    adopted_partitions: int = 0
    left_out: int = 0
    left_out_files: int = 0
    left_out_bytes: int = 0
    hot: tuple[SelectedFiles, ...] = ()
    rarely_read: tuple[SelectedFiles, ...] = ()

    @property
    def every_group(self) -> tuple[SelectedFiles, ...]:
        """The groups of files to rewrite, now or later."""
        return (*self.groups, *self.hot)
