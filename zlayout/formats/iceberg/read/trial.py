"""Reads what the branch of a trial has that main does not have, and the other way round, without a JVM."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zlayout.formats.iceberg.read import state_property as recorded
from zlayout.formats.iceberg.read.branches import head
from zlayout.formats.iceberg.read.catalog import load_table
from zlayout.formats.iceberg.read.external import ancestors
from zlayout.formats.iceberg.read.observe import observe
from zlayout.formats.iceberg.read.undo import why_unknown
from zlayout.formats.trial import TRIAL, Made, Trial
from zlayout.spec.model import CatalogConfig, TableName

if TYPE_CHECKING:
    from pyiceberg.table.snapshots import Snapshot


def property_of(table: TableName) -> str:
    """Return the name of the property that marks the branch of a trial. Its value is the snapshot it was made from."""
    return f"{TRIAL}.{table.branch}"


def read_trial(catalog: CatalogConfig, name: TableName) -> Trial | None:
    """Read the trial on the branch of `name`; None if the table has no branch or tag of this name.

    Raises:
        Refused: ZL238, if the name is that of a tag.
        TableError: ZL121 to ZL123.
    """
    metadata = load_table(catalog, name).metadata
    if name.branch not in metadata.refs:
        return None
    newest, current = head(metadata, name), metadata.current_snapshot()
    assert newest is not None
    line, main = list(ancestors(metadata, newest)), list(ancestors(metadata, current))
    of_main = {one.snapshot_id for one in main}
    fork = next((one.snapshot_id for one in line if one.snapshot_id in of_main), None)
    marker = metadata.properties.get(property_of(name), "")
    return Trial(
        table=name,
        format="iceberg",
        table_id=str(metadata.table_uuid),
        location="",
        marked=any(str(one.snapshot_id) == marker for one in line),
        main=-1 if current is None else current.snapshot_id,
        version=newest.snapshot_id,
        commits=_since(line, fork),
        moved=_since(main, fork) if fork is not None else (),
        known=fork is not None,
    )


def live_rows(catalog: CatalogConfig, trial: Trial) -> tuple[int, int] | None:
    """Return the numbers of live rows of main and of the branch; None if they are not known exactly.

    Raises:
        TableError: ZL121 to ZL125.
    """
    states = [
        observe(catalog, name, (), version)
        for name, version in ((trial.table.on(""), trial.main), (trial.table, trial.version))
    ]
    if why_unknown(states):
        return None
    main, branch = (int(state.files.live_rows.sum()) for state in states)
    return main, branch


def _since(newest_first: Sequence[Snapshot], fork: int | None) -> tuple[Made, ...]:
    found = []
    for one in newest_first:
        if one.snapshot_id == fork:
            break
        summary = one.summary.additional_properties if one.summary else {}
        operation = str(one.summary.operation.value) if one.summary else "unknown operation"
        found.append(Made(one.snapshot_id, operation, summary.get(recorded.RUN, ""), operation == "replace"))
    return tuple(reversed(found))
