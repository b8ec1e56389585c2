"""Writing the table property `zlayout.state`: what another run recorded meanwhile is kept."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from zlayout.errors import CommitConflict
from zlayout.formats.iceberg.read import state_property as recorded
from zlayout.formats.iceberg.read.history import live_snapshots
from zlayout.formats.iceberg.write.jvm import IcebergJvm, java_errors
from zlayout.formats.iceberg.write.outcome import settled
from zlayout.spec.model import CatalogConfig, TableName

ATTEMPTS = 8


def write_state(jvm: IcebergJvm, name: TableName, change: Callable[[recorded.State], recorded.State]) -> bool:
    """Replace the recorded state by `change` of it; False where that changes nothing.

    The commit replaces the very metadata that the state was read from, so that it fails when anything has changed
    since; then all is read again. A REST catalog compares no more than the table's id: what two runs record there at
    once may lose one of the two, which is found again by its snapshot's summary. Raises CommitConflict ZL323 when
    the table goes on changing, CommitUnknown ZL331.
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
            settled(doing, partial(_send, operations, base, changed), partial(_has, jvm, name, wanted))
            return True
        except CommitConflict:
            continue
    raise CommitConflict.of(
        "ZL323",
        f"the layout of {name} could not be recorded: the table changed {ATTEMPTS} times meanwhile",
        hint="the rewrite is committed and known by its snapshot; the next apply records it",
    )


def _send(operations: Any, base: Any, changed: Any) -> bool:
    operations.commit(base, changed)
    return True


def _has(jvm: IcebergJvm, name: TableName, wanted: str) -> bool | None:
    """True when the property is as wanted, else None."""
    return wanted == jvm.load(name).properties().get(recorded.PROPERTY) or None


def dead_snapshots(jvm: IcebergJvm, catalog: CatalogConfig, name: TableName, table: Any) -> frozenset[int]:
    """Recorded snapshots of which no file is live any more. Reads manifests only where there are any recorded.

    table: the Java table as it was loaded before now, so that what is recorded from here on is not taken for dead.
    """
    with java_errors(f"reading what is recorded of {name}"):
        known = recorded.listed(known_state(jvm, table.operations().current()))
    return known - live_snapshots(catalog, name) if known else known


def known_state(jvm: IcebergJvm, base: Any) -> recorded.State:
    """What table metadata says is laid out, by the property and by the summaries of its snapshots."""
    try:
        state = recorded.parse(base.properties().get(recorded.PROPERTY))
    except recorded.CorruptState:
        state = {}
    return recorded.from_summaries(state, _summaries(jvm, base))


def _summaries(jvm: IcebergJvm, base: Any) -> Iterable[tuple[int, Mapping[str, str]]]:
    """In one call of the JVM: there may be thousands of snapshots, and each call takes about 0.1 ms."""
    document = json.loads(jvm.iceberg.TableMetadataParser.toJson(base))
    return [(s["snapshot-id"], s.get("summary", {})) for s in document["snapshots"]]
