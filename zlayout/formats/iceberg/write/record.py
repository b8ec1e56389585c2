"""Writes the table property `zlayout.state` without losing what another run records at the same time."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from zlayout.errors import CommitConflict
from zlayout.formats.iceberg.read import state_property as recorded
from zlayout.formats.iceberg.read.history import live_snapshots
from zlayout.formats.iceberg.write.jvm import FAILURES, IcebergJvm, java_errors
from zlayout.formats.kernel.outcome import settled
from zlayout.spec.model import CatalogConfig, TableName

ATTEMPTS = 8


def write_state(jvm: IcebergJvm, name: TableName, change: Callable[[recorded.State], recorded.State]) -> bool:
    """Replace the recorded state by `change` of it (compare and set). Return False if that changes nothing.

    The commit replaces exactly the metadata that the state was read from. It fails if anything has changed since; then
    everything is read again. A REST catalog compares only the table's id, so one of two simultaneous records may be
    lost there; it is found again by its snapshot's summary.

    Raises:
        CommitConflict: ZL323, if the table changes on every attempt.
        CommitUnknown: ZL331.
    """
    for _ in range(ATTEMPTS):
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
        f"the layout of {name} could not be recorded: the table changed during each of {ATTEMPTS} attempts",
        hint="the rewrite is committed and is found by its snapshot; the next apply records it",
    )


def _send(operations: Any, base: Any, changed: Any) -> bool:
    operations.commit(base, changed)
    return True


def _has(jvm: IcebergJvm, name: TableName, wanted: str) -> bool | None:
    """True if the property has the wanted value, else None."""
    return wanted == jvm.load(name).properties().get(recorded.PROPERTY) or None


def dead_snapshots(jvm: IcebergJvm, catalog: CatalogConfig, name: TableName, table: Any) -> frozenset[int]:
    """Return the recorded snapshots that added no live file. Reads manifests only if any are recorded.

    table: the Java table as loaded before, so that snapshots recorded from now on do not count as dead.
    """
    with java_errors(f"reading what is recorded of {name}"):
        known = recorded.listed(known_state(jvm, table.operations().current()))
    return known - live_snapshots(catalog, name) if known else known


def known_state(jvm: IcebergJvm, base: Any) -> recorded.State:
    """Return the layouts in table metadata, from the property and from the summaries of snapshots."""
    try:
        state = recorded.parse(base.properties().get(recorded.PROPERTY))
    except recorded.CorruptState:
        state = {}
    return recorded.from_summaries(state, _summaries(jvm, base))


def _summaries(jvm: IcebergJvm, base: Any) -> Iterable[tuple[int, Mapping[str, str]]]:
    """All summaries in one call of the JVM, since a call takes about 0.1 ms and there may be thousands of snapshots."""
    document = json.loads(jvm.iceberg.TableMetadataParser.toJson(base))
    return [(s["snapshot-id"], s.get("summary", {})) for s in document["snapshots"]]
