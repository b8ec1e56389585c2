"""The length of string bounds that a sample needs, in a plan of real tables and in a plan file."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from support import delta_logs
from support.builders import make_layout, make_spec

import zlayout
from zlayout.formats.base import Capabilities
from zlayout.planner.bounds import MAX_LENGTH, needed_length
from zlayout.planner.diff import decide
from zlayout.session.plan import ProjectPlan

HOST = "https://www.example.com/en-gb/catalogue/home-and-garden/outdoor/furniture/"
CAPABILITIES = Capabilities("delta", partition_evolution=False, native_by_rank=True)
PREFIX = "delta.dataSkippingStringPrefixLength"


@pytest.mark.parametrize(
    ("values", "files", "expected"),
    [
        # 74 characters of the host and the digits up to those of neighbouring files
        ([f"{HOST}{n:07}" for n in range(4000)], 8, 96),
        ([f"{n * 7919 % 4000:032x}" for n in range(4000)], 8, 32),
        (["a" * 2000 + str(n) for n in range(100)], 8, MAX_LENGTH),
        ([*"abcdefgh", None], 8, 16),
        ([f"ORDER-{n:010}" for n in range(4000)], 8, 16),  # the whole value, which Iceberg keeps in any case
        (["same"] * 10, 8, 0),
        ([None, None], 8, 0),
    ],
)
def test_the_length_tells_the_bounds_of_neighbouring_files_apart(
    values: list[str | None], files: int, expected: int
) -> None:
    length = needed_length(pa.array(values, pa.string()), files)
    assert length == expected
    if 0 < length < MAX_LENGTH:
        edges = sorted({v for v in values if v is not None})[:: max(len(values) // files, 1)]
        assert len({v[:length] for v in edges}) == len(edges)


def test_binary_values_are_counted_in_bytes() -> None:
    assert needed_length(pa.array([b"x" * 40 + bytes([n]) for n in range(9)]), 2) == 48


def test_two_nearly_equal_values_do_not_lengthen_all_bounds() -> None:
    values = [f"{n:06}" + "-" * 600 for n in range(0, 40_000, 10)]
    assert needed_length(pa.array([*values, values[7] + "x"]), 1000) <= 32


def plan_of(root: Path, *, sample: bool) -> ProjectPlan:
    return zlayout.plan(zlayout.load_project(root), sample=sample)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A Delta table of 8 files by delta-rs, of addresses that agree in their first 74 characters."""
    items = np.random.default_rng(1).permutation(np.arange(4000))
    for part in np.split(items, 8):
        rows = pa.table({"url": [f"{HOST}{n:07}" for n in part.tolist()], "name": ["n" * 40] * len(part)})
        write_deltalake(tmp_path / "t", rows, mode="append")
    (tmp_path / "zlayout.yaml").write_text(
        f"version: 1\ncatalogs:\n  d:\n    format: delta\n    tables:\n      db.t: {tmp_path}/t\nlayouts: [t.yaml]\n"
    )
    (tmp_path / "t.yaml").write_text(
        "version: 1\ntable: d.db.t\nzorder:\n  columns: [url]\nfiles:\n  target_size: 8KiB\n"
    )
    return tmp_path


def length_of(plan: ProjectPlan) -> str:
    (table,) = plan.tables
    (change,) = table.properties
    assert change.name == PREFIX
    return change.after


def note(plan: ProjectPlan, code: str) -> list[str]:
    return [f"{d.message} ({d.hint})" for d in plan.tables[0].diagnostics if d.code == code]


def test_a_plan_with_a_sample_sets_the_length_that_it_needs(root: Path) -> None:
    assert length_of(plan_of(root, sample=False)) == "256"
    plan = plan_of(root, sample=True)
    assert plan.tables[0].sample is not None
    assert length_of(plan) == "96"
    assert [n for n in note(plan, "ZL406") if f"apply sets {PREFIX} to 96" not in n] == []
    (growth,) = note(plan, "ZL432")
    assert f"statistics of 2 columns grow by at most {2 * 2 * (96 - 32)} characters per file" in growth
    (column,) = plan.tables[0].columns
    assert column.predicted is not None
    assert column.predicted < 2


def test_a_plan_file_keeps_the_length_of_its_sample(root: Path) -> None:
    zlayout.write_plan(plan_of(root, sample=True), root / "plan.json")
    read = zlayout.read_plan(zlayout.load_project(root), root / "plan.json")
    assert read.tables[0].status == "changes"
    assert length_of(read) == "96"


@pytest.mark.parametrize(("properties", "expected"), [({PREFIX: "96"}, []), ({}, ["256"])])
def test_a_length_that_was_chosen_is_not_doubted(
    tmp_path: Path, properties: dict[str, str], expected: list[str]
) -> None:
    """Without the property, bounds with a long common prefix are made longer whenever their files are rewritten."""
    length = 96 if properties else 32
    adds = []
    for n in range(8):
        low, high = (f"{HOST[:20]}{(n + 100 * side):03}{'x' * 100}"[:length] for side in (0, 1))
        adds.append(delta_logs.add(f"f{n}", {"url": low}, {"url": high + "\x7f"}))
    table = delta_logs.metadata([delta_logs.field("url", "string")], **properties)
    state = delta_logs.observe(delta_logs.write_log(tmp_path / "t", [delta_logs.protocol(), table, *adds]), "url")
    assert state.files.bounds["url"].truncated.all()
    plan = decide(make_spec(make_layout("url", target_size=100)), state, CAPABILITIES).plan
    assert plan.status == "changes"
    assert [change.after for change in plan.properties] == expected


def test_present_bounds_that_are_long_enough_stay(root: Path) -> None:
    rows = pa.table({"url": [f"{n:05}" + "-" * 90 for n in range(4000)], "name": ["n"] * 4000})
    write_deltalake(root / "t", rows.slice(0, 2000), mode="overwrite")
    write_deltalake(root / "t", rows.slice(2000), mode="append")
    plan = plan_of(root, sample=True)
    assert plan.tables[0].status == "changes"
    assert plan.tables[0].properties == ()
    assert note(plan, "ZL432") == []
