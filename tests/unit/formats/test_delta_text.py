"""Names, literals, file URIs, log segments and run history of the Delta backend: text in, text out."""

import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pa_fs
import pytest
from support.builders import make_bounds, make_file_table, make_layout, make_state

from zlayout.errors import TableError
from zlayout.formats.delta.read.features import native_diagnostics
from zlayout.formats.delta.read.history import run_commits, version_with_marker
from zlayout.formats.delta.read.log import log_segment
from zlayout.formats.delta.read.schema import parse_names, stats_columns_without
from zlayout.formats.delta.write.optimize import optimize_conf, partitions_predicate
from zlayout.formats.delta.write.transaction import file_uris
from zlayout.spec.model import ZorderColumn
from zlayout.table.partition_values import literal
from zlayout.table.state import Partition, PartitionField, TableState
from zlayout.text import column_name, dotted, path_of, string_literal


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("a", [("a",)]),
        ("a, b.c ,`d.e`.f", [("a",), ("b", "c"), ("d.e", "f")]),
        ("`x``y`,z z", [("x`y",), ("z z",)]),
        ("", []),
    ],
)
def test_names_are_split_as_spark_does(text: str, names: list[tuple[str, ...]]) -> None:
    assert parse_names(text) == names
    assert parse_names(", ".join(map(dotted, names))) == names


@pytest.mark.parametrize(
    ("listed", "left"),
    [("a, P,s.x", "`a`,`s`.`x`"), ("`p.q`,p", "`p.q`"), ("p", ""), ("a", "`a`"), ("p.x,`a``,b`", "`a``,b`")],
)
def test_new_partition_columns_have_no_statistics(listed: str, left: str) -> None:
    assert stats_columns_without(listed, ["p"]) == left


@pytest.mark.parametrize("path", [("a",), ("s", "x"), ("a.b", "`c"), (" lead",), ("s ", " x\t"), ("s", "x,y ")])
def test_a_name_leads_to_its_column(path: tuple[str, ...]) -> None:
    """A header of a CSV file often has spaces at its ends, which are a part of the name."""
    assert path_of(dotted(path)) == path


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("a.b", "a.b"),
        ("`a`.b", "a.b"),
        ("`a.b`", "`a.b`"),
        ("a,b", "`a,b`"),
        ("a`b", "`a``b`"),
        ("s.`x``.y`", "s.`x``.y`"),
    ],
)
def test_a_column_has_one_name_however_a_user_quotes_it(written: str, name: str) -> None:
    assert column_name(written) == name
    assert column_name(name) == name


@pytest.mark.parametrize(
    ("value", "kind", "text"),
    [
        (True, pa.bool_(), "TRUE"),
        (7, pa.int32(), "7"),
        (-9_000_000_000, pa.int64(), "CAST(-9000000000 AS BIGINT)"),
        (0.1, pa.float32(), "CAST('0.1' AS FLOAT)"),
        (float("inf"), pa.float64(), "CAST('inf' AS DOUBLE)"),
        (Decimal("1.250"), pa.decimal128(12, 3), "CAST('1.250' AS DECIMAL(12, 3))"),
        (date(33, 1, 2), pa.date32(), "DATE'0033-01-02'"),
        (datetime(33, 1, 2, 3, tzinfo=UTC), pa.timestamp("us", "UTC"), "TIMESTAMP'0033-01-02 03:00:00Z'"),
        (
            datetime(2024, 1, 1, 1, 0, 0, 500, tzinfo=timezone(timedelta(hours=2))),
            pa.timestamp("us", "UTC"),
            "TIMESTAMP'2023-12-31 23:00:00.000500Z'",
        ),
        (datetime(2024, 1, 1), pa.timestamp("us"), "TIMESTAMP_NTZ'2024-01-01 00:00:00'"),
        (b"\x00\xff", pa.binary(), "X'00FF'"),
        ("it's \\ \n ü😀", pa.string(), "'it\\'s \\\\ \\u000a \\u00fc\\U0001f600'"),
    ],
)
def test_literals_are_typed(value: Any, kind: pa.DataType, text: str) -> None:
    assert literal(value, kind) == text


def test_a_predicate_for_many_partitions_is_a_shallow_tree() -> None:
    fields = (PartitionField("a"), PartitionField("b`c"))
    one = Partition(0, fields, (1, None))
    assert partitions_predicate([one], [pa.int32(), pa.string()]) == "(`a` = 1 AND `b``c` IS NULL)"
    many = partitions_predicate([one] * 1024, [pa.int32(), pa.string()])
    depth = deepest = 0
    for character in many:
        depth += (character == "(") - (character == ")")
        deepest = max(deepest, depth)
    assert (many.count("`a`"), deepest) == (1024, 11)


def test_nothing_gets_out_of_a_string_literal() -> None:
    for evil in ("' OR 1=1 --", "\\' OR 1=1", "\\"):
        inside = string_literal(evil)[1:-1]
        assert "'" not in inside.replace("\\\\", "").replace("\\'", "")
        assert not inside.replace("\\\\", "").endswith("\\")


def test_file_uris_are_those_that_java_makes() -> None:
    """Java keeps non-ASCII letters and +=&, escapes the spaces of all scripts, and writes a percent sign as %25."""
    base = "file:/base%20x/t"
    logged = [
        "p=1%20%2525ü+=/a.parquet",
        "file:/else%20where/b.parquet",
        "s3://bucket/c%23.parquet",
        "p=東京%E3%80%80駅%C2%A0/d.parquet",
    ]
    expected = [
        "file:/base%20x/t/p=1%20%25" + "25ü+=/a.parquet",
        "file:/else%20where/b.parquet",
        "s3://bucket/c%23.parquet",
        "file:/base%20x/t/p=東京%E3%80%80駅%C2%A0/d.parquet",
    ]
    assert file_uris(base, logged).to_pylist() == expected


def name(version: int, suffix: str = "json") -> str:
    return f"{version:020d}.{suffix}"


def test_the_newest_complete_checkpoint_begins_the_segment() -> None:
    half = name(3, "checkpoint.0000000001.0000000002.parquet")
    names = [*map(name, range(2, 6)), name(1, "checkpoint.parquet"), name(9, "checkpoint.parquet"), half, "x.crc"]
    segment = log_segment(names, 4)
    assert segment.checkpoint == (name(1, "checkpoint.parquet"),)
    assert segment.commits == (name(2), name(3), name(4))
    whole = log_segment([*names, name(3, "checkpoint.0000000002.0000000002.parquet")], 4)
    assert (len(whole.checkpoint), whole.commits) == (2, (name(4),))
    with pytest.raises(TableError, match="ZL113 version 7 requires commit 6"):
        log_segment(names, 7)


def test_the_commits_of_a_run_are_found_by_tag_and_by_user_metadata(tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()

    def commit(version: int, *actions: dict[str, Any], **info: Any) -> None:
        lines = [{"commitInfo": {"timestamp": 1, **info}}, *actions]
        (log / name(version)).write_text("\n".join(json.dumps(line, separators=(",", ":")) for line in lines))

    new = {"add": {"path": "n", "size": 70, "stats": '{"numRecords":12,"minValues":{}}'}}
    old = [{"remove": {"path": at, "size": 40}} for at in ("x", "y")]
    commit(0, new, tags={"zlayout.run": "run1"})
    commit(1, new, *old, tags={"zlayout.run": "run1", "zlayout.commit": "m"})
    commit(2, new, userMetadata="about run2")
    commit(3, userMetadata='{"zlayout.run":"run1"}')
    commit(4, {"add": {"path": "run1", "size": 1}})
    storage = pa_fs.SubTreeFileSystem(str(tmp_path), pa_fs.LocalFileSystem())
    first, last = run_commits(storage, "run1", 0)
    assert (first.commit.version, first.added.to_pylist(), first.commit.files_removed) == (1, ["n"], 2)
    assert (first.commit.bytes_added, first.commit.bytes_removed, first.commit.rows) == (70, 80, 12)
    assert (last.commit.version, last.commit.rows, len(last.added)) == (3, 0, 0)
    assert (version_with_marker(storage, "m", 0), version_with_marker(storage, "m", 1)) == (1, None)


def state_with(**ranges: tuple[int, int]) -> TableState:
    bounds = {column: make_bounds([low], [high]) for column, (low, high) in ranges.items()}
    return make_state(make_file_table([1], bounds=bounds))


def test_settings_that_optimize_cannot_honour_are_reported() -> None:
    honoured = make_layout("a", "b", curve="zorder", range_ids=500, engine="native")
    assert native_diagnostics(honoured, state_with(a=(0, 1000), b=(0, 64))) == ()
    other = make_layout(ZorderColumn("a", 2.0), "b", range_ids=500, noise=True, engine="native")
    diagnostics = native_diagnostics(other, state_with(a=(0, 1000), b=(5, 68)))
    assert {(d.code, d.severity) for d in diagnostics} == {("ZL401", "note")}
    assert [d.message.split()[0] for d in diagnostics] == ["zorder.curve", "weights", "zorder.noise", "column"]
    assert "column b has at most 64 values" in diagnostics[3].message


def test_the_layout_becomes_session_settings() -> None:
    layout = make_layout(
        "a", curve="zorder", range_ids=77, noise=True, target_size=123456, sort_within=False, engine="native"
    )
    conf = optimize_conf(layout, "r", {"team": "data"})
    assert conf["spark.databricks.io.skipping.mdc.rangeId.max"] == "77"
    assert conf["spark.databricks.io.skipping.mdc.addNoise"] == "true"
    assert conf["spark.databricks.io.skipping.mdc.sortWithinFiles"] == "false"
    assert conf["spark.databricks.delta.optimize.maxFileSize"] == "123456"
    assert json.loads(conf["spark.databricks.delta.commitInfo.userMetadata"]) == {"zlayout.run": "r", "team": "data"}
