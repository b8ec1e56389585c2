"""An Iceberg table: metadata that a catalog replaces by compare-and-swap, and changes that validate themselves.

After `MergingSnapshotProducer`, `BaseRewriteFiles`, `BaseRowDelta` and `BaseTransaction` of Iceberg 1.12: a change is
validated against the snapshots since the one it starts from and applied to the newest metadata, again each time that
the swap fails. The spec's "Scan Planning" says which deletes apply: position deletes and vectors to files of the same
or an older data sequence number, equality deletes to older ones only.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from model.java import JavaError, Seq
from model.rows import EMPTY, NOTHING, Effect, Expected, Row, renamed
from model.schedule import Intern, Violation, learned

_PACKAGE = "org.apache.iceberg.exceptions"


@dataclass(frozen=True, slots=True)
class DataFile:
    """sequence: its data sequence number. snapshot: the one that added it."""

    name: str
    rows: tuple[Row, ...]
    sequence: int = -1
    first_row_id: int = -1
    snapshot: int = -1


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """Of positions in one data file (`target`), as a vector or not, or of all rows with a key."""

    name: str
    target: str = ""
    positions: frozenset[int] = frozenset()
    key: int = -1
    vector: bool = False
    sequence: int = -1

    def applies(self, file: DataFile) -> bool:
        return (
            self.sequence >= file.sequence and self.target == file.name
            if self.target
            else self.sequence > file.sequence
        )


@dataclass(frozen=True, slots=True)
class Snapshot:
    number: int
    sequence: int
    properties: Mapping[str, str]
    deletes: tuple[DeleteFile, ...]
    added: tuple[DataFile, ...]
    removed: tuple[str, ...]
    has_deletes: bool
    log_id: int
    equality_deletes: int = 0  # that the table has
    dropped: tuple[DeleteFile, ...] = ()

    def snapshotId(self) -> int:
        return self.number

    def sequenceNumber(self) -> int:
        return self.sequence

    def firstRowId(self) -> int:
        return 0  # no table is upgraded here

    def summary(self) -> dict[str, str]:
        return {"total-equality-deletes": str(self.equality_deletes)}

    def removedDeleteFiles(self, _io: object) -> tuple[DeleteFile, ...]:
        return self.dropped

    def deleteManifests(self, _io: object) -> Seq:
        return Seq("x" if self.has_deletes else "")


@dataclass(frozen=True)
class Metadata:
    """One version of the table's metadata, and what is true of it."""

    log_id: int = 0
    history: tuple[Snapshot, ...] = ()
    files: Mapping[str, DataFile] = field(default_factory=dict)
    deletes: Mapping[str, DeleteFile] = field(default_factory=dict)
    next_row_id: int = 0
    values: Mapping[str, str] = field(default_factory=dict)
    expected: Expected = EMPTY
    violation: Violation | None = None  # that a commit of it would be

    def committed(self) -> Metadata:
        if self.violation is not None:
            raise self.violation
        return self

    @property
    def current(self) -> Snapshot:
        return self.history[-1]

    def properties(self) -> Mapping[str, str]:
        return self.values

    def uuid(self) -> str:
        return "the table"

    def formatVersion(self) -> int:
        return 2  # the others allow more

    def currentSchemaId(self) -> int:
        return 0

    def defaultSpecId(self) -> int:
        return 0

    def deletes_of(self, file: DataFile) -> list[DeleteFile]:
        return [delete for delete in self.deletes.values() if delete.applies(file)]

    def positions(self, file: DataFile) -> tuple[int, ...]:
        """Those of the rows that are not deleted."""
        deletes = self.deletes_of(file)
        gone = frozenset[int]().union(*(d.positions for d in deletes))
        keys = {d.key for d in deletes if not d.target}
        return tuple(at for at, row in enumerate(file.rows) if at not in gone and row.key not in keys)

    def live(self, file: DataFile, *, lineage: bool) -> tuple[Row, ...]:
        kept = [(at, file.rows[at]) for at in self.positions(file)]
        if not lineage:
            return tuple(row for _, row in kept)
        return tuple(
            row._replace(
                id=file.first_row_id + at if row.id is None else row.id,
                version=file.sequence if row.version is None else row.version,
            )
            for at, row in kept
        )

    @cached_property
    def by_version(self) -> Mapping[int, int]:
        return {snapshot.number: at for at, snapshot in enumerate(self.history)}


@dataclass(slots=True)
class Change:
    """One snapshot to be, or with `properties` alone none. start: validate what came after this snapshot.

    data_sequence: for the added files, as `RewriteFiles.dataSequenceNumber`; equality deletes are then no conflict.
    """

    number: int
    removed: list[DataFile] = field(default_factory=list)
    removed_deletes: list[DeleteFile] = field(default_factory=list)
    added: list[DataFile] = field(default_factory=list)
    added_deletes: list[DeleteFile] = field(default_factory=list)
    start: int | None = None
    data_sequence: int | None = None
    validated: bool = True
    summary: dict[str, str] = field(default_factory=dict)
    properties: dict[str, str] = field(default_factory=dict)
    effect: Effect = NOTHING

    def content(self) -> Hashable:
        return (
            self.number,
            tuple(f.name for f in self.removed),
            tuple(f.name for f in self.removed_deletes),
            tuple(self.added),
            tuple(self.added_deletes),
            self.data_sequence,
            tuple(self.summary.items()),
            tuple(self.properties.items()),
            self.effect.content(),
        )

    def validate(self, base: Metadata) -> None:
        """Raise a Java ValidationException where another change since `start` is in the way."""
        gone = {file.name for file in self.removed}
        targets = {d.target for d in self.added_deletes if d.target} - {file.name for file in self.added}
        if (gone | targets) - base.files.keys() or {d.name for d in self.removed_deletes} - base.deletes.keys():
            raise invalid("missing required files")
        if gone and self.added_deletes and not self.removed_deletes:
            raise JavaError("java.lang.IllegalArgumentException", message="there is no delete file to be rewritten")
        since = 0 if self.start is None else base.by_version[self.start] + 1
        for snapshot in base.history[since:] if self.validated else ():
            for delete in snapshot.deletes:
                if delete.target in gone or (gone and not delete.target and self.data_sequence is None):
                    raise invalid("new deletes for a replaced file")
                if delete.vector and delete.target in targets:
                    raise invalid("another deletion vector for the same file")

    def after(self, base: Metadata, log_id: int, *, lineage: bool) -> Metadata:
        """The metadata with this change. It is a violation when its rows are not those that they must be."""
        values = {**base.values, **self.properties}
        if not (self.removed or self.added or self.added_deletes or self.removed_deletes):
            return replace(base, log_id=log_id, values=values)
        sequence = 1 + (base.current.sequence if base.history else 0)
        files, next_row_id = dict(base.files), base.next_row_id
        for removed in self.removed:
            files.pop(removed.name, None)
        added = []
        for file in self.added:
            data_sequence = sequence if self.data_sequence is None else self.data_sequence
            added.append(replace(file, sequence=data_sequence, first_row_id=next_row_id, snapshot=self.number))
            next_row_id += len(file.rows)
        files |= {file.name: file for file in added}
        removed_deletes = {delete.name for delete in self.removed_deletes}
        if self.removed:
            # `ManifestFilterManager.dropDeleteFilesOlderThan`, for which added files do not count
            kept = (file.sequence for name, file in base.files.items() if name in files)
            oldest = min(kept, default=sequence - 1)
            removed_deletes |= {name for name, delete in base.deletes.items() if delete.sequence < oldest}
        dropped = tuple(delete for name, delete in base.deletes.items() if name in removed_deletes)
        deletes = {name: delete for name, delete in base.deletes.items() if name not in removed_deletes}
        new_deletes = tuple(replace(delete, sequence=sequence) for delete in self.added_deletes)
        deletes |= {delete.name: delete for delete in new_deletes}
        gone = tuple(file.name for file in self.removed)
        snapshot = Snapshot(
            self.number,
            sequence,
            dict(self.summary),
            new_deletes,
            tuple(added),
            gone,
            bool(deletes),
            log_id,
            sum(not delete.target for delete in deletes.values()),
            dropped,
        )
        after = Metadata(log_id, (*base.history, snapshot), files, deletes, next_row_id, values, base.expected)
        if added and new_deletes and not lineage:
            after = replace(after, files=files | _renamed(after, added))
        rows = [row for file in after.files.values() for row in after.live(file, lineage=lineage)]
        expected = base.expected.after(self.effect, rows)
        try:
            expected.check(rows)
        except Violation as violation:
            return replace(after, expected=expected, violation=violation)
        return replace(after, expected=expected)


def _renamed(after: Metadata, added: Sequence[DataFile]) -> dict[str, DataFile]:
    """See `rows.renamed`."""
    names = {file.name for file in added}
    others = (file for name, file in after.files.items() if name not in names)
    elsewhere = {row.uid for file in others for row in after.live(file, lineage=False)}
    live = [(n, at) for n, file in enumerate(added) for at in after.positions(file)]
    rows = renamed(after.expected, elsewhere, [file.rows for file in added], live)
    return {file.name: replace(file, rows=new) for file, new in zip(added, rows, strict=True)}


def invalid(message: str) -> JavaError:
    learned(message)
    return JavaError(f"{_PACKAGE}.ValidationException", message=message)


def overtaken() -> JavaError:
    learned("overtaken")
    return JavaError(f"{_PACKAGE}.CommitFailedException", message="stale table metadata")


def state_unknown() -> JavaError:
    return JavaError(f"{_PACKAGE}.CommitStateUnknownException", message="no answer from the catalog")


class IcebergTable:
    """The catalog's entry for one table, and storage. lineage: version 3, else version 2.

    branch: whose history the model has, empty for main; main then stays at the snapshot `fork`. dropped: of the branch.
    """

    def __init__(self, intern: Intern, known: dict[int, Metadata], *, lineage: bool) -> None:
        """known: metadata by log id, which need not be computed and checked again."""
        self.lineage = lineage
        self.options: dict[str, object] = {}  # of the catalog's definition
        self.jobs_fail = self.dropped = False
        self.branch, self.fork = "", 0
        self.current = Metadata()
        self.storage: set[str] = set()
        self._intern, self._known = intern, known

    def copy(self) -> IcebergTable:
        """The same table, to go on with differently."""
        other = IcebergTable(self._intern, self._known, lineage=self.lineage)
        other.jobs_fail, other.current, other.storage = self.jobs_fail, self.current, set(self.storage)
        other.branch, other.fork, other.dropped = self.branch, self.fork, self.dropped
        return other

    @property
    def log_id(self) -> int:
        return self.current.log_id

    def as_of(self, snapshot: Snapshot) -> Metadata:
        return self._known[snapshot.log_id]

    def number(self, author: str, count: int) -> int:
        """A snapshot id: different for each change of each author, and the same in every schedule."""
        return self._intern.setdefault(("snapshot", author, count), len(self._intern) + 1)

    def prepared(self, base: Metadata, change: Change) -> Metadata:
        log_id = self._intern.setdefault((base.log_id, change.content()), len(self._intern) + 1)
        if log_id not in self._known:
            self._known[log_id] = change.after(base, log_id, lineage=self.lineage)
        return self._known[log_id]

    def commit(self, change: Change) -> None:
        """Validate and apply to the newest metadata, and swap."""
        change.validate(self.current)
        self.current = self.prepared(self.current, change).committed()

    def write(self, names: Iterable[str]) -> None:
        self.storage |= set(names)
