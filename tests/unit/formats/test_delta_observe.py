"""Observing Delta tables from their logs alone: hand-written logs and tables written by deltalake."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from zlayout.errors import TableError
from zlayout.formats.delta.read.observe import observe_delta
from zlayout.spec.model import TableName
from zlayout.table.state import TableState

NAME = TableName("lake", ("db",), "t")
TAGS = {"zlayout.layout_id": "abc", "zlayout.group": "run/0", "zlayout.layout": '{"engine":"native"}'}
VECTOR = {
    "storageType": "u",
    "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
    "offset": 4,
    "sizeInBytes": 40,
    "cardinality": 6,
}


def observe(path: Path, *columns: str, version: int | None = None) -> TableState:
    return observe_delta(NAME, str(path), columns, version)


def field(name: str, kind: Any, physical: str = "") -> dict[str, Any]:
    number = sum(physical.encode())
    metadata = {"delta.columnMapping.physicalName": physical, "delta.columnMapping.id": number} if physical else {}
    return {"name": name, "type": kind, "nullable": True, "metadata": metadata}


def metadata(fields: list[Any], partitions: list[str] | None = None, **properties: str) -> dict[str, Any]:
    schema = json.dumps({"type": "struct", "fields": fields})
    return {
        "metaData": {
            "id": "6f1d-id",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": schema,
            "partitionColumns": partitions or [],
            "configuration": properties,
            "createdTime": 1,
        }
    }


def protocol(*features: str, reader: tuple[str, ...] = ()) -> dict[str, Any]:
    if not features and not reader:
        return {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    both = {"readerFeatures": list(reader), "writerFeatures": [*features, *reader]}
    return {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **both}}


def add(path: str, low: Any = None, high: Any = None, rows: int | None = 10, **more: Any) -> dict[str, Any]:
    stats = {
        "numRecords": rows,
        "minValues": low or {},
        "maxValues": high or {},
        "nullCount": zeros(low or {}),
    }
    action = {"path": path, "partitionValues": {}, "size": 100, "modificationTime": 1, "dataChange": True}
    return {"add": action | ({"stats": utf8_json(stats)} if rows is not None else {}) | more}


def zeros(low: dict[str, Any]) -> dict[str, Any]:
    return {name: zeros(value) if isinstance(value, dict) else 0 for name, value in low.items()}


def utf8_json(value: Any) -> str:
    """As Delta writes it: deltalake misreads U+10FFFF when it comes as an escaped surrogate pair."""
    return json.dumps(value, ensure_ascii=False)


def remove(path: str, **more: Any) -> dict[str, Any]:
    return {"remove": {"path": path, "dataChange": True, "deletionTimestamp": 1} | more}


def write_log(path: Path, *commits: list[dict[str, Any]]) -> Path:
    log = path / "_delta_log"
    log.mkdir(parents=True)
    for version, actions in enumerate(commits):
        lines = [{"commitInfo": {"timestamp": 1, "operation": "WRITE"}}, *actions]
        (log / f"{version:020d}.json").write_text("\n".join(map(utf8_json, lines)) + "\n")
    return path


INTS = [field("a", "integer"), field("b", "long")]


def test_a_plain_table(tmp_path: Path) -> None:
    first = [protocol(), metadata(INTS), add("one.parquet", {"a": 1, "b": 5}, {"a": 3, "b": 9})]
    state = observe(write_log(tmp_path / "t", first, [add("two.parquet", {"a": -4}, {"a": 2}, rows=7)]), "a", "b")
    assert (state.table, state.table_id, state.version, state.location) == (
        "lake.db.t",
        "6f1d-id",
        1,
        str(tmp_path / "t"),
    )
    assert state.files.path.to_pylist() == ["one.parquet", "two.parquet"]
    assert state.files.rows.tolist() == [10, 7]
    assert state.files.bytes.tolist() == [100, 100]
    assert state.files.version_key.to_pylist() == ["", ""]
    a, b = state.files.bounds["a"], state.files.bounds["b"]
    assert (a.lower.type, a.lower.to_pylist(), a.upper.to_pylist()) == (pa.int32(), [1, -4], [3, 2])
    assert (b.lower.type, b.lower.to_pylist(), b.null_count.tolist()) == (pa.int64(), [5, None], [0, -1])
    assert not a.truncated.any()
    assert state.files.layout.tolist() == [-1, -1]
    assert state.files.group.tolist() == [-1, -1]
    assert state.refusals == ()
    assert observe(tmp_path / "t", version=0).files.path.to_pylist() == ["one.parquet"]


def test_tags_and_deletion_vectors_are_those_of_the_newest_add_of_a_path(tmp_path: Path) -> None:
    start = [
        protocol(reader=("deletionVectors",)),
        metadata(INTS),
        add("kept", tags=TAGS),
        add("tagged later", rows=8),
        add("lost its tags", tags=TAGS),
        add("gone", tags=TAGS),
    ]
    later = [
        remove("tagged later"),
        add("tagged later", rows=8, tags=TAGS | {"other": "x", "zlayout.group": "run/1"}, deletionVector=VECTOR),
        add("lost its tags"),
        remove("gone"),
    ]
    files = observe(write_log(tmp_path / "t", start, later)).files
    assert files.path.to_pylist() == ["kept", "lost its tags", "tagged later"]
    assert files.layout.tolist() == [0, -1, 0]
    assert files.group[1] == -1
    assert files.group[0] != files.group[2]
    assert [(r.layout_id, r.settings) for r in files.layouts] == [("abc", {"engine": "native"})]
    assert files.version_key.to_pylist() == ["", "", "uab^-aqEH.-t@S}K{vb[*k^@4"]
    assert files.deleted.tolist() == [0, 0, 6]
    assert files.live_rows.tolist() == [10, 10, 2]


@pytest.mark.parametrize(
    "text",
    [
        "{not json",
        "[]",
        '{"files.target_size": NaN}',
        '{"files.target_size": 1e999}',
        '{"files.target_size": ' + "9" * 5000 + "}",
        '{"zorder.columns": [{"name": ["a"]}]}',
        '{"a": ' + "[" * 100_000,
    ],
)
def test_garbled_settings_cost_the_explanation_only(tmp_path: Path, text: str) -> None:
    broken = TAGS | {"zlayout.layout": text}
    files = observe(write_log(tmp_path / "t", [protocol(), metadata(INTS), add("x", tags=broken)])).files
    assert (files.layout.tolist(), files.layouts[0].layout_id, files.layouts[0].settings) == ([0], "abc", {})


@pytest.mark.parametrize("style", ["classic", "parts", "v2 parquet", "v2 json", "v2 absolute", "v2 without sidecars"])
def test_tags_come_from_every_kind_of_checkpoint(tmp_path: Path, style: str) -> None:
    """The commits before it are gone, so nothing but the checkpoint can have told."""
    path = write_log(tmp_path / "t", [], [add("after")])
    start: list[dict[str, Any]] = [protocol(), metadata(INTS)]
    adds = [add("one", tags=TAGS), add("two", deletionVector=VECTOR), add("three")]
    if style == "classic":
        write_checkpoint(path, "00000000000000000000.checkpoint.parquet", [*start, *adds])
    elif style == "parts":
        write_checkpoint(path, "00000000000000000000.checkpoint.0000000001.0000000002.parquet", start)
        write_checkpoint(path, "00000000000000000000.checkpoint.0000000002.0000000002.parquet", adds)
        write_checkpoint(path, "00000000000000000000.checkpoint.0000000003.0000000003.parquet", [])
    else:
        start[0] = protocol(reader=("v2Checkpoint", "deletionVectors"))
        uuid = "00000000000000000000.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11"
        sidecars = [] if style == "v2 without sidecars" else [adds[:2], adds[2:]]
        actions = [*start, {"checkpointMetadata": {"version": 0, "tags": None}}, *([] if sidecars else adds)]
        for at, part in enumerate(sidecars):
            size = write_checkpoint(path, f"_sidecars/{at}.parquet", part)
            place = f"{path.as_uri()}/_delta_log/_sidecars/" if style == "v2 absolute" else ""
            actions.append({"sidecar": {"path": f"{place}{at}.parquet", "sizeInBytes": size, "modificationTime": 1}})
        if style == "v2 json":
            (path / "_delta_log" / f"{uuid}.json").write_text("\n".join(map(json.dumps, actions)))
        else:
            write_checkpoint(path, f"{uuid}.parquet", actions)
    (path / "_delta_log" / "00000000000000000000.json").unlink()
    files = observe(path).files
    assert files.path.to_pylist() == ["after", "one", "three", "two"]
    assert files.layout.tolist() == [-1, 0, -1, -1]
    assert files.deleted.tolist() == [0, 0, 0, 6]


def test_an_empty_checkpoint_of_a_writer_that_died_is_passed_over(tmp_path: Path) -> None:
    path = write_log(tmp_path / "t", [protocol(), metadata(INTS), add("one", tags=TAGS)], [add("two")])
    (path / "_delta_log" / "00000000000000000001.checkpoint.parquet").touch()
    files = observe(path).files
    assert (files.path.to_pylist(), files.layout.tolist()) == (["one", "two"], [0, -1])


_MAP = pa.map_(pa.string(), pa.string())
_CHECKPOINT = pa.schema(
    [
        ("protocol", pa.struct([("minReaderVersion", pa.int32()), ("minWriterVersion", pa.int32()),
                                ("readerFeatures", pa.list_(pa.string())), ("writerFeatures", pa.list_(pa.string()))])),
        ("metaData", pa.struct([("id", pa.string()), ("schemaString", pa.string()),
                                ("format", pa.struct([("provider", pa.string()), ("options", _MAP)])),
                                ("partitionColumns", pa.list_(pa.string())), ("configuration", _MAP),
                                ("createdTime", pa.int64())])),
        ("add", pa.struct([("path", pa.string()), ("partitionValues", _MAP), ("size", pa.int64()),
                           ("modificationTime", pa.int64()), ("dataChange", pa.bool_()), ("stats", pa.string()),
                           ("tags", _MAP),
                           ("deletionVector", pa.struct([("storageType", pa.string()), ("pathOrInlineDv", pa.string()),
                                                         ("offset", pa.int32()), ("sizeInBytes", pa.int32()),
                                                         ("cardinality", pa.int64())]))])),
        ("remove", pa.struct([("path", pa.string()), ("dataChange", pa.bool_()), ("deletionTimestamp", pa.int64())])),
        ("checkpointMetadata", pa.struct([("version", pa.int64()), ("tags", _MAP)])),
        ("sidecar", pa.struct([("path", pa.string()), ("sizeInBytes", pa.int64()), ("modificationTime", pa.int64())])),
    ]
)  # fmt: skip


def write_checkpoint(path: Path, name: str, actions: list[dict[str, Any]]) -> int:
    def shaped(value: Any, kind: pa.DataType) -> Any:
        if value is None or not isinstance(value, dict):
            return value
        if pa.types.is_map(kind):
            return list(value.items())
        return {f.name: shaped(value.get(f.name), f.type) for f in kind}

    rows = [{f.name: shaped(action.get(f.name), f.type) for f in _CHECKPOINT} for action in actions]
    target = path / "_delta_log" / name
    target.parent.mkdir(exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows, _CHECKPOINT), target)
    return target.stat().st_size


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
    assert yes is not None
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
    assert {c.name: c.cut for c in state.columns} == {"s": cut, "n": None}


def test_text_bounds_are_long_from_the_start(tmp_path: Path) -> None:
    fields = [field("n", "long"), field("s", "string")]
    short = {"delta.dataSkippingNumIndexedCols": "0"}
    state = observe(write_log(tmp_path / "t", [protocol(), metadata(fields, **short)]), "n", "s")
    assert state.columns[1].enable_stats == (
        ("delta.dataSkippingNumIndexedCols", "2"),
        ("delta.dataSkippingStringPrefixLength", "256"),
    )
    number = observe(write_log(tmp_path / "u", [protocol(), metadata(fields, **short)]), "n")
    assert number.columns[0].enable_stats == (("delta.dataSkippingNumIndexedCols", "1"),)


def test_partitions_have_python_values_and_the_log_path_is_kept(tmp_path: Path) -> None:
    table = pa.table(
        {
            "s": ["a b/c%", None, "a b/c%"],
            "d": pa.array([date(2024, 1, 2), None, date(2024, 1, 2)]),
            "t": pa.array([datetime(2024, 1, 1, tzinfo=UTC)] * 3, pa.timestamp("us", "UTC")),
            "v": [1, 2, 3],
        }
    )
    write_deltalake(str(tmp_path / "t"), table, partition_by=["s", "d", "t"])
    state = observe(tmp_path / "t", "v", "d")
    values = [state.files.partitions[at].values for at in state.files.partition]
    moment = datetime(2024, 1, 1, tzinfo=UTC)
    assert sorted(values, key=repr) == sorted([(None, None, moment), ("a b/c%", date(2024, 1, 2), moment)], key=repr)
    assert [str(f) for f in state.partition_fields] == ["s", "d", "t"]
    logged = [
        json.loads(line)["add"]["path"]
        for line in next((tmp_path / "t" / "_delta_log").glob("*.json")).read_text().splitlines()
        if '"add"' in line
    ]
    assert state.files.path.to_pylist() == sorted(logged)
    assert state.files.bounds["d"].lower.null_count == 2, "a partition column has no bounds of its own"
    partition_column = state.column("d")
    assert partition_column is not None
    assert (partition_column.stats, partition_column.enable_stats) == (False, ())


def test_row_counts_come_from_footers_or_else_are_estimated(tmp_path: Path) -> None:
    path = write_log(
        tmp_path / "t", [protocol(), metadata(INTS), add("in%20table.parquet", rows=None), add("known", rows=20)]
    )
    pq.write_table(pa.table({"a": [1, 2, 3]}), path / "in table.parquet")
    state = observe(path, "a")
    assert (state.files.rows.tolist(), state.notes) == ([3, 20], ())
    assert state.files.bounds["a"].lower.to_pylist() == [None, None]
    assert state.files.bounds["a"].null_count.tolist() == [-1, -1]
    (path / "in table.parquet").unlink()
    state = observe(path)
    assert state.files.rows.tolist() == [20, 20], "100 bytes hold 20 rows in the file that is known"
    assert [(note.code, note.severity) for note in state.notes] == [("ZL411", "note")]
    assert "1 of 2 files" in state.notes[0].message


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
    both = (False, ((count, "5"),))
    assert stats(**{count: "2"}) == {"p": off, "a": on, "s.x": on, "s.y": both, "m": off, "z": both}
    assert stats(**{count: "-1"}) == {"p": off, "a": on, "s.x": on, "s.y": on, "m": off, "z": on}
    listed = "delta.dataSkippingStatsColumns"
    assert stats(**{listed: "`A`,s"})["z"] == (False, ((listed, "`A`,s,`z`"),))
    assert stats(**{listed: "`A`,s"})["a"] == on
    assert stats(**{listed: "z"})["s.y"] == (False, ((listed, "z,`s`.`y`"),))


def test_the_33rd_column_has_no_statistics(tmp_path: Path) -> None:
    fields = [field(f"c{at}", "integer") for at in range(40)]
    state = observe(write_log(tmp_path / "t", [protocol(), metadata(fields)]), "c32")
    assert [c.stats for c in state.columns] == [True] * 32 + [False] * 8
    assert state.columns[32].enable_stats == (("delta.dataSkippingNumIndexedCols", "33"),)


def test_refusals_name_the_feature(tmp_path: Path) -> None:
    def codes(*features: str, reader: tuple[str, ...] = (), **properties: str) -> list[str]:
        path = tmp_path / str(len(list(tmp_path.iterdir())))
        state = observe(write_log(path, [protocol(*features, reader=reader), metadata(INTS, **properties)]))
        return [f"{d.code} {d.severity} {d.message}" for d in state.refusals]

    assert codes("appendOnly", "icebergCompatV2", "rowTracking", "domainMetadata") == []
    (clustered,) = codes("clustering", "domainMetadata")
    assert clustered.startswith("ZL211 refused the table is liquid-clustered")
    (owned,) = codes(**{"delta.coordinatedCommits.commitCoordinator-preview": "uc"})
    assert owned.startswith("ZL212")
    (unknown,) = codes("somethingNew", "alsoNew")
    assert unknown.startswith("ZL213")
    assert "alsoNew, somethingNew" in unknown


def test_an_empty_table_is_fine(tmp_path: Path) -> None:
    state = observe(write_log(tmp_path / "t", [protocol(), metadata(INTS, ["b"])]), "a")
    assert (len(state.files), state.version, state.files.partitions) == (0, 0, ())
    assert state.files.bounds["a"].lower.type == pa.int32()
    assert state.files.layout.dtype == np.int32


def test_the_schema_digest_follows_the_schema_and_not_its_key_order(tmp_path: Path) -> None:
    turned = [dict(reversed(f.items())) for f in INTS]
    paths = [write_log(tmp_path / str(at), [protocol(), metadata(f)]) for at, f in enumerate([INTS, turned, INTS[:1]])]
    same, equal, other = (observe(path).schema_digest for path in paths)
    assert same == equal != other


def test_tables_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(TableError, match=r"ZL110 expected a Delta table for lake\.db\.t at .*nowhere"):
        observe(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(TableError, match="ZL110"):
        observe(tmp_path / "empty")
    path = write_log(tmp_path / "t", [protocol(), metadata(INTS)], [add("x")], [add("y")])
    with pytest.raises(TableError, match=r"ZL112 table lake\.db\.t has no version 9"):
        observe(path, version=9)
    (path / "_delta_log" / f"{2:020d}.json").write_text('{"add":{"path"\n')
    with pytest.raises(TableError, match="ZL111") as broken:
        observe(path)
    assert "\n" not in str(broken.value)


def test_files_that_a_checkpoint_by_deltalake_lists_are_found(tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    for at in range(3):
        write_deltalake(path, pa.table({"a": [at, at + 10]}), mode="append")
    DeltaTable(path).create_checkpoint()
    write_deltalake(path, pa.table({"a": [50, 60]}), mode="append")
    bounds = observe(tmp_path / "t", "a").files.bounds["a"]
    assert sorted(zip(bounds.lower.to_pylist(), bounds.upper.to_pylist(), strict=True)) == [
        (0, 10), (1, 11), (2, 12), (50, 60),
    ]  # fmt: skip
