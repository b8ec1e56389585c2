"""Observing the columns of Delta tables: types, names, bounds and statistics."""

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from support.delta_logs import (
    INTS,
    add,
    field,
    metadata,
    observe,
    protocol,
    write_log,
)


def test_types_nested_names_and_names_with_dots(tmp_path: Path) -> None:
    """Values as Delta's own writer puts them, timestamps cut to milliseconds."""
    inner = {"type": "struct", "fields": [field("x y", "short", "p-x"), field("deep.er", "string", "p-y")]}
    kinds = {"f": "float", "dec": "decimal(20,2)", "d": "date", "ts": "timestamp", "n": "timestamp_ntz", "i": "byte"}
    fields = [field(k, v, f"p-{k}") for k, v in kinds.items()]
    fields += [field("s", inner, "p-s"), field("a.b", "double", "p-ab"), field("yes", "boolean", "p-yes")]
    low = {"p-f": "NaN", "p-dec": 1.1, "p-d": "1960-01-02", "p-ts": "1969-12-31T23:59:59.999Z", "p-i": -3,
           "p-n": "2020-01-01T00:00:00.5", "p-s": {"p-x": -300, "p-y": "é"}, "p-ab": "-Infinity"}  # fmt: skip
    actions = [
        protocol(reader=("columnMapping", "timestampNtz")),
        metadata(fields, **{"delta.columnMapping.mode": "name"}),
        add("x", low, low),
    ]
    names = [*kinds, "s.x y", "s.`deep.er`", "`a.b`", "yes"]
    state = observe(write_log(tmp_path / "t", actions), *names)
    assert [c.name for c in state.columns] == [*kinds, "s.x y", "s.`deep.er`", "`a.b`", "yes"]
    lower = {name: b.lower[0].as_py() for name, b in state.files.bounds.items()}
    upper = {name: b.upper[0].as_py() for name, b in state.files.bounds.items()}
    assert np.isnan(lower.pop("f"))
    assert np.isnan(upper.pop("f"))
    assert lower == {
        "dec": Decimal("1.10"), "d": date(1960, 1, 2), "i": -3, "s.x y": -300, "s.`deep.er`": "é",
        "ts": datetime(1969, 12, 31, 23, 59, 59, 999000, UTC), "n": datetime(2020, 1, 1, 0, 0, 0, 500000),
        "`a.b`": float("-inf"), "yes": None,
    }  # fmt: skip
    assert upper["ts"] == datetime(1970, 1, 1, 0, 0, 0, 0, UTC), "as Spark reads it: a millisecond later"
    assert upper["n"] == datetime(2020, 1, 1, 0, 0, 0, 501000)
    yes = state.column("yes")
    assert (yes.orderable, yes.stats, yes.enable_stats) == (True, False, ())
    for name, kind in (("dec", pa.decimal128(20, 2)), ("ts", pa.timestamp("us", "UTC")), ("n", pa.timestamp("us"))):
        assert state.files.bounds[name].lower.type == kind == state.column(name).type  # type: ignore[union-attr]


def test_cut_strings_are_known_by_their_length_or_their_last_character(tmp_path: Path) -> None:
    pairs = [
        ("a" * 31, "b" * 32),
        ("a" * 32, "b"),
        ("a", "b" * 32 + "\x7f"),
        ("a", "b" * 32 + "\U0010ffff"),
        ("😀" * 16, "b"),
    ]
    adds = [add(f"f{at}", {"s": low}, {"s": high}) for at, (low, high) in enumerate(pairs)]
    state = observe(write_log(tmp_path / "t", [protocol(), metadata([field("s", "string")]), *adds]), "s")
    assert state.files.bounds["s"].truncated.tolist() == [False, True, True, True, True]


def test_cut_strings_of_a_longer_prefix(tmp_path: Path) -> None:
    pairs = [("a" * 32, "b"), ("a" * 33, "b"), ("a" * 100, "b" * 100), ("a" * 256, "b"), ("a", "b" * 256 + "\x7f")]
    adds = [add(f"f{at}", {"s": low}, {"s": high}) for at, (low, high) in enumerate(pairs)]
    longer = metadata([field("s", "string")], **{"delta.dataSkippingStringPrefixLength": "256"})
    state = observe(write_log(tmp_path / "t", [protocol(), longer, *adds]), "s")
    assert state.files.bounds["s"].truncated.tolist() == [True, True, False, True, True]


@pytest.mark.parametrize(
    ("properties", "longer", "cut"),
    [
        ({}, (("delta.dataSkippingStringPrefixLength", "256"),), 32),
        ({"delta.dataSkippingStringPrefixLength": "64"}, (("delta.dataSkippingStringPrefixLength", "256"),), 64),
        ({"delta.dataSkippingStringPrefixLength": "²"}, (("delta.dataSkippingStringPrefixLength", "256"),), 32),
        ({"delta.dataSkippingStringPrefixLength": "256"}, (), 256),
        ({"delta.dataSkippingStringPrefixLength": "2000"}, (), 2000),
    ],
)
def test_longer_bounds_never_shorten(tmp_path: Path, properties: dict[str, str], longer: object, cut: int) -> None:
    fields = [field("s", "string"), field("n", "long")]
    state = observe(write_log(tmp_path / "t", [protocol(), metadata(fields, **properties)]))
    assert {c.name: c.longer_bounds for c in state.columns} == {"s": longer, "n": ()}
    assert {c.name: c.bound_length for c in state.columns} == {"s": cut, "n": None}


def test_text_bounds_are_long_from_the_start(tmp_path: Path) -> None:
    fields = [field("n", "long"), field("s", "string")]
    short = {"delta.dataSkippingNumIndexedCols": "0"}
    state = observe(write_log(tmp_path / "t", [protocol(), metadata(fields, **short)]), "n", "s")
    assert state.columns[1].enable_stats == (
        ("delta.dataSkippingStatsColumns", "`n`,`s`"),
        ("delta.dataSkippingStringPrefixLength", "256"),
    )
    number = observe(write_log(tmp_path / "u", [protocol(), metadata(fields, **short)]), "n")
    assert number.columns[0].enable_stats == (("delta.dataSkippingStatsColumns", "`n`"),)


def test_which_columns_have_statistics_and_how_to_turn_them_on(tmp_path: Path) -> None:
    inner = {"type": "struct", "fields": [field("x", "integer"), field("y", "integer")]}
    fields = [field("p", "integer"), field("a", "integer"), field("s", inner), field("m", "binary"), field("z", "long")]

    def stats(**properties: str) -> dict[str, tuple[bool, tuple[tuple[str, str], ...]]]:
        path = tmp_path / str(len(list(tmp_path.iterdir())))
        state = observe(write_log(path, [protocol(), metadata(fields, ["p"], **properties)]), "s.y", "z")
        return {c.name: (c.stats, c.enable_stats) for c in state.columns}

    on, off = (True, ()), (False, ())
    assert stats() == {"p": off, "a": on, "s.x": on, "s.y": on, "m": off, "z": on}
    count = "delta.dataSkippingNumIndexedCols"
    listed = "delta.dataSkippingStatsColumns"
    both = (False, ((listed, "`a`,`s`.`x`,`s`.`y`,`z`"),))
    assert stats(**{count: "2"}) == {"p": off, "a": on, "s.x": on, "s.y": both, "m": off, "z": both}
    assert stats(**{count: "-1"}) == {"p": off, "a": on, "s.x": on, "s.y": on, "m": off, "z": on}
    assert stats(**{listed: "`A`,s"})["z"] == (False, ((listed, "`A`,s,`z`"),))
    assert stats(**{listed: "`A`,s"})["a"] == on
    assert stats(**{listed: "z"})["s.y"] == (False, ((listed, "z,`s`.`y`"),))


def test_the_33rd_column_has_no_statistics(tmp_path: Path) -> None:
    fields = [field(f"c{at}", "integer") for at in range(40)]
    state = observe(write_log(tmp_path / "t", [protocol(), metadata(fields)]), "c32")
    assert [c.stats for c in state.columns] == [True] * 32 + [False] * 8
    every = ",".join(f"`c{at}`" for at in range(33))
    assert state.columns[32].enable_stats == (("delta.dataSkippingStatsColumns", every),)
    assert {c.enable_stats for c in state.columns if c.name != "c32"} == {()}


@pytest.mark.parametrize("value", ["", "abc", "1.5", "-2", "9" * 5000])
def test_invalid_numbers_in_properties_count_as_the_default(tmp_path: Path, value: str) -> None:
    fields = [field(f"c{at}", "string") for at in range(33)]
    names = ("delta.dataSkippingNumIndexedCols", "delta.dataSkippingStringPrefixLength")
    state = observe(write_log(tmp_path / "t", [protocol(), metadata(fields, **dict.fromkeys(names, value))]))
    assert [(c.stats, c.bound_length) for c in state.columns] == [(True, 32)] * 32 + [(False, 32)]


def test_a_key_far_behind_enables_no_column_between(tmp_path: Path) -> None:
    """Column 402 of a table of which files have statistics on the first columns that their writer knew."""
    fields = [field(f"c{at}", "integer") for at in range(500)]
    low = {f"c{at}": at for at in range(3)}
    actions = [protocol(), metadata(fields), add("f", low, low), add("g", low, low)]
    state = observe(write_log(tmp_path / "t", actions), "c1", "c401")
    assert state.columns[401].enable_stats == (("delta.dataSkippingStatsColumns", "`c0`,`c1`,`c2`,`c401`"),)
    without = observe(write_log(tmp_path / "u", [protocol(), metadata(fields), add("f", rows=10)]), "c401")
    assert without.columns[401].enable_stats == (("delta.dataSkippingStatsColumns", "`c401`"),)


def test_columns_without_min_and_max_are_not_listed(tmp_path: Path) -> None:
    """Delta rejects a list with a column of such a type."""
    fields = [field("yes", "boolean"), field("a", "integer"), field("z", "long")]
    few = metadata(fields, **{"delta.dataSkippingNumIndexedCols": "2"})
    low = {"yes": True, "a": 1}
    state = observe(write_log(tmp_path / "t", [protocol(), few, add("f", low, low)]), "z")
    assert state.columns[2].enable_stats == (("delta.dataSkippingStatsColumns", "`a`,`z`"),)


@pytest.mark.parametrize("length", [32, 33])
def test_values_of_the_prefix_length_are_not_truncated_without_a_tie_breaker(tmp_path: Path, length: int) -> None:
    adds = [add(f"f{n}", {"s": f"{n:0{length}x}"}, {"s": f"{n + 9:0{length}x}"}) for n in range(3)]
    state = observe(write_log(tmp_path / "t", [protocol(), metadata([field("s", "string")]), *adds]), "s")
    assert not state.files.bounds["s"].truncated.any()


def test_bounds_that_delta_rs_truncates(tmp_path: Path) -> None:
    long = pa.table({"s": ["q" * 100 + str(n) for n in range(9)], "x": [f"{n:032x}" for n in range(9)]})
    write_deltalake(tmp_path / "t", long)
    state = observe(tmp_path / "t", "s", "x")
    assert {name: b.truncated.tolist() for name, b in state.files.bounds.items()} == {"s": [True], "x": [False]}
    assert state.files.bounds["s"].upper[0].as_py() == "q" * 63 + "r"


def test_the_schema_digest_follows_the_schema_and_not_its_key_order(tmp_path: Path) -> None:
    turned = [dict(reversed(f.items())) for f in INTS]
    paths = [write_log(tmp_path / str(at), [protocol(), metadata(f)]) for at, f in enumerate([INTS, turned, INTS[:1]])]
    same, equal, other = (observe(path).schema_digest for path in paths)
    assert same == equal != other
