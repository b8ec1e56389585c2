"""The table property `zlayout.state`, which lists the snapshots whose files are laid out. Pure functions.

A file is laid out if the snapshot that added it is listed. Manifest entries keep that snapshot's id when manifests are
rewritten and when the snapshot itself expires, so nothing else has to be recorded.

    {"v":1,"layouts":{"<layout id>":{"settings":{...},"snapshots":[<id>,...]}}}
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from zlayout.reading import parse_json
from zlayout.spec.model import Layout
from zlayout.table.state import are_settings

PROPERTY = "zlayout.state"
RUN = "zlayout.run"
LAYOUT_ID = "zlayout.layout_id"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class LaidOut:
    """The snapshots whose files have one layout."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    snapshots: frozenset[int] = frozenset()


State = Mapping[str, LaidOut]


class CorruptState(ValueError):
    """The property's text is not a state."""


def parse(text: str | None) -> State:
    """Return the state in a property's text, {} if there is none. Raises CorruptState."""
    if not text:
        return {}
    try:
        document = parse_json(text)
        if document["v"] != _VERSION:
            raise CorruptState(f"expected version {_VERSION}, found {document['v']!r}")
        return {str(name): _laid_out(entry) for name, entry in document["layouts"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptState(f"expected {{v, layouts}}: {type(error).__name__} {error}") from error


def render(state: State) -> str:
    """Return compact JSON, the same text for equal states."""
    layouts = {
        name: {"settings": dict(entry.settings), "snapshots": sorted(entry.snapshots)} for name, entry in state.items()
    }
    return json.dumps({"v": _VERSION, "layouts": layouts}, sort_keys=True, separators=(",", ":"))


def add(state: State, layout_id: str, snapshots: Iterable[int], settings: Mapping[str, Any] | None = None) -> State:
    """Return `state` with these snapshots added to the layout. settings: replace the recorded ones unless None."""
    old = state.get(layout_id, LaidOut())
    entry = LaidOut(old.settings if settings is None else settings, old.snapshots | frozenset(snapshots))
    return {**state, layout_id: entry}


def drop_dead(state: State, dead: frozenset[int]) -> State:
    """Return `state` without dead snapshots, and without layouts that have no other.

    dead: snapshots that added no live file. A snapshot adds files of one layout at most, so the property cannot have
    more ids than the table has live files.
    """
    kept = {name: LaidOut(entry.settings, entry.snapshots - dead) for name, entry in state.items()}
    return {name: entry for name, entry in kept.items() if entry.snapshots}


def from_summaries(state: State, summaries: Iterable[tuple[int, Mapping[str, str]]]) -> State:
    """Return `state` with all snapshots whose summary has a layout; a run may die before it sets the property."""
    for snapshot_id, summary in summaries:
        if LAYOUT_ID in summary:
            state = add(state, summary[LAYOUT_ID], [snapshot_id])
    return state


def listed(state: State) -> frozenset[int]:
    """Return all snapshots of the state, of any layout."""
    return frozenset(snapshot for entry in state.values() for snapshot in entry.snapshots)


def after(state: State, layout: Layout, snapshots: Iterable[int], dead: frozenset[int]) -> State:
    """Return the state to write after a run laid out `snapshots`, without dead ones."""
    return add(drop_dead(state, dead), layout.layout_id, snapshots, layout.settings())


def _laid_out(entry: Any) -> LaidOut:
    settings, snapshots = entry["settings"], entry["snapshots"]
    if not are_settings(settings) or not all(type(s) is int for s in snapshots):
        raise CorruptState("expected settings {} and snapshots [int]")
    return LaidOut(settings, frozenset(snapshots))
