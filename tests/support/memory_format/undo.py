"""The rollback of a run on a table in memory, from the differences of its versions."""

from collections.abc import Callable

import numpy as np
import pyarrow as pa
from support.memory_format.store import MemoryTable, Version

from zlayout.formats import undo
from zlayout.formats.base import Commit
from zlayout.formats.undo import Change, Identity, Recorded, Undo, total
from zlayout.planner import selection as accepted
from zlayout.spec.model import TableName
from zlayout.table.state import TableState


def undo_run(name: TableName, table: MemoryTable, observe: Callable[[int], TableState], run: str | None) -> Undo:
    """See `zlayout.formats.base.Backend`. Raises Refused ZL231 to ZL235."""
    log = {version.number: version for version in table.log}
    runs = undo.runs_in_effect(Recorded(v.number, v.run_id, v.undoes) for v in reversed(table.log))
    run_id = next(iter(runs), "") if run is None else run
    numbers = tuple(reversed(runs.get(run_id, ())))
    if not numbers:
        raise undo.no_run(name, run, runs)
    if any(number - 1 not in log for number in numbers):
        raise undo.gone(name, "the version before the run is no longer kept")
    state = observe(table.current.number)
    added, replaced = undo.net_change(_change(log[number - 1], log[number]) for number in numbers)
    removed, missing = undo.file_rows(state, added)
    undo.require_unchanged(name, run_id, missing, len(added), ())
    parts = [undo.FILES.empty_table()]
    for number, files in replaced.items():
        before = observe(number - 1)
        undo.require_partitioning(name, before.partition_fields, state.partition_fields)
        at = [at for at, file in enumerate(undo.identities_of(before.files)) if file in files]
        if undo.specs_of(before.files.take(np.array(at, np.int64))) - {state.spec_id}:
            raise undo.changed_table(name, "its partition spec is another one")
        parts.append(undo.file_rows(before, files)[0])
    returned = pa.concat_tables(parts).combine_chunks()
    undo.require_rows(name, removed, returned)
    kept = tuple(n for n, version in log.items() if n > numbers[0] and version.run_id != run_id)
    place = state.table_id, state.location
    return Undo(name, "memory", run_id, numbers, state.version, *place, removed, returned, kept, numbers[0] - 1)


def roll_back(table: MemoryTable, shown: Undo, run_id: str) -> Commit:
    """Commit a rollback. Raises CommitConflict, if a file of the run has changed."""
    log = {version.number: version for version in table.log}
    read = [log[shown.version].files[path] for path in shown.removed["path"].to_pylist()]
    places = zip(shown.returned["version"].to_pylist(), shown.returned["path"].to_pylist(), strict=True)
    new = [log[at].files[path] for at, path in places]
    before = {accepted.PROPERTY: log[shown.before].properties.get(accepted.PROPERTY, "")}
    properties = before if accepted.PROPERTY in table.current.properties else None
    version = table.replace_files(read, new, properties, run_id, shown.run_id)
    table.last_run = None
    sizes = total(shown.removed, "bytes"), total(shown.returned, "bytes")
    return Commit("rollback", version, (), len(read), len(new), *sizes, shown.rows)


def _change(before: Version, after: Version) -> Change:
    old, new = _files(before), _files(after)
    return Change(after.number, tuple(f for f in new if f not in old), tuple(f for f in old if f not in new))


def _files(version: Version) -> dict[Identity, None]:
    return {(file.path, file.version_key): None for file in version.files.values()}
