"""History records as plain data: what one command found and did at one table. They contain no value of a row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

# The version of the fields of a record. A history of another version is neither read nor written.
RECORD_VERSION = 1


class Command(StrEnum):
    """The command that made a record."""

    PLAN = "plan"
    DRIFT = "drift"
    APPLY = "apply"


class RecordState(StrEnum):
    """The state of a table at the end of a command."""

    AS_DECLARED = "as_declared"
    DRIFT = "drift"
    DECAY = "decay"
    FIRST_LAYOUT = "first_layout"
    REFUSED = "refused"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class ColumnRecord:
    """The metrics of one z-order column.

    Attributes:
        touched: Touched at the beginning of the command.
        floor: The lowest touched of any layout; None if it is unknown.
        predicted: The forecast of touched after a rewrite; None without a sample.
        measured: Touched after the rewrites of `apply`; None if nothing was measured.
    """

    column: str
    touched: float
    floor: float | None = None
    predicted: float | None = None
    measured: float | None = None

    @property
    def last(self) -> float:
        """Touched at the end of the command."""
        return self.touched if self.measured is None else self.measured


@dataclass(frozen=True, slots=True)
class DecayRecord:
    """The value of one decay measure in the worst partition, and its tolerance, at the beginning of the command."""

    measure: str
    value: float
    tolerance: float


@dataclass(frozen=True, slots=True)
class Record:
    """What one command found and did at one table.

    Attributes:
        time: The end of the command, in UTC.
        run_id: The run id of `apply`; for other commands an id that all records of the command share.
        layout_id: The id of the declared layout.
        state: The state of the table at the end.
        files: The number of live files at the end.
        bytes: The size of the live files at the end.
        rewrite_bytes: `apply`: the bytes that were rewritten; other commands: the bytes to rewrite.
        columns: The z-order columns; empty if the table could not be read.
        decay: The decay measures.
    """

    time: datetime
    run_id: str
    command: Command
    table: str
    layout_id: str
    state: RecordState
    files: int
    bytes: int
    rewrite_bytes: int
    columns: tuple[ColumnRecord, ...] = ()
    decay: tuple[DecayRecord, ...] = ()

    @property
    def rewrote(self) -> bool:
        """Whether the command rewrote files."""
        return self.command is Command.APPLY and self.rewrite_bytes > 0

    def row(self) -> dict[str, Any]:
        """Return the record as a row of a history: plain values, and lists of maps for columns and decay measures."""
        plain = {"command": self.command.value, "state": self.state.value}
        return {"record_version": RECORD_VERSION, **asdict(self), **plain}

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Record:
        """Return the record of a row. Raises ValueError, TypeError or KeyError if the row is not a record."""
        if row["record_version"] != RECORD_VERSION:
            raise ValueError(f"expected record version {RECORD_VERSION}, found {row['record_version']}")
        parsed = {
            "time": row["time"].astimezone(UTC),
            "command": Command(row["command"]),
            "state": RecordState(row["state"]),
            "columns": tuple(ColumnRecord(**column) for column in row["columns"]),
            "decay": tuple(DecayRecord(**decay) for decay in row["decay"]),
        }
        return cls(**{key: parsed.get(key, value) for key, value in row.items() if key != "record_version"})
