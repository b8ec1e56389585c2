"""A trial: a branch on which a layout is applied before the table has it.

The functions of this module decide what may be published and dropped, given what a format has read. Only rewrites by
zlayout are published, because only their rows were compared with those of the table.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from zlayout.errors import Refused
from zlayout.spec.model import TableName
from zlayout.text import first_of

# Each branch that zlayout made has a table property of its own: `zlayout.trial.NAME`.
TRIAL = "zlayout.trial"
MAX_NAMED = 3  # maximum number of commits that a message lists


@dataclass(frozen=True, slots=True)
class TrialCommit:
    """A commit of a branch or of main.

    Attributes:
        version: The version that it made.
        operation: The operation, as the format names it.
        run_id: The run of zlayout that made it; '' for another writer.
        rewrite: Whether it replaced files and kept all rows.
    """

    version: int
    operation: str
    run_id: str
    rewrite: bool

    @property
    def by_zlayout(self) -> bool:
        """Whether it is a rewrite by zlayout."""
        return self.rewrite and bool(self.run_id)

    def __str__(self) -> str:
        return f"{self.version} ({self.operation}{f' of run {self.run_id}' if self.run_id else ''})"


@dataclass(frozen=True, slots=True)
class Reads:
    """The bytes that a query reads of the table and of its trial: the mean, weighted by executions."""

    main: int
    trial: int

    @property
    def verdict(self) -> Literal["better", "equal", "worse"]:
        """What the trial is, compared with the table."""
        return "equal" if self.trial == self.main else "better" if self.trial < self.main else "worse"

    def __str__(self) -> str:
        if self.verdict == "equal":
            return "the queries read as many bytes of the trial as of the table"
        change = (self.trial - self.main) / self.main if self.main else math.inf
        share = "less than 1 %" if abs(change) < 0.01 else f"{100 * min(abs(change), 10):.0f} %"
        more = ("over " if change > 10 else "") + f"{share} {'more' if self.verdict == 'worse' else 'fewer'}"
        return f"the queries read {more} bytes of the trial than of the table"


@dataclass(frozen=True, slots=True)
class Trial:
    """A trial of a table, as it was read from metadata.

    Attributes:
        table: The table on the branch of the trial.
        marked: Whether zlayout made the branch.
        main: The newest snapshot of main; -1 if main has none.
        version: The newest version of the trial.
        commits: The commits of the trial that main does not have, the oldest first.
        moved: The commits of main that the branch does not have, the oldest first.
        known: Whether the version from which the trial was made is known. It is unknown after it has expired.
        reads: What a query of the workload reads, as `trial` measured it of this version; None if it did not.
    """

    table: TableName
    format: str
    table_id: str
    marked: bool
    main: int
    version: int
    commits: tuple[TrialCommit, ...]
    moved: tuple[TrialCommit, ...] = ()
    known: bool = True
    reads: Reads | None = None

    @property
    def others(self) -> tuple[TrialCommit, ...]:
        """The commits of the trial that are not rewrites by zlayout."""
        return tuple(commit for commit in self.commits if not commit.by_zlayout)

    @property
    def published(self) -> bool:
        """Whether main has every commit of the branch."""
        return self.known and not self.commits


def require_publishable(trial: Trial, *, allow_worse: bool) -> None:
    """Check that main can be fast-forwarded to the branch without a change of rows.

    Args:
        trial: The trial.
        allow_worse: Whether queries may read more of it than of the table.

    Raises:
        Refused: ZL250, if main has changed; ZL251, if the branch has other commits than rewrites by zlayout; ZL256, if
            `trial` measured that queries read more of it.
    """
    branch, main = trial.table.branch, trial.table.on("")
    if trial.moved or not trial.known:
        since = f"by {_listed(trial.moved)}" if trial.known else "they have no snapshot in common"
        raise Refused.of(
            "ZL250",
            f"{main}: main has changed since branch {branch} was made ({since}), and publish would lose this change",
            hint=f"apply to main with `zlayout apply {main} --branch main`, or make the trial again: "
            f"`zlayout drop-trial {main} --branch {branch}` and `zlayout trial`",
        )
    if trial.others:
        raise Refused.of(
            "ZL251",
            f"{main}: branch {branch} has commits that are not rewrites by zlayout: {_listed(trial.others)}; "
            "publish would make their rows visible on main",
            hint="if main should have these rows, use the procedure fast_forward of Iceberg",
        )
    if trial.reads is not None and trial.reads.verdict == "worse" and not allow_worse:
        drop = f"`zlayout drop-trial {main} --branch {branch}`"
        raise Refused.of(
            "ZL256",
            f"{main}: {trial.reads}, as the trial on branch {branch} measured",
            hint=f"remove it with {drop} and change the layout; --allow-worse publishes it",
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


def require_droppable(trial: Trial) -> None:
    """Check that the trial can be dropped without the loss of a commit by another writer.

    Raises:
        Refused: ZL252, if zlayout did not make it. ZL253, if it may have commits that are not rewrites by zlayout.
    """
    by_hand = f"if it is no longer needed, remove it with ALTER TABLE ... DROP BRANCH {trial.table.branch}"
    if not trial.marked:
        message = f"{trial.table}: zlayout did not make this branch for a trial of the table"
        raise Refused.of("ZL252", message, hint=by_hand)
    if trial.others or not trial.known:
        found = _listed(trial.others) if trial.known else "its first commits have expired"
        raise Refused.of(
            "ZL253",
            f"{trial.table}: it may have commits that are not rewrites by zlayout, which would be lost: {found}",
            hint=by_hand.replace("it is", "they are", 1),
        )


def _listed(commits: Sequence[TrialCommit]) -> str:
    return first_of([str(commit) for commit in commits], MAX_NAMED)
