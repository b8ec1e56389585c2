"""Observing Delta tables from their logs alone: files, tags, checkpoints, partitions and refusals."""

import json
import tempfile
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from support.delta_logs import (
    INTS,
    TAGS,
    VECTOR,
    add,
    metadata,
    observe,
    protocol,
    remove,
    write_checkpoint,
    write_log,
)

from zlayout.errors import Location, TableError
from zlayout.formats.base import Listed
from zlayout.formats.delta.names import list_folders
from zlayout.formats.delta.read import log
from zlayout.formats.delta.read.log import delta_location, sample_delta
from zlayout.spec.model import CatalogConfig, TableName


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


@pytest.mark.parametrize("max_lines_in_python", [0, log.MAX_LINES_IN_PYTHON], ids=["Arrow", "Python"])
@pytest.mark.parametrize("min_bytes_for_threads", [0, log.MIN_BYTES_FOR_THREADS], ids=["threads", "no threads"])
def test_tags_and_deletion_vectors_are_those_of_the_newest_add_of_a_path(
    min_bytes_for_threads: int, max_lines_in_python: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "MIN_BYTES_FOR_THREADS", min_bytes_for_threads)
    monkeypatch.setattr(log, "MAX_LINES_IN_PYTHON", max_lines_in_python)
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


@pytest.mark.parametrize("max_lines_in_python", [0, log.MAX_LINES_IN_PYTHON], ids=["Arrow", "Python"])
@pytest.mark.parametrize(
    ("added", "readable"),
    [
        ('"unknown": ' + "9" * 5000, True),
        ('"unknown": ' + "[" * 100_000 + "]" * 100_000, True),
        ('"unknown": 1.5', True),
        ('"path": "other"', False),
        ('"tags": {"zlayout.group": 5}', False),
    ],
    ids=["large number", "deep nesting", "fraction", "duplicate key", "wrong type"],
)
def test_unusual_actions_are_read_the_same_whatever_parses_them(
    added: str, readable: bool, max_lines_in_python: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "MAX_LINES_IN_PYTHON", max_lines_in_python)
    path = write_log(tmp_path / "t", [protocol(), metadata(INTS)], [])
    (path / "_delta_log" / f"{1:020d}.json").write_text(json.dumps(add("x"))[:-2] + f", {added}}}}}\n")
    if readable:
        assert observe(path).files.path.to_pylist() == ["x"]
    else:
        with pytest.raises(TableError, match="ZL111"):
            observe(path)


@pytest.mark.parametrize("max_lines_in_python", [0, log.MAX_LINES_IN_PYTHON], ids=["Arrow", "Python"])
@pytest.mark.parametrize(
    ("integer", "fraction"),
    [
        ('"size": 100', '"size": 12.7'),
        ('"size": 100', '"size": 1e2'),
        ('"modificationTime": 1', '"modificationTime": 1.0'),
        ('"minReaderVersion": 3', '"minReaderVersion": 3.5'),
        ('"minWriterVersion": 7', '"minWriterVersion": 7.5'),
        ('"offset": 4', '"offset": 4.5'),
        ('"cardinality": 6', '"cardinality": 6.5'),
    ],
)
def test_a_fraction_is_refused_where_the_protocol_has_an_integer(
    integer: str, fraction: str, max_lines_in_python: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """deltalake rounds most of them, and Spark does not read the commit."""
    monkeypatch.setattr(log, "MAX_LINES_IN_PYTHON", max_lines_in_python)
    actions = [protocol(reader=("deletionVectors",)), metadata(INTS), add("x", deletionVector=VECTOR)]
    path = write_log(tmp_path / "t", actions)
    (commit,) = (path / "_delta_log").iterdir()
    text = commit.read_text()
    assert integer in text
    commit.write_text(text.replace(integer, fraction))
    with pytest.raises(TableError, match=r"ZL111 the log of lake\.db\.t at .* cannot be read"):
        observe(path)


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
@pytest.mark.parametrize("owner", [(), ("catalogManaged",)], ids=["own commits", "commits of the catalog"])
def test_tags_come_from_every_kind_of_checkpoint(tmp_path: Path, style: str, owner: tuple[str, ...]) -> None:
    """The commits before it are gone, so the checkpoint is the only source."""
    path = write_log(tmp_path / "t", [], [add("after")])
    start: list[dict[str, Any]] = [protocol(reader=owner), metadata(INTS)]
    adds = [add("one", tags=TAGS), add("two", deletionVector=VECTOR), add("three")]
    if style == "classic":
        write_checkpoint(path, "00000000000000000000.checkpoint.parquet", [*start, *adds])
    elif style == "parts":
        write_checkpoint(path, "00000000000000000000.checkpoint.0000000001.0000000002.parquet", start)
        write_checkpoint(path, "00000000000000000000.checkpoint.0000000002.0000000002.parquet", adds)
        write_checkpoint(path, "00000000000000000000.checkpoint.0000000003.0000000003.parquet", [])
    else:
        start[0] = protocol(reader=("v2Checkpoint", "deletionVectors", *owner))
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
    state = observe(path)
    assert [note.code for note in state.notes] == ["ZL418"] * len(owner)
    files = state.files
    assert files.path.to_pylist() == ["after", "one", "three", "two"]
    assert files.layout.tolist() == [-1, 0, -1, -1]
    assert files.deleted.tolist() == [0, 0, 0, 6]


def test_an_empty_checkpoint_of_a_writer_that_died_is_passed_over(tmp_path: Path) -> None:
    path = write_log(tmp_path / "t", [protocol(), metadata(INTS), add("one", tags=TAGS)], [add("two")])
    (path / "_delta_log" / "00000000000000000001.checkpoint.parquet").touch()
    files = observe(path).files
    assert (files.path.to_pylist(), files.layout.tolist()) == (["one", "two"], [0, -1])


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


@pytest.mark.parametrize(
    ("features", "enabled", "expected"),
    [
        (("deletionVectors",), "true", True),
        (("deletionVectors",), "false", False),
        (("deletionVectors", "variantType"), "true", False),
        ((), "true", False),
    ],
)
def test_rewrites_can_be_rebased_where_deletion_vectors_are_written(
    tmp_path: Path, features: tuple[str, ...], enabled: str, expected: bool
) -> None:
    properties = {"delta.enableDeletionVectors": enabled}
    actions = [protocol(*features, reader=features), metadata(INTS, **properties), add("f")]
    assert observe(write_log(tmp_path, actions)).can_rebase is expected


def test_refusals_name_the_feature(tmp_path: Path) -> None:
    def codes(*features: str, reader: tuple[str, ...] = (), **properties: str) -> list[str]:
        path = tmp_path / str(len(list(tmp_path.iterdir())))
        state = observe(write_log(path, [protocol(*features, reader=reader), metadata(INTS, **properties)]))
        return [f"{d.code} {d.severity} {d.message}" for d in state.refusals]

    assert codes("appendOnly", "icebergCompatV2", "rowTracking", "domainMetadata") == []
    assert codes("clustering", "domainMetadata") == []
    (owned,) = codes(**{"delta.coordinatedCommits.commitCoordinator-preview": "uc"})
    assert owned.startswith("ZL212")
    (owned,) = codes("coordinatedCommits-preview", "inCommitTimestamp")
    assert owned.startswith("ZL212")
    (unknown,) = codes("somethingNew", "alsoNew")
    assert unknown.startswith("ZL213")
    assert "alsoNew, somethingNew" in unknown


@pytest.mark.parametrize("feature", ["catalogManaged", "catalogOwned-preview"])
def test_a_catalog_managed_table_is_measured_as_published(
    tmp_path: Path, feature: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Version 1 is in the log, and the catalog may have ratified others that are not."""
    owned = protocol("inCommitTimestamp", reader=(feature, "deletionVectors"))
    settings = metadata(INTS, **{"delta.enableInCommitTimestamps": "true"})
    info = [{"commitInfo": {"inCommitTimestamp": at, "timestamp": at, "operation": "WRITE"}} for at in (1, 2)]
    path = write_log(tmp_path / "t", [info[0], owned, settings], [info[1], add("one", tags=TAGS)])
    log = path / "_delta_log"
    (log / f"{2:020}.crc").write_text("{}")  # of a commit that is not published
    (log / "_staged_commits").mkdir()
    (log / "_staged_commits" / f"{2:020}.{'0' * 8}.json").write_text(json.dumps(add("two")))
    before = sorted(log.rglob("*"))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    as_uri: Any = path.as_uri()
    for at, state in ((1, observe(path, "a")), (1, observe(as_uri, "a")), (0, observe(path, version=0))):
        assert (state.version, state.files.path.to_pylist()) == (at, ["one"] * at)
        assert [d.code for d in state.refusals] == ["ZL212"]
        assert feature in state.refusals[0].message
        assert {feature, "deletionVectors", "inCommitTimestamp"} <= state.features
        (note,) = state.notes
        assert (note.code, f"measured at version {at}," in note.message) == ("ZL418", True)
        assert state.location in (str(path), as_uri)
        assert state.files.layout.tolist() == [0] * at
    assert sorted(log.rglob("*")) == before
    assert not list(temporary.iterdir())


def test_a_damaged_log_of_another_table_is_an_error_as_before(tmp_path: Path) -> None:
    path = write_log(tmp_path / "t", [protocol("catalogManaged"), metadata(INTS)], [protocol(), add("one")])
    (path / "_delta_log" / f"{2:020}.crc").write_text("{}")
    (path / "_delta_log" / f"{1:020}.json").open("a").write("{")
    with pytest.raises(TableError, match="ZL111"):
        observe(path)


def test_a_folder_that_deltalake_would_read_from_another_one(tmp_path: Path) -> None:
    """deltalake reads the commits of `a%20b` from `a b`."""
    write_log(tmp_path / "a b", [protocol(), metadata(INTS), add("decoy")])
    first, second = [protocol(), metadata(INTS), add("in%20table.parquet", rows=None)], [add("two", tags=TAGS)]
    path = write_log(tmp_path / "a%20b", first, second)
    pq.write_table(pa.table({"a": [1, 2, 3]}), path / "in table.parquet")
    state = observe(path, "a")
    assert (state.version, state.location, state.notes) == (1, str(path), ())
    assert (state.files.path.to_pylist(), state.files.layout.tolist()) == (["in%20table.parquet", "two"], [-1, 0])
    assert state.files.rows.tolist() == [3, 10]
    assert sample_delta(state, np.array([0]), ("a",), 1 << 20, 1, {}).keys["a"].to_pylist() == [1, 2, 3]
    assert observe(path, version=0).files.path.to_pylist() == ["in%20table.parquet"]
    with pytest.raises(TableError, match=r"ZL112 table lake\.db\.t has no version 2 \(the newest is 1\)"):
        observe(path, version=2)
    with pytest.raises(TableError, match=r"ZL110 expected a Delta table for lake\.db\.t at .*a%20c, found none"):
        observe(tmp_path / "a%20c")
    owned = protocol("inCommitTimestamp", reader=("catalogManaged",))
    assert observe(write_log(tmp_path / "o%20", [owned, metadata(INTS), add("x")])).notes[0].code == "ZL418"
    as_uri: Any = path.as_uri()
    for uri in (as_uri, "s3://bucket/a%20b"):
        with pytest.raises(TableError, match=r"ZL111 the location .*%.* which deltalake decodes and Spark does not"):
            observe(uri)
    assert observe(write_log(tmp_path / "100%", [protocol(), metadata(INTS)])).version == 0


def test_a_temporary_folder_that_deltalake_misreads_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_log(tmp_path / "a%20b", [protocol(), metadata(INTS), add("x")])
    temporary = tmp_path / "t%41"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    with pytest.raises(TableError, match=r"ZL111 the log must be copied to .*t%41.*\(set TMPDIR to another folder\)"):
        observe(path)
    assert list(temporary.iterdir()) == []


@pytest.mark.parametrize("start", ["file://", "file:", "FILE://"])
def test_a_file_uri_with_escapes_is_the_path_that_it_stands_for(tmp_path: Path, start: str) -> None:
    """Spark would take the escapes for a part of the name."""
    table = TableName("lake", ("db",), "t")
    for folder, stated in (("a%20b", "a b"), ("a%2520b", "a%20b"), ("a b", None)):
        uri = f"{start}{tmp_path}/{folder}"
        listed = CatalogConfig("lake", "delta", "path", {"tables": {"db.t": uri}}, Location("zlayout.yaml"))
        below = replace(listed, options={"warehouse": uri})
        wanted = uri if stated is None else f"{tmp_path}/{stated}"
        assert (delta_location(listed, table), delta_location(below, table)) == (wanted, f"{wanted}/db/t")
    for location, stated in (("profile:/x%20y", f"{tmp_path}/profile:/x y"), ("/host/x%20y", None)):
        uri = f"{start}{tmp_path}/{location}" if stated else f"file:/{location}"
        listed = CatalogConfig("lake", "delta", "path", {"tables": {"db.t": uri}}, Location("zlayout.yaml"))
        assert delta_location(listed, table) == (stated or uri)


@pytest.mark.parametrize("start", ["file://", "file:", "FILE://", ""])
def test_the_tables_of_a_warehouse_are_listed_in_each_notation(tmp_path: Path, start: str) -> None:
    write_log(tmp_path / "a b" / "db" / "t", [protocol(), metadata(INTS)])
    place = f"{start}{tmp_path}/{'a%20b' if start else 'a b'}"
    catalog = CatalogConfig("lake", "delta", "path", {"warehouse": place}, Location("zlayout.yaml"))
    table = TableName("lake", ("db",), "t")
    assert list(list_folders(catalog, TableName("lake", ("*",), "*"))) == [Listed(table)]
    assert observe(delta_location(catalog, table)).version == 0  # type: ignore[arg-type]


def test_an_empty_table_is_fine(tmp_path: Path) -> None:
    state = observe(write_log(tmp_path / "t", [protocol(), metadata(INTS, ["b"])]), "a")
    assert (len(state.files), state.version, state.files.partitions) == (0, 0, ())
    assert state.files.bounds["a"].lower.type == pa.int32()
    assert state.files.layout.dtype == np.int32


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


def test_a_folder_with_a_backslash_is_read_although_deltalake_reads_another(tmp_path: Path) -> None:
    folder = tmp_path / "a\\b"
    write_log(tmp_path / "a" / "b" / "t", [protocol(), metadata(INTS)])  # which deltalake would read
    write_deltalake(tmp_path / "plain" / "t", pa.table({"a": [1, 2, 3]}))
    (tmp_path / "plain").rename(folder)
    state = observe(str(folder / "t"), "a")  # type: ignore[arg-type]
    assert state.files.rows.tolist() == [3]
    assert state.location == str(folder / "t")
    source = sample_delta(state, np.zeros(1, np.int64), ["a"], 1, 0, {})
    assert source.keys["a"].to_pylist() == [1, 2, 3]
