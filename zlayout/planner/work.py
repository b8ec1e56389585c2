"""The work order of one table, as the planner gives it to a backend."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from zlayout.errors import CommitConflict, Diagnostic
from zlayout.planner.actions import (
    Action,
    ChangeClustering,
    ChangePartitioning,
    Observed,
    PartitioningIs,
    PropertyIs,
    Reason,
    Requirement,
    RewriteGroup,
    SetProperties,
    TableIs,
    TruncatedBounds,
    VersionIs,
    parts_of,
    planned_clustering,
    same_subject,
    violated,
)
from zlayout.planner.model import QueryCost, TablePlan
from zlayout.planner.partitions import partition_text
from zlayout.planner.selection import acceptance
from zlayout.spec.model import CLUSTERING_CURVE, Layout, LayoutSpec, TableName
from zlayout.table.state import FileTable, PartitionField, TableState


@dataclass(frozen=True, slots=True)
class Group:
    """A `RewriteGroup` with its pinned files.

    Attributes:
        id: The id of the group.
        files: The pinned files, which the rewrite replaces. They are in one partition unless the partitioning changes.
        target_files: The estimated number of files to write.
    """

    id: str
    files: FileTable
    target_files: int


def rewrite_group(
    id: str, files: FileTable, target_files: int, reason: Reason, numbers: Sequence[int] = ()
) -> RewriteGroup:
    """Return the action that rewrites a group.

    Args:
        id: The id of the group.
        files: The files of the group, at least one.
        target_files: The estimated number of files to write.
        reason: The reason for the rewrite.
        numbers: The number of each partition of the table, see `partition_names`; empty if they are not needed.
    """
    owner = files.partition
    inside = owner[:1] if (owner == owner[0]).all() else np.unique(owner)
    name = partition_text(files.partitions[inside[0]])
    if len(inside) > 1:  # also files of a partition spec without fields
        name = f"{name or 'unpartitioned'} and {len(inside) - 1} more"
    return RewriteGroup(
        id=id,
        partition=name,
        files=len(files),
        bytes=int(files.bytes.sum()),
        rows=int(files.live_rows.sum()),
        target_files=target_files,
        reason=reason,
        partitions=len(inside),
        partition_number=int(numbers[inside[0]]) if numbers and files.partitions[inside[0]].fields else 0,
    )


def pinned_groups(rewrites: Iterable[RewriteGroup], pinned: Mapping[str, FileTable]) -> tuple[Group, ...]:
    """Return those of the groups whose files are pinned, in the same order."""
    return tuple(Group(r.id, pinned[r.id], r.target_files) for r in rewrites if r.id in pinned)


@dataclass(frozen=True, slots=True)
class Work:
    """The actions of a plan for one table, with everything that a backend needs to carry them out.

    Attributes:
        table: The name of the table, with its branch.
        layout: The declared layout, with column ids if the table has them.
        run_id: The run id, which is stored with each commit.
        actions: The actions of the plan, in the order in which they are carried out.
        requirements: The requirements of the plan.
        pinned: The files of each `RewriteGroup`, by group id.
        declared: The declared partition fields, which a `ChangePartitioning` changes to.
        covers_table: Whether the groups contain all files of the table, and no `where` is declared.
        verify: `full` if the written files are read back before the commit.
        predictions: Returns the predicted touched after the whole plan, by z-order column; without columns that have
            none. It may wait for a sample of the rows.
        accepts: The acceptance to store after all groups are committed (see `zlayout.planner.selection`); empty if the
            plan leaves groups for a later run.
        commit_properties: `commit.properties` of the project, which are stored with each commit for audits.
        query_cost: The predicted cost of a query of the workload after the whole plan; None if there is none.
        partition_timezone: The time zone of timestamps that partition values store without one; empty if it is not
            declared.
    """

    table: TableName
    layout: Layout
    run_id: str
    actions: tuple[Action, ...]
    requirements: tuple[Requirement, ...]
    pinned: Mapping[str, FileTable]
    declared: tuple[PartitionField, ...]
    covers_table: bool
    verify: Literal["gate", "full"] = "gate"
    predictions: Callable[[], Mapping[str, float]] = dict
    accepts: str = ""
    commit_properties: Mapping[str, str] = field(default_factory=dict)
    query_cost: QueryCost | None = None
    partition_timezone: str = ""

    @property
    def properties(self) -> tuple[tuple[str, str], ...]:
        """Names and values of the table properties to set."""
        return tuple((p.name, p.after) for a in self.actions if isinstance(a, SetProperties) for p in a.changes)

    @property
    def partition_by(self) -> tuple[PartitionField, ...] | None:
        """The partitioning to change to; None if it does not change."""
        return self.declared if any(isinstance(a, ChangePartitioning) for a in self.actions) else None

    @property
    def cluster_by(self) -> tuple[str, ...] | None:
        """The clustering columns to change to; None if they do not change."""
        return next((action.after for action in self.actions if isinstance(action, ChangeClustering)), None)

    @property
    def rewrites(self) -> tuple[RewriteGroup, ...]:
        """The actions that rewrite groups."""
        return tuple(action for action in self.actions if isinstance(action, RewriteGroup))

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups to rewrite with their files. They are computed at each access."""
        return pinned_groups(self.rewrites, self.pinned)

    @property
    def version(self) -> int:
        """The version that was planned from; -1 for a table without a snapshot."""
        return next((r.version for r in self.requirements if isinstance(r, VersionIs)), -1)

    @property
    def table_id(self) -> str | None:
        """The id of the table that was planned; None if the plan does not state one."""
        return next((r.table_id for r in self.requirements if isinstance(r, TableIs)), None)

    def with_rewrites(self, rewrites: Iterable[RewriteGroup]) -> Work:
        """Return this work order with these groups to rewrite in place of its own. Its other actions stay."""
        return replace(self, actions=(*(a for a in self.actions if not isinstance(a, RewriteGroup)), *rewrites))

    def require_planned(
        self,
        properties: Mapping[str, str],
        partition_by: Sequence[PartitionField],
        clustering: tuple[str, ...] | None = None,
    ) -> None:
        """Check that the settings which this work order changes are as planned, and the clustering columns too.

        A setting that already has the value that this work order sets is accepted.

        Args:
            properties: The present table properties.
            partition_by: The present partitioning.
            clustering: The present clustering columns; None if the format does not cluster the table.

        Raises:
            CommitConflict: ZL320, if another writer changed one of them.
        """
        self.require_clustering(clustering)
        observed = Observed(properties=properties, partitioning=tuple(map(str, partition_by)))
        reached: list[Requirement] = [PropertyIs(*pair) for pair in self.properties]
        if self.partition_by is not None:
            reached.append(PartitioningIs(tuple(map(str, self.partition_by))))
        broken = violated(self.requirements, observed, reached)
        if found := [_found(requirement, observed) for requirement in broken if _concerns(requirement, reached)]:
            message = f"{self.table} {' and '.join(found)} since the plan"
            raise CommitConflict.of("ZL320", message, hint="nothing was written; plan again")

    def require_clustering(self, has: tuple[str, ...] | None, *, altered: bool = False) -> None:
        """Check that the clustering columns are as planned.

        They must be as planned even if this work order does not change them, because OPTIMIZE clusters by the columns
        that the table has.

        Args:
            has: The present clustering columns; None if the format does not cluster the table.
            altered: Whether the action that changes them has been carried out. Before it, the columns that the plan was
                made with and those to change to are accepted; after it, only the latter.

        Raises:
            CommitConflict: ZL320, if another writer changed them.
        """
        planned = planned_clustering(self.requirements).columns
        after = planned if self.cluster_by is None else self.cluster_by
        if (has or ()) not in ((after,) if altered else (planned, after)):
            message = f"{self.table} is clustered by {', '.join(has or ()) or 'nothing'} since the plan"
            raise CommitConflict.of("ZL320", message, hint="no file was rewritten; plan again")

    def in_parts(self, max_bytes: int | None) -> tuple[Work, ...]:
        """Divide the work order into parts, each of which is rewritten and committed before the next one begins.

        If a part fails, the commits of the parts before it stay. The first part also has the actions that rewrite no
        group. Only the last part stores the acceptance.

        Args:
            max_bytes: The maximum size of a part; None for no limit. A larger group is a part of its own.
        """
        parts = parts_of(self.rewrites, max_bytes)
        if len(parts) < 2:
            return (self,)
        first, *others = parts
        whole = replace(self, covers_table=False, accepts="")
        works = [whole.with_rewrites(first), *(replace(whole, actions=tuple(part)) for part in others)]
        return (*works[:-1], replace(works[-1], accepts=self.accepts))


def _concerns(requirement: Requirement, reached: Iterable[Requirement]) -> bool:
    return any(same_subject(requirement, result) for result in reached)


def _found(requirement: Requirement, observed: Observed) -> str:
    if isinstance(requirement, PropertyIs) and observed.properties is not None:
        value = observed.properties.get(requirement.name)
        return f"has no {requirement.name}" if value is None else f"has {requirement.name} = {value}"
    return f"is partitioned by {', '.join(observed.partitioning or ()) or 'nothing'}"


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


# The decision of the planner for one table: its plan and the pinned files.


@dataclass(frozen=True, slots=True)
class PlanOptions:
    """Limits on what a plan may do.

    Attributes:
        allow_full_rewrite: Whether a partitioning change may replace every file of a Delta table.
        max_rewrite_bytes: The budget of a run in bytes; None for no limit.
        sample_bytes: The limit, in bytes, of the column chunks that are read from each table for a forecast; 0 for a
            forecast from metadata alone.
        hot_after: A time in milliseconds since 1970. A partition in which another writer wrote a file after it is hot,
            and waits for a later run. None if no partition waits for this reason.
        rarely_read: The partitions of one table whose decay may wait because the workload rarely reads them: their
            names, or their numbers in the plan document.
        include_rarely_read: Whether these partitions are rewritten although `tolerance.rarely_read` lets them wait.
    """

    allow_full_rewrite: bool = False
    max_rewrite_bytes: int | None = None
    sample_bytes: int = 0
    hot_after: int | None = None
    rarely_read: frozenset[str | int] = frozenset()
    include_rarely_read: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """The plan of one table with the pinned files of its actions.

    Attributes:
        plan: The plan of the table.
        pinned: The files of each `RewriteGroup`, by group id; empty unless the status of the plan is `changes`.
        column_ids: The column id of each z-order column, see `Column`; empty if one of them has none.
        after: The files of the partition that a picture shows, as a simulation on a sample predicts them after the
            rewrite; None without a sample, or if some of them could not be simulated. They have bounds of only the
            columns of the picture.
        rarely_read: The names of the partitions that wait because they are rarely read. Later plans of the same run get
            them in `PlanOptions.rarely_read`, so that the same partitions wait.
        truncated: The columns whose bounds the properties of the plan make longer.
    """

    plan: TablePlan
    pinned: Mapping[str, FileTable] = field(default_factory=dict)
    column_ids: tuple[str, ...] = ()
    after: FileTable | None = None
    rarely_read: frozenset[str | int] = frozenset()
    truncated: tuple[TruncatedBounds, ...] = ()

    @property
    def groups(self) -> tuple[Group, ...]:
        """The groups to rewrite with their pinned files."""
        return pinned_groups(self.plan.groups, self.pinned)

    def noting(self, diagnostic: Diagnostic) -> Decision:
        """Return the decision with one more diagnostic in its plan."""
        plan = self.plan
        return replace(self, plan=replace(plan, diagnostics=(*plan.diagnostics, diagnostic)))

    def work(
        self,
        spec: LayoutSpec,
        run_id: str,
        verify: Literal["gate", "full"] = "gate",
        predictions: Callable[[], Mapping[str, float]] = dict,
    ) -> Work:
        """Return the work order that carries out the decision.

        Args:
            spec: The layout spec of the table.
            run_id, verify, predictions: See `Work`.
        """
        return Work(
            table=spec.table,
            layout=spec.layout.identified(self.column_ids) if self.column_ids else spec.layout,
            run_id=run_id,
            actions=self.plan.actions,
            requirements=self.plan.requirements,
            pinned=self.pinned,
            declared=spec.partition_by or (),
            # If this is true, engine native rewrites the table without a filter, including files that were added after
            # the plan. If the spec has `where`, such files may be out of scope.
            covers_table=spec.where is None and sum(map(len, self.pinned.values())) == self.plan.files,
            verify=verify,
            predictions=predictions,
            accepts=acceptance(spec) if self.plan.is_whole else "",
            commit_properties=spec.commit_properties,
            partition_timezone=spec.partition_timezone,
            query_cost=self.plan.workload.predicted if self.plan.workload else None,
        )
