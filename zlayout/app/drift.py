"""Check tables for drift: compare tables with their layouts, and layouts with workloads. Changes nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from zlayout.app.arguments import require_project
from zlayout.app.concurrent_reads import PARALLELISM, TIMEOUT, Reading
from zlayout.app.history import append_and_log
from zlayout.app.plan import ProjectPlan, plan_project
from zlayout.planner.decision import PlanOptions
from zlayout.planner.model import Plan, Status, TablePlan
from zlayout.planner.run_report import RunReport
from zlayout.records.model import Command
from zlayout.report import closing, text
from zlayout.spec.model import Project


@dataclass(frozen=True, slots=True)
class DriftReport:
    """The tables that are not as declared, and those whose layout no longer fits the workload.

    Attributes:
        plan: The plan of all selected tables as plain data, for reports. `apply` does not accept it.
    """

    plan: Plan

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {closing.drift_line(self.plan)}>"

    def __str__(self) -> str:
        """The report as `zlayout drift` shows it."""
        return text.render(RunReport(self.plan, drift=True))

    @property
    def drifted(self) -> tuple[TablePlan, ...]:
        """Tables that are refused, have drift or decay above its tolerance, or whose `where` matches no partition."""
        return self.plan.not_as_declared

    @property
    def unfit(self) -> tuple[TablePlan, ...]:
        """Tables for which another layout beats the declared one by more than `tolerance.workload`."""
        return self.plan.unfit

    @property
    def failed(self) -> tuple[TablePlan, ...]:
        """Tables that could not be planned."""
        return self.plan.with_status(Status.ERROR)


def drift(
    project: Project,
    select: str | Iterable[str] = (),
    exclude: str | Iterable[str] = (),
    *,
    sample: bool | None = None,
    branch: str | None = None,
    parallelism: int = PARALLELISM,
    timeout: float = TIMEOUT,
) -> DriftReport:
    """Find tables that are not laid out as declared, or whose layout no longer fits the workload.

    Reads metadata, and with `sample` columns of some row groups.

    Args:
        project: The project, from `load_project`.
        select: Tables to check, as in `plan`. Empty: all.
        exclude: Tables to leave out.
        sample: Whether to read columns of some row groups, as in `plan`. Without a sample, layouts that no longer fit
            the workload are not found. Default: `defaults.sample` of the project.
        branch: The branch of all tables, as in `plan`.
        parallelism: The number of tables of one catalog to read at the same time.
        timeout: The limit on reading one table, in seconds, as in `plan`.

    Raises:
        SpecError: An argument, the selection or a workload file is invalid.
        TableError: A pattern matches no layout, and a catalog cannot list the tables of a rule.
    """
    require_project(project)
    found = compare(project, select, exclude, Reading(parallelism, timeout), sample, branch)
    append_and_log(project, found.planned, RunReport(found.document), Command.DRIFT)
    return DriftReport(found.document)


def compare(
    project: Project,
    select: Iterable[str],
    exclude: Iterable[str],
    reading: Reading,
    sample: bool | None = None,
    branch: str | None = None,
) -> ProjectPlan:
    """Plan tables for a drift report. Do not apply the plan: it can contain full rewrites that were not allowed."""
    # A partitioning change is reported as drift, although apply refuses it unless full rewrites are allowed.
    return plan_project(project, select, exclude, PlanOptions(allow_full_rewrite=True), reading, sample, branch)
