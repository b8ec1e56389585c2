"""What the planner hands to a backend: groups of files to rewrite, and what else to change, as data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from zlayout.errors import CommitConflict
from zlayout.spec.model import Layout, TableName
from zlayout.table.state import FileTable, PartitionField


@dataclass(frozen=True, slots=True)
class Group:
    """The files that one rewrite replaces, inside one partition (or of older partition specs).

    id: deterministic, unique in the work. files: the pinned files. target_files: how many files to write.
    """

    id: str
    files: FileTable
    target_files: int


@dataclass(frozen=True, slots=True)
class Work:
    """What to do to one table, in this order: set properties, change the partitioning, rewrite the groups.

    version: the version or snapshot that the groups were chosen from. partition_by None: leave it.
    covers_table: the groups are all files that the table has. run_id goes into the table's history with each commit.
    verify `full` reads the written files back before the commit. table_id: of the table that was planned, None where
    any of the name will do. partition_before: the partition keys that `partition_by` was planned to replace, None where
    any will do. properties_before: the same of `properties`; any value will do of those that are not named.
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
    table_id: str | None = None
    partition_before: tuple[str, ...] | None = None
    properties_before: tuple[tuple[str, str | None], ...] = ()

    def require_planned(self, properties: Mapping[str, str], partition_by: Sequence[PartitionField]) -> None:
        """Raise CommitConflict ZL320 where somebody else changed what is to be changed, to something else.

        properties, partition_by: what the table has now.
        """
        wanted, keys = dict(self.properties), tuple(map(str, partition_by))
        found = [
            f"has {name} = {properties[name]}" if name in properties else f"has no {name}"
            for name, before in self.properties_before
            if name in wanted and properties.get(name) not in (before, wanted[name])
        ]
        known = (self.partition_before, tuple(map(str, self.partition_by or ())))
        if self.partition_by is not None and self.partition_before is not None and keys not in known:
            found.append(f"is partitioned by {', '.join(keys) or 'nothing'}")
        if found:
            message = f"{self.table} {' and '.join(found)} since the plan"
            raise CommitConflict.of("ZL320", message, hint="nothing was written; plan again")

    def in_parts(self, most_bytes: int | None) -> tuple[Work, ...]:
        """The work as several, each of which rewrites and commits at most so many bytes (or one group).

        What the first ones committed stays when a later one fails. A change of partitioning stays whole.
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


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a backend can do. partition_evolution: partitioning can change without rewriting every file.

    native_by_rank: its own rewrite interleaves ranks of values; Iceberg's interleaves raw bytes, one drowning another.
    """

    format: str
    partition_evolution: bool
    native_by_rank: bool

    def can_predict(self, layout: Layout) -> bool:
        """Whether metadata tells what a rewrite to this layout leaves."""
        return layout.engine == "zlayout" or layout.curve == "linear" or self.native_by_rank
