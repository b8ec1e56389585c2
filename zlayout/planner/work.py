"""The work order of one table, as the planner gives it to a backend."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from zlayout.errors import CommitConflict
from zlayout.planner.requirements import (
    Observed,
    PartitioningIs,
    PropertyIs,
    Requirement,
    TableIs,
    same_subject,
    violated,
)
from zlayout.spec.model import Layout, TableName
from zlayout.table.state import FileTable, PartitionField


@dataclass(frozen=True, slots=True)
class Group:
    """The pinned files that one rewrite replaces, of one partition (or of older partition specs).

    id: of the `RewriteGroup`. target_files: how many files to write.
    """

    id: str
    files: FileTable
    target_files: int


@dataclass(frozen=True, slots=True)
class Work:
    """What to do to one table, in this order: set properties, change the partitioning, rewrite the groups.

    run_id: stored with each commit. version: from which the groups were chosen. partition_by: None where it stays.
    covers_table: the groups are all files of the table. verify: `full` reads the written files back before the commit.
    requirements: those of the plan.
    """

    table: TableName
    layout: Layout
    run_id: str
    version: int
    properties: tuple[tuple[str, str], ...]
    partition_by: tuple[PartitionField, ...] | None
    groups: tuple[Group, ...]
    covers_table: bool
    verify: Literal["gate", "full"] = "gate"
    requirements: tuple[Requirement, ...] = ()

    @property
    def table_id(self) -> str | None:
        """The id of the table that was planned, None where any table of the name will do."""
        return next((r.table_id for r in self.requirements if isinstance(r, TableIs)), None)

    def require_planned(self, properties: Mapping[str, str], partition_by: Sequence[PartitionField]) -> None:
        """Raise CommitConflict ZL320 where another writer changed a setting that this work changes.

        properties, partition_by: of the table now. A setting that already is as this work leaves it is accepted.
        """
        observed = Observed(properties=properties, partitioning=tuple(map(str, partition_by)))
        reached: list[Requirement] = [PropertyIs(*pair) for pair in self.properties]
        if self.partition_by is not None:
            reached.append(PartitioningIs(tuple(map(str, self.partition_by))))
        broken = violated(self.requirements, observed, reached)
        if found := [_found(requirement, observed) for requirement in broken if _concerns(requirement, reached)]:
            message = f"{self.table} {' and '.join(found)} since the plan"
            raise CommitConflict.of("ZL320", message, hint="nothing was written; plan again")

    def in_parts(self, most_bytes: int | None) -> tuple[Work, ...]:
        """Divide the work into parts that rewrite and commit at most `most_bytes` each, or one group.

        What the first parts committed stays when a later one fails. A change of the partitioning is not divided.
        """
        if most_bytes is None or self.partition_by is not None or len(self.groups) < 2:
            return (self,)
        parts: list[list[Group]] = []
        room = 0
        for group in self.groups:
            size = int(group.files.bytes.sum())
            if not parts or size > room:
                parts.append([])
                room = most_bytes
            parts[-1].append(group)
            room -= size
        return tuple(
            replace(
                self,
                groups=tuple(part),
                properties=self.properties if number == 0 else (),
                covers_table=self.covers_table and len(parts) == 1,
            )
            for number, part in enumerate(parts)
        )


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

    partition_evolution: the partitioning can change without rewriting every file. native_by_rank: the format's own
    rewrite interleaves ranks of values, as opposed to Iceberg's, which interleaves bytes.
    """

    format: str
    partition_evolution: bool
    native_by_rank: bool

    def can_predict(self, layout: Layout) -> bool:
        """Whether the result of a rewrite to this layout can be predicted from metadata."""
        return layout.engine == "zlayout" or layout.curve == "linear" or self.native_by_rank
