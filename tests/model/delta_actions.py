"""The actions of a Delta log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from model.java import Option
from model.rows import Row

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class AddFile:
    """The methods are those of Delta's action that the product calls; dataChange is its name in the log."""

    name: str
    rows: tuple[Row, ...]
    deleted: frozenset[int] = frozenset()
    base_row_id: int | None = None
    commit_version: int | None = None
    dataChange: bool = True
    tags: Mapping[str, str] = field(default_factory=dict)
    clusteringProvider: str | None = None

    @property
    def vector(self) -> str:
        return "".join(map(str, sorted(self.deleted)))

    @property
    def key(self) -> Key:
        return self.name, self.vector

    @property
    def stored(self) -> tuple[str, ...]:
        """What storage must have: the file, and the file of its deletion vector."""
        return (self.name, f"{self.name} without {self.vector}") if self.deleted else (self.name,)

    @property
    def positions(self) -> list[int]:
        """Those of the rows that are not deleted."""
        return [at for at in range(len(self.rows)) if at not in self.deleted]

    def live(self, *, lineage: bool) -> tuple[Row, ...]:
        """The rows that are not deleted, with their row ids and commit versions where these are tracked."""
        kept = ((at, row) for at, row in enumerate(self.rows) if at not in self.deleted)
        if not lineage:
            return tuple(row for _, row in kept)
        base, version = self.base_row_id or 0, self.commit_version
        return tuple(
            row._replace(
                id=base + at if row.id is None else row.id, version=version if row.version is None else row.version
            )
            for at, row in kept
        )

    def path(self) -> str:
        return self.name

    def size(self) -> int:
        return len(self.rows)

    def getDeletionVectorUniqueId(self) -> Option:
        return Option(self.vector)

    def removeWithTimestamp(self, _timestamp: int, data_change: bool) -> RemoveFile:
        return RemoveFile(self.name, self.vector, data_change)


@dataclass(frozen=True, slots=True)
class RemoveFile:
    name: str
    vector: str
    dataChange: bool

    @property
    def key(self) -> Key:
        return self.name, self.vector


@dataclass(frozen=True, slots=True)
class Clustering:
    """The domain metadata delta.clustering."""

    columns: tuple[str, ...]
    dataChange: bool = False
