"""Rollbacks: the branch main returns to the snapshot before a run, and later appends are cherry-picked.

The commit succeeds only if the table has not changed since it was read. Iceberg's own `rollback_to_snapshot` and
`Transaction.commitTransaction` try again on newer metadata, and would then drop a concurrent append.

`roll_back` commits by Iceberg's Java. `roll_back_by_catalog` commits without a JVM, by pyiceberg, which cannot
cherry-pick. What both change is decided here once, from the JSON of the table's metadata.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from zlayout.errors import CommitConflict
from zlayout.formats.base import Commit
from zlayout.formats.iceberg.read import state_property as recorded
from zlayout.formats.iceberg.read.catalog import load_table, loaded_catalog, loading, readable_metadata
from zlayout.formats.iceberg.read.unread_types import plain_content
from zlayout.formats.iceberg.write.jvm import FAILURES, IcebergJvm, Prepared, Swap, commit_prepared
from zlayout.formats.kernel.execute import rollback_commit
from zlayout.formats.kernel.outcome import Failures, settled
from zlayout.formats.undo import ROLLBACK, Undo, changed_table, needs_jvm
from zlayout.planner.selection import PROPERTY
from zlayout.spec.model import MAIN, CatalogConfig

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

Document = Mapping[str, Any]  # the JSON of table metadata
# The current snapshot and the properties in a former metadata file.
Former = tuple[int | None, Mapping[str, str]]

_REST = "rest"  # the type of catalogs that change the metadata themselves
_WRITTEN_VERSION = 2  # of the format; pyiceberg 0.12 does not write version 3, and version 1 was not run
# With these properties, pyiceberg would import a class, or write to a place, that the table names.
_OF_WRITERS = ("write.py-location-provider.impl", "write.metadata.path")
# Where a rollback is recorded, for messages. It makes no snapshot.
_FAILURES = replace(FAILURES, history=f"the table property {ROLLBACK}")


def roll_back(jvm: IcebergJvm, undo: Undo, run_id: str) -> Commit:
    """Commit a rollback.

    Args:
        undo: The rollback. The snapshot from which it was determined must still be the current one.
        run_id: The id of the rollback.

    Raises:
        Refused: ZL234.
        CommitConflict: ZL321, if the table has changed.
        EngineError: ZL314.
        CommitUnknown: ZL331.
    """

    def prepare() -> Prepared[Commit]:
        table = jvm.load(undo.table)
        swap = Swap.of(table)
        base = json.loads(jvm.iceberg.TableMetadataParser.toJson(swap.base))  # one call of the JVM
        _require_current(base, undo)
        manager = swap.transaction.manageSnapshots().rollbackTo(undo.before)
        for snapshot in undo.kept:
            manager.cherrypick(snapshot)
        manager.commit()
        properties = swap.transaction.updateProperties()
        for key, value in _properties(base, lambda path: _read(jvm, table.io(), path), undo, run_id).items():
            properties.set(key, value) if value is not None else properties.remove(key)
        properties.commit()
        return swap.commitTransaction, rollback_commit(undo, int(swap.wanted.currentSnapshot().snapshotId()))

    def look(done: Commit) -> Commit | None:
        return done if _is_recorded(dict(jvm.load(undo.table).properties()), run_id) else None

    return commit_prepared(_doing(undo, run_id), prepare, look, failures=_FAILURES)


def _read(jvm: IcebergJvm, io: Any, path: str) -> Former | None:
    if not io.newInputFile(path).exists():
        return None
    metadata = jvm.iceberg.TableMetadataParser.read(io, path)
    current = metadata.currentSnapshot()
    return None if current is None else int(current.snapshotId()), dict(metadata.properties())


def roll_back_by_catalog(catalog: CatalogConfig, undo: Undo, run_id: str) -> Commit:
    """Commit a rollback without a JVM, by the catalog of pyiceberg.

    A REST catalog compares the id of the table and its branch main, and changes the metadata itself. In a SQL catalog,
    pyiceberg replaces the metadata file that it has read, if it is still that of the table; here it must also have the
    content from which the rollback was determined.

    Args:
        catalog: The catalog of the table.
        undo: The rollback. The snapshot from which it was determined must still be the current one.
        run_id: The id of the rollback.

    Raises:
        Refused: ZL204, if it needs a JVM; ZL234.
        CommitConflict: ZL321, if the table has changed.
        EngineError: ZL314.
        CommitUnknown: ZL331.
        TableError: ZL121 to ZL123, ZL125, ZL127.
    """
    from pyiceberg.exceptions import CommitFailedException

    if catalog.type not in (_REST, "sql"):
        raise needs_jvm(undo.table, f"by a catalog of type {catalog.type}")
    if undo.kept:
        raise needs_jvm(undo.table, f"that keeps {len(undo.kept)} later appends")
    table = load_table(catalog, undo.table)
    base = _document(table.metadata)
    _require_current(base, undo)
    with readable_metadata(table, undo.table):
        changed = _properties(base, lambda path: _read_by_catalog(table, path), undo, run_id)
    done = rollback_commit(undo, undo.before)
    with loaded_catalog(catalog) as loaded:
        own = None
        if catalog.type != _REST:
            with loading(catalog, undo.table):
                own = loaded.load_table(undo.table.identifier)
        requirements = _requirements(undo, table, own)

        def send() -> Commit:
            try:
                loaded.commit_table(own or table, requirements, _updates(base, changed, undo))
            except CommitFailedException as error:
                raise _overtaken(undo) from error
            return done

        def look() -> Commit | None:
            return done if _is_recorded(load_table(catalog, undo.table).metadata.properties, run_id) else None

        return settled(_doing(undo, run_id), send, look, Failures(history=_FAILURES.history, unsent=_is_refusal))


def _updates(base: Document, changed: Mapping[str, str | None], undo: Undo) -> tuple[Any, ...]:
    from pyiceberg.table.update import RemovePropertiesUpdate, SetPropertiesUpdate, SetSnapshotRefUpdate

    # with the limits of the branch, which it would lose without them
    main = SetSnapshotRefUpdate.model_validate({**base["refs"][MAIN], "ref-name": MAIN, "snapshot-id": undo.before})
    removed = [key for key, value in changed.items() if value is None]
    set_ = {key: value for key, value in changed.items() if value is not None}
    return main, SetPropertiesUpdate(updates=set_), *([RemovePropertiesUpdate(removals=removed)] if removed else [])


def _requirements(undo: Undo, table: Table, own: Table | None) -> tuple[Any, ...]:
    """Return what must hold when the rollback of `table` is committed. own: None if a JVM writes the metadata."""
    # `own` is the same table as pyiceberg reads it before a commit, without the types that `load_table` restores.
    from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID

    main = AssertRefSnapshotId.model_validate({"ref": MAIN, "snapshot-id": undo.version})
    common = AssertTableUUID(uuid=table.metadata.table_uuid), main
    if own is None:
        return common
    if own.metadata_location != table.metadata_location:
        raise _overtaken(undo)
    with readable_metadata(table, undo.table):
        stored = json.loads(plain_content(table.io.new_input(table.metadata_location)))
    read = _document(own.metadata)
    if reason := _unwritable(read, stored, time.time_ns() // 1_000_000):
        raise needs_jvm(undo.table, reason)
    return *common, _Unchanged(read)


@dataclass(frozen=True, slots=True)
class _Unchanged:
    """A requirement of a commit by pyiceberg: the metadata is the same."""

    expected: Document

    def validate(self, base_metadata: TableMetadata | None) -> None:
        from pyiceberg.exceptions import CommitFailedException

        if base_metadata is None or _document(base_metadata) != self.expected:
            raise CommitFailedException("the metadata of the table has changed")


def _document(metadata: TableMetadata) -> Document:
    return metadata.model_dump(mode="json")  # `model_dump_json` refuses format version 3


def _is_refusal(error: Exception) -> bool:
    from pyiceberg.exceptions import BadRequestError, ForbiddenError, UnauthorizedError

    return isinstance(error, BadRequestError | ForbiddenError | UnauthorizedError | NotImplementedError)


def _read_by_catalog(table: Table, path: str) -> Former | None:
    file = table.io.new_input(path)
    if not file.exists():
        return None
    former = json.loads(plain_content(file))
    return former.get("current-snapshot-id"), former.get("properties", {})


def _unwritable(read: Document, stored: Document, now_ms: int) -> str:
    """Return why pyiceberg must not write `read`, the metadata in the file `stored`, again; '' if it may."""
    if read["format-version"] != _WRITTEN_VERSION:
        return f"of a table of format version {read['format-version']}"
    if found := [name for name in _OF_WRITERS if name in read.get("properties", {})]:
        return f"of a table with {', '.join(found)}"
    if lost := sorted(key for key, value in stored.items() if not _keeps(value, read.get(key))):
        return f"of a table whose {', '.join(lost)} pyiceberg would not write as they are"
    # Iceberg cannot load metadata that is more than a minute older than its log.
    if now_ms < int(read["last-updated-ms"]):
        return "by a machine whose clock is before the last change of the table"
    return ""


def _keeps(stored: Any, read: Any) -> bool:
    """Return whether JSON has everything that the stored one has. It may have more: default values of the format."""
    if isinstance(stored, Mapping):
        return not stored or (
            isinstance(read, Mapping) and all(_keeps(value, read.get(key)) for key, value in stored.items())
        )
    if isinstance(stored, list):
        return not stored or (isinstance(read, list) and len(read) == len(stored) and all(map(_keeps, stored, read)))
    return bool(stored == read)


# What both commits check and change.


def _doing(undo: Undo, run_id: str) -> str:
    return f"committing rollback {run_id} of {undo.table}"


def _is_recorded(properties: Mapping[str, str], run_id: str) -> bool:
    return any(entry.get("rollback") == run_id for entry in recorded.rollbacks(properties))


def _require_current(base: Document, undo: Undo) -> None:
    snapshots = {one["snapshot-id"]: one for one in base.get("snapshots", ())}
    current = snapshots.get(base.get("current-snapshot-id"))
    if base.get("table-uuid") != undo.table_id or current is None or current["snapshot-id"] != undo.version:
        raise _overtaken(undo)
    if undo.before not in snapshots:  # it has expired
        raise _overtaken(undo)
    if current.get("first-row-id") is not None and snapshots[undo.before].get("first-row-id") is None:
        raise changed_table(undo.table, "it has row ids now, which the replaced files do not have")


def _overtaken(undo: Undo) -> CommitConflict:
    message = f"{undo.table}: another commit was made since snapshot {undo.version} was read"
    return CommitConflict.of("ZL321", message, hint="run rollback again; the other commit stays")


def _properties(base: Document, read: Callable[[str], Former | None], undo: Undo, run_id: str) -> dict[str, str | None]:
    """Return the properties to set (None: remove): records and acceptance of before the run, and the rollback."""
    now: Mapping[str, str] = base.get("properties", {})
    summaries = [(one["snapshot-id"], one.get("summary", {})) for one in base["snapshots"]]
    # the records of other branches stay; a branch may contain snapshots of the run
    others = recorded.drop_dead(recorded.known(now, summaries), frozenset(undo.commits) - _on_branches(base))
    found = _properties_at(base, read, undo.before)
    if found is None:  # metadata files are missing: the records that the run dropped stay lost
        before = {recorded.PROPERTY: recorded.render(others)} if others else {}
    else:
        before = dict(found)
        try:
            state = recorded.parse(before.get(recorded.PROPERTY))
        except recorded.CorruptState:  # it was corrupt before the run too; `plan` reports it (ZL421)
            state = {}
        if recorded.listed(others) - recorded.listed(state):
            before[recorded.PROPERTY] = recorded.render(recorded.joined(state, others))
    known = {one for one, _ in summaries}
    entries = [entry for entry in recorded.rollbacks(now) if not known.isdisjoint(entry["snapshots"])]
    entries.append({"run": undo.run_id, "rollback": run_id, "snapshots": list(undo.commits)})
    changed = {key: before.get(key) for key in (recorded.PROPERTY, PROPERTY) if before.get(key) != now.get(key)}
    return changed | {ROLLBACK: json.dumps(entries, separators=(",", ":"))}


def _on_branches(base: Document) -> frozenset[int]:
    parents = {one["snapshot-id"]: one.get("parent-snapshot-id") for one in base["snapshots"]}
    found: set[int] = set()
    for name, ref in base["refs"].items():
        at: int | None = ref["snapshot-id"] if ref["type"] == "branch" and name != MAIN else None
        while at is not None and at in parents and at not in found:
            found.add(at)
            at = parents[at]
    return frozenset(found)


def _properties_at(base: Document, read: Callable[[str], Former | None], snapshot: int) -> Mapping[str, str] | None:
    """Return the newest properties with this current snapshot. None if a metadata file to read no longer exists."""
    for entry in reversed(base.get("metadata-log", ())):
        if (former := read(entry["metadata-file"])) is None:
            return None
        current, properties = former
        if current == snapshot:
            return properties
    return None
