"""Operations on lists of AddFiles keep every field of an action, whatever its characters and numbers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from spark.subjects import DeltaSubject

from zlayout.formats.delta.write.jvm import DeltaJvm
from zlayout.formats.kernel.commits import positions_among
from zlayout.spark import arrow
from zlayout.spark.jvm import scala_object

VECTOR = {"sizeInBytes": 34, "cardinality": 2}
INLINE = {"storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", **VECTOR}
ON_DISK = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4, **VECTOR}
STATS = json.dumps(
    {"numRecords": 2**53 + 1, "minValues": {"a": {"b c": "\u2028\n\\\"'é😀"}, "d": 1e300}}, ensure_ascii=False
)
ACTIONS: list[dict[str, Any]] = [
    {"path": "p=a%20b/%2525%3D%0A'😀é.parquet", "partitionValues": {"p": "a b\n\"\\'\u2028😀", "q": None}},
    {
        "path": "s3://other/f.parquet",
        "partitionValues": {},
        "stats": STATS,
        "tags": {"x": "é\n", "zlayout.group": "old"},
    },
    {"path": "dv.parquet", "partitionValues": {"p": ""}, "deletionVector": INLINE, "stats": STATS},
    {"path": "disk.parquet", "partitionValues": {"q": None, "p": "null"}, "deletionVector": ON_DISK},
    {
        "path": "rows.parquet",
        "partitionValues": {"p": "1"},
        "baseRowId": 2**62 + 1,
        "defaultRowCommitVersion": 2**53 + 1,
        "clusteringProvider": "liquid",
    },
]
WHOLE = [{"size": 2**53 + 1, "modificationTime": 2**53 + 3, "dataChange": True, **action} for action in ACTIONS]


@pytest.fixture
def delta(delta: DeltaSubject) -> DeltaJvm:
    delta.sql(f"create table {delta} (id bigint) using delta")
    return DeltaJvm(delta.spark, str(delta.path))


def parsed(delta: DeltaJvm, actions: Sequence[dict[str, Any]]) -> Any:
    """AddFiles as Delta itself reads them from the log."""
    parse = scala_object(delta._delta.actions, "Action").fromJson
    whole = delta._jvm.java.util.ArrayList()
    for action in actions:
        whole.add(parse(json.dumps({"add": action})))
    return whole


def logged(files: Any) -> list[dict[str, Any]]:
    return [json.loads(file.json()) for file in files]


def test_changes_replace_their_fields_and_keep_all_others(delta: DeltaJvm, monkeypatch: pytest.MonkeyPatch) -> None:
    files = parsed(delta, WHOLE)
    tags = {"zlayout.group": 'run/"é\\\n😀', "y": "2"}
    changes = pa.array([json.dumps({"stats": STATS}), json.dumps({"dataChange": False, "tags": tags}), "{}"])
    owner = np.array([0, 1, 1, 2, 1])
    for at_once in (2000, 2):
        monkeypatch.setattr(arrow, "ITEMS_PER_CALL", at_once)
        changed = delta.files.changed(files, changes, owner)
        expected = logged(files)
        expected[0]["add"]["stats"] = STATS
        for at in (1, 2, 4):
            add = expected[at]["add"]
            add |= {"dataChange": False, "tags": (add.get("tags") or {}) | tags}
        assert logged(changed) == expected
        assert [file["add"].get("tags", {}).get("x") for file in expected] == [None, "é\n", None, None, None]
    assert logged(files) == logged(parsed(delta, WHOLE)), "the files themselves are not changed"


def test_fields_are_read_in_the_order_of_the_files(delta: DeltaJvm, monkeypatch: pytest.MonkeyPatch) -> None:
    files = parsed(delta, WHOLE)
    for at_once in (2000, 2):
        monkeypatch.setattr(arrow, "ITEMS_PER_CALL", at_once)
        assert delta.files.paths(files).to_pylist() == [action["path"] for action in WHOLE]
        assert delta.files.stats(files).to_pylist() == [action.get("stats", "") for action in WHOLE]
    ids = [file.getDeletionVectorUniqueId() for file in files]
    assert delta.files.vectors(files).to_pylist() == [id.get() if id.isDefined() else "" for id in ids]
    assert delta.files.vectors(files).to_pylist()[2] == f"i{INLINE['pathOrInlineDv']}"
    assert delta.files.sizes(files).tolist() == [2**53 + 1] * 5
    chosen = delta.files.select(files, np.array([4, 0, 4]))
    assert delta.files.paths(chosen).to_pylist() == [WHOLE[at]["path"] for at in (4, 0, 4)]
    empty = delta.files.select(files, np.zeros(0, np.int64))
    assert [len(delta.files.paths(empty)), len(delta.files.sizes(empty)), len(delta.files.stored(empty))] == [0, 0, 0]
    assert len(delta.files.changed(empty, pa.array([], pa.string()), np.zeros(0, np.int64))) == 0


@pytest.mark.parametrize("data_change", [True, False])
def test_removals_are_those_of_delta(delta: DeltaJvm, data_change: bool) -> None:
    files, now = parsed(delta, WHOLE), 1_700_000_000_123
    added = delta.files.select(files, np.array([1]))
    actions = delta.files.replacing(added, files, now, data_change=data_change)
    expected = [files[1], *(file.removeWithTimestamp(now, data_change) for file in files)]
    assert logged(actions) == logged(expected)
    kept = logged(actions)[3]["remove"]
    assert (kept["deletionVector"], kept["dataChange"], kept["size"]) == (INLINE, data_change, 2**53 + 1)


def test_partition_values_are_compared_as_they_are_in_the_log(delta: DeltaJvm) -> None:
    values: list[dict[str, str | None]] = [
        {"p": "1", "q": None},
        {"q": None, "p": "1"},
        {"p": "1", "q": "null"},
        {"p": "1"},
        {"p": "01", "q": None},
    ]
    files = parsed(delta, [{**WHOLE[0], "partitionValues": each} for each in values])
    found = [
        delta.files.partitioned_as(delta.files.select(files, np.array([at])), files, np.zeros(1)) for at in range(5)
    ]
    assert found == [True, True, False, False, False]
    assert delta.files.partitioned_as(files, files, np.arange(5))
    assert not delta.files.partitioned_as(files, files, np.array([0, 1, 2, 3, 3]))


def test_sizes_on_storage_are_read_at_encoded_paths(delta: DeltaJvm, delta_path: Any) -> None:
    folder = delta_path / "p=a b"
    folder.mkdir()
    for number in range(40):
        (folder / f"%=é{number}").write_bytes(b"x" * number)
    paths = [f"p=a%20b/%25=é{number}" for number in range(41)]
    files = parsed(delta, [{**WHOLE[0], "path": path} for path in paths])
    assert delta.files.stored(files).tolist() == [*range(40), -1]


def test_missing_deletion_vectors_are_named_once(delta: DeltaJvm) -> None:
    (missing,) = delta.files.missing_vectors(parsed(delta, [*WHOLE, WHOLE[3]]))
    assert missing.endswith(".bin")
    assert "deletion_vector_" in missing


@pytest.mark.parametrize("position", [-1, np.iinfo(np.int64).min, len(WHOLE)])
def test_no_position_is_taken_for_another_file(delta: DeltaJvm, position: int) -> None:
    files = parsed(delta, WHOLE)
    with pytest.raises((Py4JJavaError, PySparkException), match=r"integer overflow|out of bounds|Index"):
        delta.files.select(files, np.array([0, position]))


def test_every_file_needs_an_owner(delta: DeltaJvm) -> None:
    files = parsed(delta, WHOLE)
    with pytest.raises(ValueError, match="5 files have 4 owners"):
        delta.files.changed(files, pa.array(["{}"]), np.zeros(4, np.int64))
    with pytest.raises(PySparkException, match="5 files have 4 owners"):
        delta.files.partitioned_as(files, files, np.arange(4))


def test_a_path_that_is_not_known_has_no_position() -> None:
    known = pa.array(["b", "a"])
    assert positions_among(known, pa.array(["a", "b", "a"])).tolist() == [1, 0, 1]
    with pytest.raises(ValueError, match="1 of 2 files are unknown"):
        positions_among(known, pa.array(["a", "c"]))
