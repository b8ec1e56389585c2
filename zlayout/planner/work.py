"""What the planner gives to a backend: a table with its plan (`PlannedTable`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from zlayout.errors import CommitConflict, Diagnostic
from zlayout.planner.model import (
    READS_MORE,
    Action,
    ChangeClustering,
    RewriteGroup,
    Status,
    TablePlan,
    TruncatedBounds,
    parts_of,
)
from zlayout.planner.selection import Group, acceptance
from zlayout.spec.model import CLUSTERING_CURVE, Layout, LayoutSpec, TableName
from zlayout.table.state import FileTable, PartitionField, TableState

# The limit on the size of the column chunks that are read for one sample, in bytes.
SAMPLE_BYTES = 16 * 2**20


@dataclass(frozen=True, slots=True)
class PlannedTable:
    """The plan of one table, with what is known only while zlayout runs and is no part of the plan document.

    A backend carries it out. `apply` divides it into parts, which have some of its actions.

    Attributes:
        spec: The layout spec, with the column names of the table.
        state: The observed table; None if it could not be read.
        plan: The plan.
        pinned: The group of each `RewriteGroup`, by group id; empty unless the status of the plan is `changes`.
        truncated: The columns whose bounds the properties of the plan make longer.
        after: The files of the partition that a picture shows, as a simulation on a sample predicts them after the
            rewrite; None without a sample, or if some of them could not be simulated. They have bounds of only the
            columns of the picture.
        run_id: The run id, which is stored with each commit; empty until the plan is carried out.
        verify: `full` if the written files are read back before the commit.
        predictions: Returns the predicted touched after the whole plan, by z-order column; without columns that have
            none. It may wait for a sample of the rows.
        has_time: Returns whether the time limit of the run leaves time for what can also be left out.
        completes: Whether nothing of the plan is left after these actions.
    """

    spec: LayoutSpec
    state: TableState | None
    plan: TablePlan
    pinned: Mapping[str, Group] = field(default_factory=dict)
    truncated: tuple[TruncatedBounds, ...] = ()
    after: FileTable | None = None
    run_id: str = ""
    verify: Literal["gate", "full"] = "gate"
    predictions: Callable[[], Mapping[str, float]] = dict
    has_time: Callable[[], bool] = lambda: True
    completes: bool = True

    @property
    def table(self) -> TableName:
        """The name of the table, with its branch."""
        return self.spec.table

    @property
    def identity(self) -> tuple[str, str] | None:
        """The id and the location of the table; None if it could not be read. A copy has another location."""
        return None if self.state is None else (self.state.table_id, self.state.location)

    @property
    def layout(self) -> Layout:
        """The declared layout, with column ids if the table has them."""
        layout = self.spec.layout
        ids = [] if self.state is None else [column.id for column in self.state.columns_of(self.spec.column_names)]
        return layout.identified(ids) if ids and all(ids) else layout

    @property
    def properties(self) -> tuple[tuple[str, str], ...]:
        """Names and values of the table properties to set."""
        return tuple((change.name, change.after) for change in self.plan.properties)

    @property
    def partition_by(self) -> tuple[PartitionField, ...] | None:
        """The partitioning to change to; None if it does not change."""
        return None if self.plan.partitioning is None else self.spec.partition_by or ()

    @property
    def cluster_by(self) -> tuple[str, ...] | None:
        """The clustering columns to change to; None if they do not change."""
        return next((action.after for action in self.plan.actions if isinstance(action, ChangeClustering)), None)

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups to rewrite with their files."""
        return tuple(self.pinned[action.id] for action in self.plan.groups if action.id in self.pinned)

    @property
    def covers_table(self) -> bool:
        """Whether the groups contain all files of the table, and no `where` is declared.

        If so, engine native rewrites the table without a filter, including files that were added after the plan. If the
        spec has `where`, such files may be out of scope.
        """
        return self.spec.where is None and sum(len(group.files) for group in self.groups) == self.plan.files

    @property
    def accepts(self) -> str:
        """The acceptance to store after all groups are committed (see `zlayout.planner.selection`).

        It is empty if the plan leaves groups for a later run.
        """
        return acceptance(self.spec) if self.completes and not self.plan.waiting else ""

    @property
    def version(self) -> int:
        """The version that was planned from; -1 for a table without a snapshot."""
        return -1 if self.plan.version is None else self.plan.version

    @property
    def table_id(self) -> str | None:
        """The id of the table that was planned; None if the plan does not state one."""
        return None if self.plan.requirements is None else self.plan.requirements.table_id

    def with_rewrites(self, rewrites: Iterable[RewriteGroup]) -> PlannedTable:
        """Return this table with these groups to rewrite in place of its own. Its other actions stay."""
        others = (action for action in self.plan.actions if not isinstance(action, RewriteGroup))
        return self.with_actions(*others, *rewrites)

    def with_actions(self, *actions: Action) -> PlannedTable:
        """Return this table with these actions in place of its own."""
        return replace(self, plan=replace(self.plan, actions=actions))

    def noting(self, *diagnostics: Diagnostic) -> PlannedTable:
        """Return this table with more diagnostics in its plan."""
        return replace(self, plan=replace(self.plan, diagnostics=(*self.plan.diagnostics, *diagnostics)))

    def refused(self, found: Sequence[Diagnostic]) -> PlannedTable:
        """Return this table refused, because of facts that are known only after the files to rewrite are chosen."""
        kept = tuple(d for d in self.plan.diagnostics if d.code != READS_MORE)
        plan = replace(self.plan, status=Status.REFUSED, columns=(), files_after=None, diagnostics=(*found, *kept))
        return replace(self, plan=plan, pinned={})

    def require_planned(
        self,
        properties: Mapping[str, str],
        partition_by: Sequence[PartitionField],
        clustering: tuple[str, ...] | None = None,
    ) -> None:
        """Check that the settings which the plan changes are as planned, and the clustering columns too.

        A setting that already has the value that the plan sets is accepted.

        Args:
            properties: The present table properties.
            partition_by: The present partitioning.
            clustering: The present clustering columns; None if the format does not cluster the table.

        Raises:
            CommitConflict: ZL320, if another writer changed one of them.
        """
        self.require_clustering(clustering)
        found = []
        if self.partition_by is not None and self.plan.requirements is not None:
            present = tuple(map(str, partition_by))
            if present not in (self.plan.requirements.partitioning, tuple(map(str, self.partition_by))):
                found.append(f"is partitioned by {', '.join(present) or 'nothing'}")
        for change in self.plan.properties:
            value = properties.get(change.name)
            if value not in (change.before, change.after):
                found.append(f"has no {change.name}" if value is None else f"has {change.name} = {value}")
        if found:
            message = f"{self.table} {' and '.join(found)} since the plan"
            raise CommitConflict.of("ZL320", message, hint="nothing was written; plan again")

    def require_clustering(self, has: tuple[str, ...] | None, *, altered: bool = False) -> None:
        """Check that the clustering columns are as planned.

        They must be as planned even if the plan does not change them, because OPTIMIZE clusters by the columns
        that the table has.

        Args:
            has: The present clustering columns; None if the format does not cluster the table.
            altered: Whether the action that changes them has been carried out. Before it, the columns that the plan was
                made with and those to change to are accepted; after it, only the latter.

        Raises:
            CommitConflict: ZL320, if another writer changed them.
        """
        planned = (self.plan.requirements and self.plan.requirements.clustering) or ()
        after = planned if self.cluster_by is None else self.cluster_by
        if (has or ()) not in ((after,) if altered else (planned, after)):
            message = f"{self.table} is clustered by {', '.join(has or ()) or 'nothing'} since the plan"
            raise CommitConflict.of("ZL320", message, hint="no file was rewritten; plan again")

    def in_parts(self, max_bytes: int | None) -> tuple[PlannedTable, ...]:
        """Divide the plan into parts, each of which is rewritten and committed before the next one begins.

        If a part fails, the commits of the parts before it stay. The first part also has the actions that rewrite no
        group. Only the last part stores the acceptance.

        Args:
            max_bytes: The maximum size of a part; None for no limit. A larger group is a part of its own.
        """
        parts = parts_of(self.plan.groups, max_bytes)
        if len(parts) < 2:
            return (self,)
        first, *others, last = parts
        begin = replace(self, completes=False)
        return (begin.with_rewrites(first), *(begin.with_actions(*part) for part in others), self.with_actions(*last))


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend can do.

    Attributes:
        format: The table format.
        partition_evolution: Whether the partitioning can change without rewriting every file.
        native_by_rank: Whether the format's own rewrite interleaves ranks of values, as Delta's does. Iceberg's
            interleaves the bytes of the values.
    """

    format: str
    partition_evolution: bool
    native_by_rank: bool

    def can_predict(self, layout: Layout, state: TableState) -> bool:
        """Return whether the result of a rewrite of the table to this layout can be predicted from a sample.

        OPTIMIZE of a clustered table orders by ranks as OPTIMIZE ZORDER BY does, but by one curve only.
        """
        if state.clustering:
            return layout.curve == CLUSTERING_CURVE or len(layout.columns) == 1
        return layout.engine == "zlayout" or layout.curve == "linear" or self.native_by_rank


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Limits on what a plan may do.

    Attributes:
        allow_full_rewrite: Whether a partitioning change may replace every file of a Delta table.
        max_rewrite_bytes: The budget of a run in bytes; None for no limit.
        sample_bytes: The limit, in bytes, of the column chunks that are read from each table for a forecast; 0 for a
            forecast from metadata alone.
        hot_after: A time in milliseconds since 1970. A partition in which another writer wrote a file after it waits.
            None if no partition waits for this reason.
        rarely_read: The partitions of one table whose decay may wait because the workload rarely reads them: their
            names, or their numbers in the plan document.
        include_rarely_read: Whether these partitions are rewritten although `tolerance.rarely_read` lets them wait.
        only_decay: Whether tables are left out whose declared layout was not applied yet.
    """

    allow_full_rewrite: bool = False
    max_rewrite_bytes: int | None = None
    sample_bytes: int = 0
    hot_after: int | None = None
    rarely_read: frozenset[str | int] = frozenset()
    include_rarely_read: bool = False
    only_decay: bool = False
