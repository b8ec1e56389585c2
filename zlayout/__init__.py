"""Declarative table layout: plan and apply the layout of Delta Lake and Apache Iceberg tables.

    import zlayout

    project = zlayout.load_project("path/to/project")
    plan = zlayout.plan(project)
    report = zlayout.apply(plan, spark=spark)

Names are imported from their modules when they are first used, so that `import zlayout` is fast.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zlayout.advisor.model import Study
    from zlayout.app.advise import SampleStarted, StudyOptions, advise
    from zlayout.app.apply import apply
    from zlayout.app.drift import DriftReport, drift
    from zlayout.app.history import TableHistory, history
    from zlayout.app.import_ import ImportedLayout, import_layout
    from zlayout.app.import_workload import ImportedWorkload, import_workload
    from zlayout.app.inspect import Inspection, inspect
    from zlayout.app.plan import ProjectPlan, plan
    from zlayout.app.plan_file import read_plan, write_plan
    from zlayout.app.project import load_project
    from zlayout.app.publish import drop_trial, plan_drop_trial, plan_publish, publish
    from zlayout.app.replay import ReplayedQuery, TrialReport
    from zlayout.app.results import ApplyEvent, TableEvent, TableFinished, TableStarted
    from zlayout.app.rollback import RolledBack, plan_rollback, rollback
    from zlayout.app.trial import PlannedTrial, plan_trial, trial
    from zlayout.curve.jump import count_files, is_relevant, meets_box, next_jump_in
    from zlayout.curve.z_ranges import z_ranges
    from zlayout.errors import (
        CommitConflict,
        CommitUnknown,
        Diagnostic,
        EngineError,
        Location,
        Refused,
        SpecError,
        TableError,
        ZlayoutError,
    )
    from zlayout.formats.base import Commit, GroupFailed, Notice, Progress
    from zlayout.formats.trial import Trial
    from zlayout.formats.undo import Undo
    from zlayout.planner.model import Plan, Status, TablePlan
    from zlayout.planner.result import ResultStatus, TableResult
    from zlayout.planner.run_report import RunReport
    from zlayout.spec.layout import Layout
    from zlayout.spec.model import LayoutSpec, Project

__version__ = "0.2.0"

_NAMES = {
    "zlayout.advisor.model": "Study",
    "zlayout.app.advise": "SampleStarted StudyOptions advise",
    "zlayout.app.apply": "apply",
    "zlayout.app.results": "ApplyEvent TableEvent TableFinished TableStarted",
    "zlayout.app.drift": "DriftReport drift",
    "zlayout.app.history": "TableHistory history",
    "zlayout.app.import_": "ImportedLayout import_layout",
    "zlayout.app.import_workload": "ImportedWorkload import_workload",
    "zlayout.app.inspect": "Inspection inspect",
    "zlayout.app.plan": "ProjectPlan plan",
    "zlayout.app.plan_file": "read_plan write_plan",
    "zlayout.app.project": "load_project",
    "zlayout.app.publish": "drop_trial plan_drop_trial plan_publish publish",
    "zlayout.app.rollback": "RolledBack plan_rollback rollback",
    "zlayout.app.trial": "PlannedTrial plan_trial trial",
    "zlayout.app.replay": "ReplayedQuery TrialReport",
    "zlayout.curve.jump": "count_files is_relevant meets_box next_jump_in",
    "zlayout.curve.z_ranges": "z_ranges",
    "zlayout.errors": (
        "CommitConflict CommitUnknown Diagnostic EngineError Location Refused SpecError TableError ZlayoutError"
    ),
    "zlayout.formats.base": "Commit GroupFailed Notice Progress",
    "zlayout.formats.trial": "Trial",
    "zlayout.formats.undo": "Undo",
    "zlayout.planner.model": "Plan Status TablePlan",
    "zlayout.planner.result": "ResultStatus TableResult",
    "zlayout.planner.run_report": "RunReport",
    "zlayout.spec.layout": "Layout",
    "zlayout.spec.model": "LayoutSpec Project",
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = [
    "ApplyEvent",
    "Commit",
    "CommitConflict",
    "CommitUnknown",
    "Diagnostic",
    "DriftReport",
    "EngineError",
    "GroupFailed",
    "ImportedLayout",
    "ImportedWorkload",
    "Inspection",
    "Layout",
    "LayoutSpec",
    "Location",
    "Notice",
    "Plan",
    "PlannedTrial",
    "Progress",
    "Project",
    "ProjectPlan",
    "Refused",
    "ReplayedQuery",
    "ResultStatus",
    "RolledBack",
    "RunReport",
    "SampleStarted",
    "SpecError",
    "Status",
    "Study",
    "StudyOptions",
    "TableError",
    "TableEvent",
    "TableFinished",
    "TableHistory",
    "TablePlan",
    "TableResult",
    "TableStarted",
    "Trial",
    "TrialReport",
    "Undo",
    "ZlayoutError",
    "__version__",
    "advise",
    "apply",
    "count_files",
    "drift",
    "drop_trial",
    "history",
    "import_layout",
    "import_workload",
    "inspect",
    "is_relevant",
    "load_project",
    "meets_box",
    "next_jump_in",
    "plan",
    "plan_drop_trial",
    "plan_publish",
    "plan_rollback",
    "plan_trial",
    "publish",
    "read_plan",
    "rollback",
    "trial",
    "write_plan",
    "z_ranges",
]


if not TYPE_CHECKING:  # a type checker would accept every name

    def __getattr__(name: str) -> object:
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(_MODULE_OF[name]), name)
        globals()[name] = value  # the next access does not call this function
        return value


def __dir__() -> list[str]:
    return __all__
