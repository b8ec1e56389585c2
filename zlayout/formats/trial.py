"""A trial: a branch (Iceberg) or a shallow clone (Delta) on which a layout is applied before the table itself.

The functions here decide what may be published and dropped, given what a format has read. Only rewrites by zlayout are
published, because only their rows were compared with those of the table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from zlayout.errors import Refused
from zlayout.spec.model import CatalogConfig, TableName
from zlayout.table.state import TableState

# The table property that marks a trial. On Iceberg, each branch has its own: `zlayout.trial.NAME`.
TRIAL = "zlayout.trial"
MAX_NAMED = 3  # commits that a message names


@dataclass(frozen=True, slots=True)
class Made:
    """A commit. run_id: the run of zlayout that made it, '' for another writer. rewrite: whether it keeps all rows."""

    version: int
    operation: str
    run_id: str
    rewrite: bool

    @property
    def by_zlayout(self) -> bool:
        return self.rewrite and bool(self.run_id)

    def __str__(self) -> str:
        return f"{self.version} ({self.operation}{f' of run {self.run_id}' if self.run_id else ''})"


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial of a table, as its metadata shows it.

    Attributes:
        table: The table, on the branch of the trial; of a clone, the name of the clone.
        table_id: The id of the table; of a clone, its own id.
        location: The location of a clone; '' for a branch.
        marked: Whether zlayout made the branch or the clone.
        main: The newest snapshot of main; -1 for a clone.
        version: The newest version of the trial.
        commits: The commits of the trial that main does not have, the oldest first.
        moved: The commits of main that the trial does not have, the oldest first. Not known for a clone.
        known: Whether the version from which the trial was made is known; it may have expired.
    """

    table: TableName
    format: str
    table_id: str
    location: str
    marked: bool
    main: int
    version: int
    commits: tuple[Made, ...]
    moved: tuple[Made, ...] = ()
    known: bool = True

    @property
    def others(self) -> tuple[Made, ...]:
        """The commits of the trial that are not rewrites by zlayout."""
        return tuple(made for made in self.commits if not made.by_zlayout)

    @property
    def published(self) -> bool:
        """Whether main has every commit of the branch."""
        return self.known and not self.commits


class Trials(Protocol):
    """What a format provides for the trials of the tables of one catalog."""

    def placed(self, table: TableName, where: str) -> tuple[CatalogConfig, TableName]:
        """Return the catalog and the name by which a trial is planned and applied.

        Args:
            where: The name of the branch, or the location of the clone.
        """
        ...

    def read(self, table: TableName, where: str) -> Trial | None:
        """Read a trial without a JVM; None if there is no branch of this name, or nothing at this location.

        Raises:
            Refused: If the name is that of a tag, or if something else is at the location.
            TableError: If the metadata cannot be read.
        """
        ...

    def rows(self, trial: Trial) -> tuple[int, int] | None:
        """Return the numbers of live rows of main and of the branch; None if they are not known exactly."""
        ...

    def begin(self, table: TableName, state: TableState, where: str) -> None:
        """Create the branch or the clone of a table at the observed version.

        Raises:
            Refused: If the branch or the location of the clone cannot be used. Nothing was written.
            EngineError: If nothing was committed, or CommitUnknown.
        """
        ...

    def publish(self, trial: Trial) -> None:
        """Fast-forward main to the branch, if neither has changed since the trial was read.

        Raises:
            Refused: If the format has no branches.
            EngineError: If nothing was committed, or CommitUnknown.
        """
        ...

    def drop(self, trial: Trial) -> None:
        """Remove the branch or the clone, if it has not changed since the trial was read.

        Raises:
            Refused: If the clone has files of other writers. Nothing was removed.
            EngineError: If nothing was committed, or CommitUnknown.
        """
        ...


def require_publishable(trial: Trial) -> None:
    """Check that main can be fast-forwarded to the branch without a change of rows.

    Raises:
        Refused: ZL250, ZL251.
    """
    branch, main = trial.table.branch, trial.table.on("")
    if trial.moved or not trial.known:
        since = f"by {_named(trial.moved)}" if trial.known else "they have no snapshot in common"
        raise Refused.of(
            "ZL250",
            f"{main}: main has changed since branch {branch} was made ({since}), and publish would lose this change",
            hint=f"apply to main with `zlayout apply {main} --branch main`, or make the trial again: "
            f"`zlayout drop-trial {main} --branch {branch}` and `zlayout trial`",
        )
    if trial.others:
        raise Refused.of(
            "ZL251",
            f"{main}: branch {branch} has commits that are not rewrites by zlayout: {_named(trial.others)}; "
            "publish would make their rows visible on main",
            hint="if main should have these rows, use the procedure fast_forward of Iceberg",
        )


def require_rows(trial: Trial, rows: tuple[int, int] | None) -> None:
    """Check that main and the branch have the same number of live rows, if it is known. Raises Refused ZL255."""
    if rows is not None and rows[0] != rows[1]:
        main = trial.table.on("")
        raise Refused.of(
            "ZL255",
            f"{main} has {rows[0]} live rows on main and {rows[1]} on branch {trial.table.branch}",
            hint="keep main as it is, and report this error: rewrites by zlayout keep all rows",
        )


def require_marked(trial: Trial) -> None:
    """Check that zlayout made the trial. Raises Refused ZL252."""
    if not trial.marked:
        kind = f"clone at {trial.location}" if trial.location else "branch"
        raise Refused.of(
            "ZL252",
            f"{trial.table}: zlayout did not make this {kind} for a trial of the table",
            hint=f"if it is no longer needed, remove it with {_by_hand(trial)}",
        )


def require_droppable(trial: Trial) -> None:
    """Check that zlayout made the trial, and that no other writer has committed to it.

    Raises:
        Refused: ZL252, ZL253.
    """
    require_marked(trial)
    if trial.others or not trial.known:
        found = _named(trial.others) if trial.known else "its first commits have expired"
        raise Refused.of(
            "ZL253",
            f"{trial.table}: it may have commits that are not rewrites by zlayout, which would be lost: {found}",
            hint=f"if they are no longer needed, remove it with {_by_hand(trial)}",
        )


def _by_hand(trial: Trial) -> str:
    return "the tools of the storage" if trial.location else f"ALTER TABLE ... DROP BRANCH {trial.table.branch}"


def _named(commits: Sequence[Made]) -> str:
    shown = ", ".join(map(str, commits[:MAX_NAMED]))
    return shown + (f" and {len(commits) - MAX_NAMED} more" if len(commits) > MAX_NAMED else "")
