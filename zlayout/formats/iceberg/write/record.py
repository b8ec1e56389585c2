"""Writes the table property `zlayout.state`, which has the layout records, and keeps those of concurrent runs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from zlayout.errors import CommitConflict, TableError
from zlayout.formats.iceberg.read import state_property as recorded
from zlayout.formats.iceberg.read.history import live_snapshots
from zlayout.formats.iceberg.write.jvm import FAILURES, IcebergJvm, java_errors
from zlayout.formats.kernel.outcome import settled
from zlayout.spec.model import CatalogConfig, TableName

MAX_ATTEMPTS = 8


def write_state(jvm: IcebergJvm, name: TableName, change: Callable[[recorded.State], recorded.State]) -> bool:
    """Replace the layout records of a table (compare and set).

    The commit fails if the table's metadata has changed since the layout records were read; then they are read again.
    A REST catalog compares only the table's id. There, one of two simultaneous changes may be lost, but the summaries
    of its snapshots have the layout records too.

    Args:
        change: A function that returns the new layout records, given the current ones.

    Returns:
        Whether a commit was made. No commit is made if the records do not change.

    Raises:
        CommitConflict: ZL323, if the table changes during each attempt.
        CommitUnknown: ZL331.
    """
    for _ in range(MAX_ATTEMPTS):
        operations = jvm.load(name).operations()
        doing = f"recording the layout of {name}"
        with java_errors(doing):
            base = operations.current()
            wanted = recorded.render(change(known_state(jvm, base)))
            if wanted == base.properties().get(recorded.PROPERTY):
                return False
            properties = jvm.java.util.HashMap(base.properties())
            properties.put(recorded.PROPERTY, wanted)
            changed = base.replaceProperties(properties)
        try:
            settled(doing, partial(_send, operations, base, changed), partial(_has, jvm, name, wanted), FAILURES)
            return True
        except CommitConflict:
            continue
    raise CommitConflict.of(
        "ZL323",
        f"the layout of {name} could not be recorded: the table changed during each of {MAX_ATTEMPTS} attempts",
        hint="apply again to record the layout; the rewrite is committed",
    )


def _send(operations: Any, base: Any, changed: Any) -> bool:
    operations.commit(base, changed)
    return True


def _has(jvm: IcebergJvm, name: TableName, wanted: str) -> bool | None:
    """Return True if the property has the wanted value, None if it has another one."""
    return wanted == jvm.load(name).properties().get(recorded.PROPERTY) or None


def dead_snapshots(jvm: IcebergJvm, catalog: CatalogConfig, name: TableName, table: Any) -> frozenset[int]:
    """Return the snapshots in the layout records of a loaded Java table that added no live file.

    Snapshots that were recorded after the table was loaded do not count as dead. None does if the manifests of a branch
    cannot be read, which must not end a rewrite: the records then stay for longer.
    """
    with java_errors(f"reading the layout records of {name}"):
        known = recorded.listed(known_state(jvm, table.operations().current()))
    try:
        return known - live_snapshots(catalog, name) if known else known
    except TableError:
        return frozenset()


def known_state(jvm: IcebergJvm, base: Any) -> recorded.State:
    """Return the layout records in table metadata, from the property and from the summaries of snapshots."""
    try:
        state = recorded.parse(base.properties().get(recorded.PROPERTY))
    except recorded.CorruptState:
        state = {}
    return recorded.from_summaries(state, _summaries(jvm, base), recorded.undone(dict(base.properties())))


def _summaries(jvm: IcebergJvm, base: Any) -> Iterable[tuple[int, Mapping[str, str]]]:
    """Return id and summary of all snapshots by one call of the JVM, because one call per snapshot would be slow."""
    document = json.loads(jvm.iceberg.TableMetadataParser.toJson(base))
    return [(s["snapshot-id"], s.get("summary", {})) for s in document["snapshots"]]
