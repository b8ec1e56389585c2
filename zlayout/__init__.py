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

if TYPE_CHECKING:  # the alias makes a name public for type checkers
    from zlayout.advisor.model import Study as Study
    from zlayout.curve.z_ranges import count_files as count_files
    from zlayout.curve.z_ranges import is_relevant as is_relevant
    from zlayout.curve.z_ranges import meets_box as meets_box
    from zlayout.curve.z_ranges import next_jump_in as next_jump_in
    from zlayout.curve.z_ranges import z_ranges as z_ranges
    from zlayout.errors import CommitConflict as CommitConflict
    from zlayout.errors import CommitUnknown as CommitUnknown
    from zlayout.errors import Diagnostic as Diagnostic
    from zlayout.errors import EngineError as EngineError
    from zlayout.errors import Location as Location
    from zlayout.errors import Refused as Refused
    from zlayout.errors import SpecError as SpecError
    from zlayout.errors import TableError as TableError
    from zlayout.errors import ZlayoutError as ZlayoutError
    from zlayout.formats.base import Commit as Commit
    from zlayout.formats.base import GroupFailed as GroupFailed
    from zlayout.formats.base import Notice as Notice
    from zlayout.formats.base import Progress as Progress
    from zlayout.formats.base import Stage as Stage
    from zlayout.formats.trial import Trial as Trial
    from zlayout.formats.undo import Undo as Undo
    from zlayout.planner.actions import Reason as Reason
    from zlayout.planner.actions import RewriteGroup as RewriteGroup
    from zlayout.planner.model import Plan as Plan
    from zlayout.planner.model import Status as Status
    from zlayout.planner.model import TablePlan as TablePlan
    from zlayout.planner.run_report import ResultStatus as ResultStatus
    from zlayout.planner.run_report import RunReport as RunReport
    from zlayout.planner.run_report import TableResult as TableResult
    from zlayout.planner.work import PlanOptions as PlanOptions
    from zlayout.session.advise import SampleStarted as SampleStarted
    from zlayout.session.advise import StudyOptions as StudyOptions
    from zlayout.session.advise import advise as advise
    from zlayout.session.history import TableHistory as TableHistory
    from zlayout.session.history import history as history
    from zlayout.session.import_ import ImportedLayout as ImportedLayout
    from zlayout.session.import_ import ImportedWorkload as ImportedWorkload
    from zlayout.session.import_ import import_layout as import_layout
    from zlayout.session.import_ import import_workload as import_workload
    from zlayout.session.inspect import Inspection as Inspection
    from zlayout.session.inspect import inspect as inspect
    from zlayout.session.plan import ProjectPlan as ProjectPlan
    from zlayout.session.plan_file import write_plan as write_plan
    from zlayout.session.project import load_project as load_project
    from zlayout.session.results import Applied as Applied
    from zlayout.session.results import ApplyEvent as ApplyEvent
    from zlayout.session.results import TableEvent as TableEvent
    from zlayout.session.results import TableFinished as TableFinished
    from zlayout.session.results import TableStarted as TableStarted
    from zlayout.session.session import DriftReport as DriftReport
    from zlayout.session.session import RolledBack as RolledBack
    from zlayout.session.session import apply as apply
    from zlayout.session.session import drift as drift
    from zlayout.session.session import drop_trial as drop_trial
    from zlayout.session.session import plan as plan
    from zlayout.session.session import plan_rollback as plan_rollback
    from zlayout.session.session import publish as publish
    from zlayout.session.session import read_plan as read_plan
    from zlayout.session.session import rollback as rollback
    from zlayout.session.session import trial as trial
    from zlayout.session.trial import PlannedTrial as PlannedTrial
    from zlayout.session.trial import ReplayedQuery as ReplayedQuery
    from zlayout.session.trial import TrialReport as TrialReport
    from zlayout.session.trial import plan_drop_trial as plan_drop_trial
    from zlayout.session.trial import plan_publish as plan_publish
    from zlayout.session.trial import plan_trial as plan_trial
    from zlayout.spark.configuration import spark_conf as spark_conf
    from zlayout.spec.model import Layout as Layout
    from zlayout.spec.model import LayoutSpec as LayoutSpec
    from zlayout.spec.model import Project as Project

__version__ = "0.2.0"

_NAMES = {
    "zlayout.advisor.model": "Study",
    "zlayout.session.advise": "SampleStarted StudyOptions advise",
    "zlayout.session.results": "Applied ApplyEvent TableEvent TableFinished TableStarted",
    "zlayout.session.plan": "ProjectPlan",
    "zlayout.session.history": "TableHistory history",
    "zlayout.session.import_": "ImportedLayout ImportedWorkload import_layout import_workload",
    "zlayout.session.inspect": "Inspection inspect",
    "zlayout.session.plan_file": "write_plan",
    "zlayout.session.project": "load_project",
    "zlayout.session.session": (
        "DriftReport RolledBack apply drift drop_trial plan plan_rollback publish read_plan rollback trial"
    ),
    "zlayout.session.trial": "PlannedTrial ReplayedQuery TrialReport plan_drop_trial plan_publish plan_trial",
    "zlayout.curve.z_ranges": "count_files is_relevant meets_box next_jump_in z_ranges",
    "zlayout.errors": (
        "CommitConflict CommitUnknown Diagnostic EngineError Location Refused SpecError TableError ZlayoutError"
    ),
    "zlayout.formats.base": "Commit GroupFailed Notice Progress Stage",
    "zlayout.formats.trial": "Trial",
    "zlayout.formats.undo": "Undo",
    "zlayout.planner.actions": "Reason RewriteGroup",
    "zlayout.planner.model": "Plan Status TablePlan",
    "zlayout.planner.run_report": "ResultStatus RunReport TableResult",
    "zlayout.planner.work": "PlanOptions",
    "zlayout.spark.configuration": "spark_conf",
    "zlayout.spec.model": "Layout LayoutSpec Project",
}
_MODULE_OF = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = sorted([*_MODULE_OF, "__version__"])


if not TYPE_CHECKING:  # a type checker would accept every name

    def __getattr__(name: str) -> object:
        if name not in _MODULE_OF:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(_MODULE_OF[name]), name)
        globals()[name] = value  # the next access does not call this function
        return value


def __dir__() -> list[str]:
    return __all__
