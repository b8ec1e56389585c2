"""Predicted and measured touched of a run, as stored with its commits."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pa_fs
import pytest
from deltalake import write_deltalake

from zlayout.formats.base import (
    RunColumn,
    RunCost,
    RunMetrics,
    parse_cost,
    parse_query_cost,
    parse_touched,
    render_cost,
    render_query_cost,
    render_touched,
)
from zlayout.formats.delta.read.history import last_run
from zlayout.formats.delta.read.log import LogFiles
from zlayout.planner.model import QueryCost

COLUMNS = (RunColumn("a", 4.1, 4.3), RunColumn('b "ü.c"', None, 12.0))


def test_round_trip() -> None:
    text = render_touched(COLUMNS)
    assert text == '[["a",4.1,4.3],["b \\"\\u00fc.c\\"",null,12.0]]'
    assert parse_touched(text) == COLUMNS


def test_four_digits_are_stored() -> None:
    assert render_touched((RunColumn("a", 1 / 3, 12_345.6),)) == '[["a",0.3333,12350.0]]'


def test_nothing_is_stored_of_no_column_or_of_too_many() -> None:
    assert render_touched(()) is None
    assert render_touched((RunColumn("a" * 5000, None, 1.0),)) is None


@pytest.mark.parametrize(
    "text",
    [
        None,
        7,
        "",
        "{",
        "{}",
        "[1]",
        '[["a",1]]',
        '[["a",1,2,3]]',
        '[["a",1,null]]',
        '[["a",1,"2"]]',
        '[["a",1,true]]',
        '[["a",-1,2]]',
        '[["a",NaN,2]]',
        '[["a",1,1e999]]',
        "[" * 4000,
        '[["a",1,2],' + " " * 5000 + '["b",1,2]]',
    ],
)
def test_anything_else_is_nothing(text: object) -> None:
    assert parse_touched(text) == ()


@pytest.fixture
def table(tmp_path: Path) -> Path:
    for _ in range(4):
        write_deltalake(tmp_path, pa.table({"a": [1, 2]}), mode="append")
    return tmp_path


def tag(table: Path, version: int, tags: Any) -> None:
    path = table / "_delta_log" / f"{version:020}.json"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    for line in lines:
        if "commitInfo" in line:
            line["commitInfo"]["tags"] = tags
    path.write_text("\n".join(json.dumps(line) for line in lines))


def newest(table: Path) -> RunMetrics | None:
    storage = pa_fs.SubTreeFileSystem(str(table), pa_fs.LocalFileSystem())
    return last_run(LogFiles(storage), 3)


def test_the_newest_commit_with_metrics_is_the_last_run_of_a_delta_table(table: Path) -> None:
    assert newest(table) is None
    tag(table, 1, {"zlayout.run": "first", "zlayout.touched": '[["a",9,9]]'})
    tag(table, 2, {"zlayout.run": "second", "zlayout.touched": '[["a",null,2]]', "zlayout.cost": "[7,1.5]"})
    assert newest(table) == RunMetrics("second", 2, (RunColumn("a", None, 2),), RunCost(7, 1.5))


@pytest.mark.parametrize(
    "text", [None, 7, "", "{}", "[1]", "[1.5,2]", "[-1,2]", "[1,-2]", "[1,null]", "[true,1]", "[1,2,3]"]
)
def test_an_invalid_cost_is_unknown(text: object) -> None:
    assert parse_cost(text) is None


def test_the_predicted_cost_of_queries_is_read_as_it_was_stored() -> None:
    assert parse_query_cost(render_query_cost(QueryCost(2.51234, 2**50))) == QueryCost(2.512, 2**50)
    assert parse_query_cost("[2.5,1.5]") is None


def test_a_cost_is_read_as_it_was_stored() -> None:
    assert parse_cost(render_cost(RunCost(2**50, 12.3456))) == RunCost(2**50, 12.35)


@pytest.mark.parametrize("tags", [[], "x", {"zlayout.run": 7}, {"zlayout.run": "r", "zlayout.touched": "[[]]"}, None])
def test_invalid_tags_are_skipped(table: Path, tags: Any) -> None:
    tag(table, 1, {"zlayout.run": "first", "zlayout.touched": '[["a",9,9]]'})
    tag(table, 2, tags)
    found = newest(table)
    assert found.run_id == "first"


def test_a_damaged_commit_has_no_metrics(table: Path) -> None:
    (table / "_delta_log" / f"{3:020}.json").write_text('{"commitInfo": {')
    assert newest(table) is None
