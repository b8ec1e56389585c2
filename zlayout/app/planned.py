"""What planning finds for one table."""

from __future__ import annotations

from dataclasses import dataclass

from zlayout.planner.decision import Decision
from zlayout.spec.model import LayoutSpec
from zlayout.table.state import TableState


@dataclass(frozen=True, slots=True)
class Planned:
    """One table: its spec, the observed state (None if it could not be read), and the decision."""

    spec: LayoutSpec
    state: TableState | None
    decision: Decision

    @property
    def identity(self) -> tuple[str, str] | None:
        """The id of the table and its location, which a copy does not have; None if it could not be read."""
        return None if self.state is None else (self.state.table_id, self.state.location)
