"""What groups of files are worth to a workload, as plain numbers by which a budget ranks them."""

from __future__ import annotations

from dataclasses import dataclass

from zlayout.planner.partitions import Floats


@dataclass(frozen=True, slots=True)
class Worth:
    """What the rewrite of each of G groups alone saves the queries of a workload.

    Attributes:
        saves: float64[G], the bytes that all executions in the workload no longer open; negative if they open more.
        executions: The number of executions in the workload that can skip files of the table.
    """

    saves: Floats
    executions: float
