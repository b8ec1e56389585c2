"""Runs of apply on one table with nobody listening, as most tests need them."""

from typing import Any

from zlayout.formats.base import Backend
from zlayout.planner.work import PlanOptions
from zlayout.session.apply import apply_table
from zlayout.session.plan import PlannedTable, plan_table
from zlayout.session.results import Applied, new_run
from zlayout.spec.model import LayoutSpec

OPTIONS = PlanOptions()


def _ignore(*_: Any) -> None:
    """Nobody listens."""


def apply_planned(planned: PlannedTable, backend: Backend, options: PlanOptions = OPTIONS, **settings: Any) -> Applied:
    """Apply a plan and return the run, failed or not. settings: `verify`, `attempts` and `notify`."""
    applied = new_run(planned)
    apply_table(planned, backend, options, applied, settings.pop("notify", _ignore), _ignore, **settings)
    return applied


def plan_and_apply(
    spec: LayoutSpec, backend: Backend, options: PlanOptions = OPTIONS, **settings: Any
) -> tuple[PlannedTable, Applied]:
    """Plan one table and apply the plan, which must not fail."""
    planned = plan_table(spec, backend, options)
    applied = apply_planned(planned, backend, options, **settings)
    if applied.error is not None:
        raise applied.error
    assert applied.after is not None
    return planned, applied
