"""Stopping a running rewrite at a named point, to let something else happen there."""

from collections.abc import Callable
from typing import Any, Literal

import pytest
from spark.faults.tables import Table
from support.runs import apply_planned

from zlayout.formats.base import Commit, Event, Progress, Stage
from zlayout.formats.delta.write.jvm import DeltaJvm
from zlayout.formats.iceberg.write.staging import Staged
from zlayout.planner.work import PlanOptions
from zlayout.rewrite.gate import Gate
from zlayout.session.apply import apply_table
from zlayout.session.plan import plan_table
from zlayout.session.results import Applied, new_run

OPTIONS = PlanOptions()

# in the order of a run: files are chosen; the snapshot is pinned; files are written; the gate is passed; the last look
POINTS = ("after plan", "before write", "before gate", "before commit", "before send", "after commit")
_STAGES = {"before write": Stage.REWRITING, "before commit": Stage.COMMITTING}
_CALLS = {"before gate": ((Gate, "check"),), "before send": ((DeltaJvm, "require_files"), (Staged, "require_files"))}


class Pause:
    """Does one thing, once, when a run comes to a point. Give `notify` and `announce` to the run."""

    def __init__(self, point: str, action: Callable[[], object], patch: pytest.MonkeyPatch) -> None:
        self._point = point
        self._waiting = [action]
        for owner, name in _CALLS.get(point, ()):
            patch.setattr(owner, name, self._before(getattr(owner, name)))

    @property
    def reached(self) -> bool:
        return not self._waiting

    def start(self) -> None:
        """The run has its plan."""
        if self._point == "after plan":
            self._act()

    def notify(self, progress: Progress) -> None:
        if progress.stage is _STAGES.get(self._point):
            self._act()

    def announce(self, _table: str, event: Event) -> None:
        if self._point == "after commit" and isinstance(event, Commit):
            self._act()

    def _before(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def act_and_call(*arguments: Any, **named: Any) -> Any:
            self._act()
            return call(*arguments, **named)

        return act_and_call

    def _act(self) -> None:
        if self._waiting:
            self._waiting.pop()()


def run(table: Table) -> Applied:
    """Plan and apply, undisturbed."""
    return apply_planned(plan_table(table.spec, table.backend, OPTIONS), table.backend, OPTIONS)


def run_with(
    table: Table,
    point: str,
    action: Callable[[], object],
    patch: pytest.MonkeyPatch,
    verify: Literal["gate", "full"] = "gate",
) -> Applied:
    """Plan and apply, with `action` at the point, which must be reached."""
    planned = plan_table(table.spec, table.backend, OPTIONS)
    assert planned.plan.status == "changes", planned.plan.diagnostics
    applied = new_run(planned)
    with patch.context() as during:
        pause = Pause(point, action, during)
        pause.start()
        apply_table(planned, table.backend, OPTIONS, applied, pause.notify, pause.announce, verify)
    assert pause.reached, f"the run never came to the point {point!r}: {applied}"
    return applied


def _ignore(*_: object) -> None:
    """Nobody listens."""
