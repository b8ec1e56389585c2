"""A recommended layout in the text of a layout spec: what changes, and which text and comments stay."""

from dataclasses import replace
from datetime import date

import pytest
import yaml
from support.builders import make_layout

from zlayout.errors import Location
from zlayout.predicate.model import Compare
from zlayout.spec.layouts import with_layout
from zlayout.spec.model import Layout, ZorderColumn, parse_cut
from zlayout.table.partition import PartitionField

DECLARED = make_layout("day", "part")
WANTED = replace(DECLARED, columns=(ZorderColumn("part", 2.5), ZorderColumn("id")))


def test_block_columns_keep_the_comments_of_those_that_stay() -> None:
    before = (
        "# orders\nversion: 1\ntable: lake.db.orders  # the table\nzorder:\n  # by use\n  columns:\n"
        "    - day   # reports\n    - name: part\n      weight: 2  # look-ups\n  noise: false  # no\n\n# end\n"
    )
    assert with_layout(before, DECLARED, WANTED) == (
        "# orders\nversion: 1\ntable: lake.db.orders  # the table\nzorder:\n  # by use\n  columns:\n"
        "    - {name: part, weight: 2.5}  # look-ups\n    - id\n  noise: false  # no\n\n# end\n"
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("zorder: {columns: [day, part]} # c\n", "zorder: {columns: [{name: part, weight: 2.5}, id]} # c\n"),
        ("zorder:\n  columns:\n  - day\n  - part", "zorder:\n  columns:\n  - {name: part, weight: 2.5}\n  - id"),
        ("zorder:\n  columns: [\n    day,  # x\n  ]\n", "zorder:\n  columns: [{name: part, weight: 2.5}, id]\n"),
    ],
)
def test_columns_keep_their_style(before: str, after: str) -> None:
    assert with_layout(before, DECLARED, WANTED) == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("zorder:\n  columns: [day]\n  curve: kd # c\n", "zorder:\n  columns: [a]\n  curve: hilbert # c\n"),
        ("zorder:\n  columns: [day]\n", "zorder:\n  curve: hilbert\n  columns: [a]\n"),
        ("zorder: {columns: [day]}\n", "zorder: {curve: hilbert, columns: [a]}\n"),
    ],
)
def test_a_curve_is_changed_or_added(before: str, after: str) -> None:
    wanted = replace(DECLARED, columns=(ZorderColumn("a"),), curve="hilbert")
    assert with_layout(before, DECLARED, wanted) == after


def test_an_engine_is_changed_or_added() -> None:
    native: Layout = replace(DECLARED, engine="native")
    after = with_layout("version: 1\nzorder: {columns: [day]}\nengine: native  # x\n", native, DECLARED)
    assert after == "version: 1\nzorder: {columns: [day, part]}\nengine: zlayout  # x\n"
    assert with_layout("zorder: {columns: [day]}\n", native, DECLARED).startswith("engine: zlayout\nzorder:")


@pytest.mark.parametrize(
    "name", ["a.b", "yes", "1", "a b", "a: b", "x#y", "a'b", 'a"b', "a, b", "[x]", "ä", "-", "null"]
)
def test_every_name_is_read_as_written(name: str) -> None:
    wanted = replace(DECLARED, columns=(ZorderColumn(name), ZorderColumn(name, 2)))
    for before in ("zorder: {columns: [day]}\n", "zorder:\n  columns:\n  - day\n"):
        read = yaml.safe_load(with_layout(before, DECLARED, wanted))
        assert read["zorder"]["columns"] == [name, {"name": name, "weight": 2}]


def test_columns_are_added_to_a_layout_without_an_order() -> None:
    compaction = make_layout(curve="linear")
    before = "version: 1\nfiles: {target_size: 1MiB} # size\n"
    zorder = "zorder: {columns: [day, part], curve: kd}"
    assert with_layout(before, compaction, DECLARED) == before.replace("files", f"{zorder}\nfiles")
    assert with_layout("{version: 1, files: {}}", compaction, DECLARED) == f"{{version: 1, {zorder}, files: {{}}}}"


CUTS = (Compare("day", "<", date(2026, 1, 1)), Compare("part", "<=", "a, b"), Compare("x y", "<", 5))
CUT = replace(DECLARED, curve="workload", cuts=CUTS, columns=(*DECLARED.columns, ZorderColumn("x y")))
BLOCK = "zorder:\n  columns:\n  - day # first\n  - part\n  curve: kd\n  noise: false  # no\nfiles: {}\n"


@pytest.mark.parametrize(
    "before",
    [
        BLOCK,
        "zorder: {columns: [day, part]} # c\n",
        "zorder:\n  columns: [day, part]\n",
        "zorder:\n    noise: false\n    columns:\n    - day\n    - part # last",
        "version: 1\nfiles: {}\n",
    ],
)
def test_cuts_are_added_changed_and_removed(before: str) -> None:
    declared = DECLARED if "zorder" in before else make_layout(curve="linear")
    added = with_layout(before, declared, CUT)
    read = yaml.safe_load(added)["zorder"]
    assert (read["curve"], read["columns"]) == ("workload", ["day", "part", "x y"])
    assert tuple(parse_cut(text, Location("")) for text in read["cuts"]) == CUTS
    other = replace(CUT, cuts=CUTS[1:])
    changed = yaml.safe_load(with_layout(added, CUT, other))["zorder"]["cuts"]
    assert tuple(parse_cut(text, Location("")) for text in changed) == CUTS[1:]
    removed = with_layout(added, CUT, DECLARED)
    assert yaml.safe_load(removed)["zorder"] == {"columns": ["day", "part"], "curve": "kd"} | (
        {"noise": False} if "noise" in before else {}
    )


def test_cuts_are_written_in_the_style_of_the_file() -> None:
    assert with_layout(BLOCK, DECLARED, replace(CUT, cuts=CUTS[::2])) == (
        'zorder:\n  columns:\n  - day # first\n  - part\n  - "x y"\n  curve: workload\n  noise: false  # no\n'
        "  cuts:\n  - day < DATE '2026-01-01'\n  - \"`x y` < 5\"\nfiles: {}\n"
    )
    first = "zorder:\n  cuts:  # why\n  - day < 1\n  # more\n  columns: [day]\n"
    declared = make_layout("day", curve="workload", cuts=(Compare("day", "<", 1),))
    assert with_layout(first, declared, replace(declared, cuts=())) == "zorder:\n  columns: [day]\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("version: 1\nzorder:\n  columns: [a]\n", "version: 1\npartition_by: [KEYS]\nzorder:\n  columns: [a]\n"),
        ("{zorder: {columns: [a]}}", "{partition_by: [KEYS], zorder: {columns: [a]}}"),
        ("partition_by: [] # x\nzorder: {columns: [a]}\n", "partition_by: [KEYS] # x\nzorder: {columns: [a]}\n"),
    ],
)
def test_a_partitioning_is_added(before: str, after: str) -> None:
    fields = (PartitionField("day", "month"), PartitionField("part", "truncate[10]"))
    layout = make_layout("a")
    text = with_layout(before, layout, layout, fields)
    assert text == after.replace("KEYS", 'month(day), "truncate(10, part)"')
    assert yaml.safe_load(text)["partition_by"] == ["month(day)", "truncate(10, part)"]


def test_a_partitioning_and_an_order_are_added_to_a_layout_without_one() -> None:
    before = "version: 1\nfiles: {target_size: 1MiB}\n"
    after = with_layout(before, make_layout(curve="linear"), DECLARED, (PartitionField("day"),))
    expected = {"partition_by": ["day"], "zorder": {"columns": ["day", "part"], "curve": "kd"}}
    assert yaml.safe_load(after) == {"version": 1, "files": {"target_size": "1MiB"}} | expected
