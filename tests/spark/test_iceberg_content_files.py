"""Operations on lists of data files and scan tasks return what Iceberg returns for each of them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from spark.subjects import IcebergSubject

from zlayout.formats.iceberg.write.jvm import IcebergJvm, java_errors
from zlayout.formats.iceberg.write.staging import tasks_of
from zlayout.spark import arrow

FILES = 5


@pytest.fixture
def table(iceberg: IcebergSubject) -> IcebergSubject:
    """Five files in three partitions. Column b has no value in the first one, and each has a position delete."""
    iceberg.sql(
        f"create table {iceberg} (id bigint, b string, p int) using iceberg partitioned by (p) tblproperties "
        "('format-version'='2', 'write.delete.mode'='merge-on-read', 'write.delete.granularity'='file', "
        "'write.metadata.metrics.column.b'='full')"
    )
    for n in range(FILES):
        value = "cast(null as string)" if n == 0 else f"repeat('é{n}', 40 * id)"
        iceberg.sql(
            f"insert into {iceberg} select /*+ coalesce(1) */ id + {10 * n}, {value}, {n % 3} from range(1, {n + 3})"
        )
    iceberg.sql(f"delete from {iceberg} where id % 10 = 1")
    return iceberg


def tasks(table: IcebergSubject) -> tuple[IcebergJvm, pa.Array, Any]:
    state, jvm = table.observe(), table.jvm
    paths = state.files.path.cast(pa.string())
    return jvm, paths, tasks_of(jvm, table.java_table(), state.version, paths)


def test_fields_are_read_in_the_order_of_the_files(table: IcebergSubject, monkeypatch: pytest.MonkeyPatch) -> None:
    jvm, paths, found = tasks(table)
    content, files = jvm.content, jvm.content.files(found)
    each, spec = list(files), table.java_table().spec()
    assert len(each) == FILES
    for at_once in (2000, 2):
        monkeypatch.setattr(arrow, "ITEMS_PER_CALL", at_once)
        assert content.paths(files).equals(paths)
        documents = [json.loads(document)["partition"] for document in content.documents(files, spec)]
        assert documents == [json.loads(jvm.iceberg.ContentFileParser.toJson(f, spec))["partition"] for f in each]
        again = tasks_of(jvm, table.java_table(), table.observe().version, paths)
        assert content.paths(content.files(again)).equals(paths)
    assert content.numbers(files, "bytes").tolist() == [f.fileSizeInBytes() for f in each]
    assert content.numbers(files, "rows").tolist() == [f.recordCount() for f in each]
    assert content.numbers(files, "data sequence number").tolist() == [f.dataSequenceNumber() for f in each]
    assert content.numbers(files, "file sequence number").tolist() == [f.fileSequenceNumber() for f in each]
    chosen = content.select(files, np.array([4, 0, 4]))
    assert content.paths(chosen).equals(paths.take(pa.array([4, 0, 4])))
    empty = content.select(files, np.zeros(0, np.int64))
    assert [len(content.paths(empty)), len(content.numbers(empty, "rows")), content.bounds(empty, 2, upper=True)] == [
        0,
        0,
        [],
    ]


def test_a_file_sequence_number_that_was_not_stored_is_unknown(table: IcebergSubject) -> None:
    jvm, _, found = tasks(table)
    old = found[0].file().copy()
    old.setFileSequenceNumber(None)
    files = jvm.list([found[1].file(), old])
    assert jvm.content.numbers(files, "file sequence number").tolist() == [found[1].file().fileSequenceNumber(), -1]
    assert (jvm.content.numbers(files, "data sequence number") > 0).all()


def test_bounds_and_null_counts_are_those_of_the_files(table: IcebergSubject) -> None:
    jvm, paths, _ = tasks(table)
    scan = table.java_table().newScan().includeColumnStats().planFiles()
    files = jvm.content.files(jvm.content.tasks(scan, paths))
    documents = [json.loads(jvm.iceberg.ContentFileParser.toJson(f, table.java_table().spec())) for f in files]

    def of(name: str, field: int) -> list[Any]:
        stored = [document.get(name) or {"keys": [], "values": []} for document in documents]
        return [dict(zip(s["keys"], s["values"], strict=True)).get(field) for s in stored]

    for field in (1, 2, 99):
        for name, upper in (("lower-bounds", False), ("upper-bounds", True)):
            expected = [None if value is None else bytes.fromhex(value) for value in of(name, field)]
            assert jvm.content.bounds(files, field, upper=upper) == expected
        counts = [-1 if count is None else count for count in of("null-value-counts", field)]
        assert jvm.content.null_counts(files, field).tolist() == counts
    lower = jvm.content.bounds(files, 2, upper=False)
    assert sorted(len(value or b"") for value in lower) == [0, 120, 120, 120, 120]


def test_tasks_are_equal_while_their_delete_files_are(table: IcebergSubject) -> None:
    jvm, paths, before = tasks(table)
    gone = table.rows("id, _file", "id % 10 = 2")
    (of_first,) = [file for id, file in gone if id == 2]
    table.sql(f"delete from {table} where id = 2")  # a second delete file, or one that replaces the first
    table.sql(f"delete from {table} where id >= 40")  # the last file is removed
    java = table.java_table()
    after = tasks_of(jvm, java, int(java.currentSnapshot().snapshotId()), paths)
    (of_last,) = {file for id, file in gone if id == 42}
    expected = [path not in (of_first, of_last) for path in paths.to_pylist()]
    assert jvm.content.same_deletes(before, after).tolist() == expected
    assert jvm.content.same_deletes(before, before).all()
    assert [jvm.content.missing(before), jvm.content.missing(after)] == [0, 1]
    assert not jvm.content.have_only_vectors(before)


def test_sizes_on_storage_are_those_of_the_files(table: IcebergSubject) -> None:
    jvm, paths, found = tasks(table)
    io, sizes = table.java_table().io(), jvm.content.numbers(jvm.content.files(found), "bytes")
    wanted = pa.concat_arrays([paths, pa.array([f"{paths[0]}.gone"]), paths])
    assert jvm.content.stored(wanted, io).tolist() == [*sizes, -1, *sizes]
    assert len(jvm.content.stored(paths[:0], io)) == 0


def test_an_error_of_the_storage_is_raised(table: IcebergSubject) -> None:
    jvm, paths, _ = tasks(table)
    with pytest.raises(Exception, match=r"ZL314 .*No FileSystem for scheme"), java_errors("looking"):
        jvm.content.stored(pa.concat_arrays([paths, pa.array(["nowhere://x/y"])]), table.java_table().io())


@pytest.mark.parametrize("position", [-1, np.iinfo(np.int64).min, FILES])
def test_no_position_is_taken_for_another_file(table: IcebergSubject, position: int) -> None:
    jvm, _, found = tasks(table)
    with pytest.raises((Py4JJavaError, PySparkException), match=r"integer overflow|out of bounds|Index"):
        jvm.content.select(found, np.array([0, position]))


def test_a_path_with_the_separator_is_refused(table: IcebergSubject) -> None:
    with pytest.raises(ValueError, match="character 0"):
        table.jvm.content.stored(pa.array(["a\0b"]), table.java_table().io())
