import json

import pytest
from support.builders import make_layout

from zlayout.formats.iceberg.read import state_property as recorded
from zlayout.formats.iceberg.read.state_property import CorruptState, LaidOut
from zlayout.table.partition import Partition, PartitionField
from zlayout.table.state import Baseline

LAYOUT = make_layout("a", curve="zorder", engine="native")


def test_round_trip_is_compact_and_stable() -> None:
    state = {"b": LaidOut({"x": 1}, frozenset({9, 3})), "a": LaidOut({}, frozenset({1}))}
    text = recorded.render(state)
    assert text == (
        '{"layouts":{"a":{"settings":{},"snapshots":[1]},"b":{"settings":{"x":1},"snapshots":[3,9]}},"v":1}'
    )
    assert recorded.parse(text) == state


def test_runs_are_found_by_snapshot() -> None:
    text = recorded.render_runs({8: "one", 9: "two", 11: "one"})
    assert text == '{"one":[8,11],"two":[9]}'
    assert recorded.runs({"zlayout.runs": text}) == {8: "one", 9: "two", 11: "one"}


@pytest.mark.parametrize("text", ["{", "[]", "7", '{"one":7}', '{"one":["8",true]}', '{"one":{"8":1}}', "[" * 100_000])
def test_an_invalid_list_of_runs_has_none(text: str) -> None:
    assert recorded.runs({"zlayout.runs": text}) == {}


@pytest.mark.parametrize("text", [None, ""])
def test_no_property_is_no_state(text: str | None) -> None:
    assert recorded.parse(text) == {}


@pytest.mark.parametrize(
    "text",
    [
        "{",
        "[]",
        "7",
        '{"v":2,"layouts":{}}',
        '{"v":1}',
        '{"v":1,"layouts":[]}',
        '{"v":1,"layouts":{"a":{"settings":{}}}}',
        '{"v":1,"layouts":{"a":{"settings":{},"snapshots":["7"]}}}',
        '{"v":1,"layouts":{"a":{"settings":[],"snapshots":[7]}}}',
        '{"v":1,"layouts":{"a":{"settings":{},"snapshots":7}}}',
        '{"v":1,"layouts":{"a":{"settings":{"files.target_size":Infinity},"snapshots":[7]}}}',
        '{"v":1,"layouts":{"a":{"settings":{"engine":[["native"]]},"snapshots":[7]}}}',
        '{"v":1,"layouts":{"a":{"settings":{"engine":{"name":"native"}},"snapshots":[7]}}}',
        '{"v":1,"layouts":{"a":{"settings":{"zorder.columns":[{"name":["a"]}]},"snapshots":[7]}}}',
        "[" * 100_000,
    ],
)
def test_corrupt_text_is_named(text: str) -> None:
    with pytest.raises(CorruptState):
        recorded.parse(text)


def test_add_keeps_what_is_there() -> None:
    state = recorded.add({"a": LaidOut({"s": 1}, frozenset({1}))}, "a", [2])
    assert state == {"a": LaidOut({"s": 1}, frozenset({1, 2}))}
    assert recorded.add(state, "b", [3], {"t": 2})["b"] == LaidOut({"t": 2}, frozenset({3}))


def test_joined_has_the_snapshots_and_baselines_of_both() -> None:
    one, two = Baseline(3, (1.0,)), Baseline(4, (2.0,))
    state = {"a": LaidOut({"s": 1}, frozenset({1}), {(1, "p"): one})}
    other = {"a": LaidOut({}, frozenset({2}), {(2, "p"): two}), "b": LaidOut({"t": 2}, frozenset({3}))}
    assert recorded.joined(state, other) == {
        "a": LaidOut({"s": 1}, frozenset({1, 2}), {(1, "p"): one, (2, "p"): two}),
        "b": LaidOut({"t": 2}, frozenset({3})),
    }


def test_drop_dead_forgets_snapshots_and_empty_layouts() -> None:
    state = {"a": LaidOut({}, frozenset({1, 2})), "b": LaidOut({}, frozenset({3}))}
    assert recorded.drop_dead(state, frozenset({1, 3, 4})) == {"a": LaidOut({}, frozenset({2}))}


def test_after_never_grows_past_the_live_snapshots() -> None:
    state: recorded.State = {}
    for snapshot in range(1, 50):
        state = recorded.after(state, LAYOUT, [snapshot], dead=recorded.listed(state))
    assert json.loads(recorded.render(state))["layouts"] == {
        LAYOUT.layout_id: {"settings": LAYOUT.settings(), "snapshots": [49]}
    }


def test_summaries_of_snapshots_count() -> None:
    summaries = [(1, {"zlayout.layout_id": "a"}), (2, {"spark.app.id": "x"}), (3, {"zlayout.layout_id": "b"})]
    state = recorded.from_summaries({"a": LaidOut({"s": 1}, frozenset({7}))}, summaries)
    assert state == {"a": LaidOut({"s": 1}, frozenset({1, 7})), "b": LaidOut({}, frozenset({3}))}


def test_a_layout_id_that_stands_for_two_layouts_keeps_both() -> None:
    """Columns 1 and 2 swapped their names between two rewrites by `a`."""
    layout = make_layout("a")
    first = recorded.after({}, layout.identified(["1"]), [10], frozenset())
    second = recorded.parse(recorded.render(recorded.after(first, layout.identified(["2"]), [20], frozenset())))
    found = {(recorded.layout_id(n), tuple(e.settings["column_ids"])): e.snapshots for n, e in second.items()}
    assert found == {(layout.layout_id, ("1",)): {10}, (layout.layout_id, ("2",)): {20}}
    # The summaries of both snapshots have the same layout id.
    summaries = [(10, {recorded.LAYOUT_ID: layout.layout_id}), (20, {recorded.LAYOUT_ID: layout.layout_id})]
    assert recorded.from_summaries(second, summaries) == second
    back = recorded.after(second, layout.identified(["1"]), [30], frozenset())
    found = {tuple(e.settings["column_ids"]): e.snapshots for e in back.values()}
    assert found == {("1",): {10, 30}, ("2",): {20}}
    # A record without ids, of an older version, gets those of the next rewrite.
    plain = recorded.after({}, layout, [10], frozenset())
    (entry,) = recorded.after(plain, layout.identified(["1"]), [20], frozenset()).values()
    assert entry.snapshots == {10, 20}


def groups(files: int, count: int, snapshot: int) -> recorded.Baselines:
    return {(snapshot, f"{at:010x}"): Baseline(files + at, (1.5, 2.0)) for at in range(count)}


def test_baselines_are_stored_with_their_snapshot() -> None:
    state = recorded.after({}, LAYOUT, [7], frozenset(), groups(60, 2, 7))
    text = recorded.render(state)
    assert json.loads(text)["layouts"][LAYOUT.layout_id]["baselines"] == {
        "7": {"0000000000": "60 1.5 2", "0000000001": "61 1.5 2"}
    }
    assert recorded.parse(text) == state
    more = recorded.after(state, LAYOUT, [8], frozenset(), groups(5, 1, 8))
    assert recorded.parse(recorded.render(more)) == more
    assert len(more[LAYOUT.layout_id].baselines) == 3
    assert recorded.after(more, LAYOUT, [9], frozenset({7, 8}))[LAYOUT.layout_id].baselines == {}


def test_the_largest_groups_keep_their_baselines() -> None:
    state = recorded.after({}, LAYOUT, [7], frozenset(), groups(1000, 200, 7))
    state = recorded.after(state, LAYOUT, [8], frozenset(), groups(1, 50_000, 8))
    kept = state[LAYOUT.layout_id].baselines
    assert len(kept) == recorded.MAX_BASELINES
    assert min(baseline.files for baseline in kept.values()) > 49_000
    assert len(recorded.render(state)) < 20_000
    assert state[LAYOUT.layout_id].snapshots == {7, 8}


@pytest.mark.parametrize(
    "baselines",
    [
        None,
        [],
        "60 1.5",
        {"7": []},
        {"7": {"0000000000": 60}},
        {"7": {"0000000000": "60 nan"}},
        {"7": {"0000000000": "60 " + "1 " * 9999}},
        {"7": {"x" * 100_000: "60 1.5"}},
        {"8": {"0000000000": "60 1.5"}},
        {"seven": {"0000000000": "60 1.5"}},
    ],
)
def test_invalid_baselines_are_ignored(baselines: object) -> None:
    entry = {"settings": {}, "snapshots": [7], "baselines": baselines}
    found = recorded.parse(json.dumps({"v": 1, "layouts": {"a": entry}}))
    assert found == {"a": LaidOut({}, frozenset({7}))}


def test_the_digest_of_a_partition_depends_on_its_spec_and_values_only() -> None:
    fields = (PartitionField("a"),)
    one = recorded.partition_digest(Partition(1, fields, ("x", 2)))
    assert one == recorded.partition_digest(Partition(1, (PartitionField("renamed"),), ("x", 2)))
    others = [Partition(2, fields, ("x", 2)), Partition(1, fields, ("x", "2")), Partition(1, fields, ("\ud800", 2))]
    assert len({one, *map(recorded.partition_digest, others)}) == 4
