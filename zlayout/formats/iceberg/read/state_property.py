"""Reads and renders the table property `zlayout.state`, which stores the layout records of an Iceberg table.

The property lists, for each layout, the snapshots that added laid-out files. The layout of a file is that of the
snapshot that added it. A manifest entry keeps the id of this snapshot when manifests are rewritten and when the
snapshot expires.

    {"v":1,"layouts":{"<layout id>":{"settings":{...},"snapshots":[<id>,...],
                                     "baselines":{"<snapshot>":{"<partition>":"60 3.52 2.94",...},...}}}}

`baselines` contains the baselines of the largest laid-out groups, at most MAX_BASELINES of all layouts together. The
files of a group are those that one snapshot added to one partition. The property identifies the partition by a digest.

If two columns swap their names, two layouts may have the same layout id. Then the entry of the earlier one gets the
name `<layout id>~<column ids>`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from zlayout.formats.undo import ROLLBACK
from zlayout.reading import parse_json
from zlayout.spec.model import COLUMN_IDS, Layout
from zlayout.table.state import Baseline, Partition, are_settings, parse_baseline

PROPERTY = "zlayout.state"
RUN = "zlayout.run"
RUNS = "zlayout.runs"  # the snapshots of runs by SQL, whose summaries have no run id: {"<run id>":[<snapshot>,...]}
LAYOUT_ID = "zlayout.layout_id"
MAX_BASELINES = 256  # of about 40 bytes each, because each commit stores the metadata of the table again
_DIGEST_CHARACTERS = 10
_FORMAT_VERSION = 1
_SEPARATOR = "~"

# The baselines of groups by snapshot and by the digest of the partition.
Baselines = Mapping[tuple[int, str], Baseline]


@dataclass(frozen=True, slots=True)
class LaidOut:
    """The settings of one layout, the ids of the snapshots that added files with this layout, and their baselines."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    snapshots: frozenset[int] = frozenset()
    baselines: Baselines = field(default_factory=dict)


State = Mapping[str, LaidOut]


class CorruptState(ValueError):
    """The value of the property is invalid."""


def parse(text: str | None) -> State:
    """Parse the value of the property, {} if there is none. Raises CorruptState."""
    if not text:
        return {}
    try:
        document = parse_json(text)
        if document["v"] != _FORMAT_VERSION:
            raise CorruptState(f"expected version {_FORMAT_VERSION}, found {document['v']!r}")
        return {str(name): _laid_out(entry) for name, entry in document["layouts"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptState(f"expected {{v, layouts}}: {type(error).__name__} {error}") from error


def render(state: State) -> str:
    """Return the state as canonical JSON."""
    layouts = {name: _rendered(entry) for name, entry in state.items()}
    return json.dumps({"v": _FORMAT_VERSION, "layouts": layouts}, sort_keys=True, separators=(",", ":"))


def _rendered(entry: LaidOut) -> dict[str, Any]:
    baselines: dict[str, dict[str, str]] = {}
    for (snapshot, partition), baseline in sorted(entry.baselines.items()):
        baselines.setdefault(str(snapshot), {})[partition] = str(baseline)
    more = {"baselines": baselines} if baselines else {}
    return {"settings": dict(entry.settings), "snapshots": sorted(entry.snapshots), **more}


def add(
    state: State,
    layout_id: str,
    snapshots: Iterable[int],
    settings: Mapping[str, Any] | None = None,
    baselines: Baselines | None = None,
) -> State:
    """Return the state with additional snapshots and baselines of a layout.

    settings: the settings of the layout; None to keep those in the state.
    """
    old = state.get(layout_id, LaidOut())
    if settings is not None and _ids(settings) and _ids(old.settings) and _ids(settings) != _ids(old.settings):
        others = {name: entry for name, entry in state.items() if name != layout_id}
        own = others.pop(_with_ids(layout_id, settings), LaidOut())
        state, old = {**others, _with_ids(layout_id, old.settings): old}, own
    entry = LaidOut(
        old.settings if settings is None else settings,
        old.snapshots | frozenset(snapshots),
        {**old.baselines, **(baselines or {})},
    )
    return {**state, layout_id: entry}


def partition_digest(partition: Partition) -> str:
    """Return a short digest of the spec id and the values of a partition, which does not depend on column names."""
    content = repr((partition.spec_id, partition.values))
    return hashlib.sha256(content.encode(errors="surrogatepass")).hexdigest()[:_DIGEST_CHARACTERS]


def drop_dead(state: State, dead: frozenset[int]) -> State:
    """Return the state without dead snapshots, which added no live file, and without layouts that have only these.

    Without dead snapshots, the property has at most one snapshot id per live file.
    """
    kept = {}
    for name, entry in state.items():
        if live := entry.snapshots - dead:
            baselines = {at: baseline for at, baseline in entry.baselines.items() if at[0] not in dead}
            kept[name] = replace(entry, snapshots=live, baselines=baselines)
    return kept


def from_summaries(
    state: State, summaries: Iterable[tuple[int, Mapping[str, str]]], without: frozenset[int] = frozenset()
) -> State:
    """Return the state with the snapshots whose summary has a layout id, except those in `without`.

    The property may lack such a snapshot: a run by engine native may be killed before it sets the property.
    """
    known = listed(state) | without
    for snapshot_id, summary in summaries:
        if LAYOUT_ID in summary and snapshot_id not in known:
            state = add(state, summary[LAYOUT_ID], [snapshot_id])
    return state


def known(properties: Mapping[str, str], summaries: Iterable[tuple[int, Mapping[str, str]]]) -> State:
    """Return the layout records of a table, from its properties and the summaries of its snapshots.

    A property that is invalid counts as none.
    """
    try:
        state = parse(properties.get(PROPERTY))
    except CorruptState:
        state = {}
    return from_summaries(state, summaries, undone(properties))


def joined(state: State, other: State) -> State:
    """Return the state with the snapshots and baselines of another one."""
    for name, entry in other.items():
        state = add(state, name, entry.snapshots, entry.settings or None, entry.baselines)
    return state


def undone(properties: Mapping[str, str]) -> frozenset[int]:
    """Return the snapshots of runs that were rolled back, which have layout ids in their summaries."""
    return frozenset(snapshot for entry in rollbacks(properties) for snapshot in entry["snapshots"])


def rollbacks(properties: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return an entry for each rollback, the oldest first: the ids `run` and `rollback`, and the run's `snapshots`."""
    try:
        entries = parse_json(properties.get(ROLLBACK, "[]"))
    except ValueError:
        return []
    return [entry for entry in entries if _is_rollback(entry)] if isinstance(entries, list) else []


def runs(properties: Mapping[str, str]) -> dict[int, str]:
    """Return the ids of the runs in the property, by snapshot. Invalid entries count as none."""
    try:
        entries = parse_json(properties.get(RUNS, "{}"))
    except ValueError:
        return {}
    found = entries.items() if isinstance(entries, dict) else ()
    return {at: run for run, made in found if isinstance(made, list) for at in made if type(at) is int}


def render_runs(runs: Mapping[int, str]) -> str:
    """Return the value of the property for `runs`."""
    entries: dict[str, list[int]] = {}
    for snapshot, run in runs.items():
        entries.setdefault(run, []).append(snapshot)
    return json.dumps(entries, separators=(",", ":"))


def _is_rollback(entry: Any) -> bool:
    snapshots = entry.get("snapshots") if isinstance(entry, dict) else None
    return isinstance(snapshots, list) and all(type(snapshot) is int for snapshot in snapshots)


def layout_id(name: str) -> str:
    """Return the layout id of an entry with this name."""
    return name.partition(_SEPARATOR)[0]


def _with_ids(layout_id: str, settings: Mapping[str, Any]) -> str:
    return _SEPARATOR.join((layout_id, *map(str, _ids(settings))))


def _ids(settings: Mapping[str, Any]) -> list[Any]:
    ids = settings.get(COLUMN_IDS)
    return ids if isinstance(ids, list) else []


def listed(state: State) -> frozenset[int]:
    """Return the ids of the snapshots of all layouts."""
    return frozenset(snapshot for entry in state.values() for snapshot in entry.snapshots)


def after(
    state: State,
    layout: Layout,
    snapshots: Iterable[int],
    dead: frozenset[int],
    baselines: Baselines | None = None,
) -> State:
    """Return the state after a run: without dead snapshots, and with the new snapshots and baselines of the layout."""
    return _limited(add(drop_dead(state, dead), layout.layout_id, snapshots, layout.recorded_settings(), baselines))


def _limited(state: State) -> State:
    every = [(-b.files, name, *at) for name, entry in state.items() for at, b in entry.baselines.items()]
    if len(every) <= MAX_BASELINES:
        return state
    kept = {tuple(of) for _, *of in sorted(every)[:MAX_BASELINES]}
    return {
        name: replace(entry, baselines={at: b for at, b in entry.baselines.items() if (name, *at) in kept})
        for name, entry in state.items()
    }


def _laid_out(entry: Any) -> LaidOut:
    settings, snapshots = entry["settings"], entry["snapshots"]
    if not are_settings(settings) or not all(type(s) is int for s in snapshots):
        raise CorruptState("expected settings {} and snapshots [int]")
    return LaidOut(settings, frozenset(snapshots), dict(_baselines(entry.get("baselines"), frozenset(snapshots))))


def _baselines(stored: Any, snapshots: frozenset[int]) -> Iterator[tuple[tuple[int, str], Baseline]]:
    """Yield the valid baselines. For a group with an invalid one, the live files are measured as if it had none."""
    if not isinstance(stored, dict):
        return
    of_snapshot = {str(snapshot): snapshot for snapshot in snapshots}
    for snapshot, groups in stored.items():
        if snapshot in of_snapshot and isinstance(groups, dict):
            for partition, text in groups.items():
                if len(partition) == _DIGEST_CHARACTERS and (baseline := parse_baseline(text)) is not None:
                    yield (of_snapshot[snapshot], partition), baseline
