"""Statistics from Parquet footers are those that Delta computes itself, type by type and character by character."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.fs as pa_fs
import pyarrow.parquet as pq
import pytest
from deltalake.fs import DeltaStorageHandler
from pyspark.sql import SparkSession
from pyspark.sql import types as T

from zlayout.formats.delta.read.schema import leaves
from zlayout.formats.delta.write import commit as writing
from zlayout.formats.delta.write.commit import footers_suffice, read_footer
from zlayout.formats.delta.write.jvm import DeltaJvm
from zlayout.spark.jvm import session_conf

LONG = "'" + "x" * 40 + "'"
# The select list of each case, over `id` from 0 to 3999 in four files of 1000 rows.
CASES = {
    "whole numbers": "cast(id % 100 - 50 as tinyint) a, cast(id - 2000 as smallint) b, cast(-id as int) c, id * id d",
    "null, partly and all of a file": "nullif(id % 3, 0) a, if(id < 1000, null, id) b, cast(null as string) c",
    "decimals": "cast(id - 7 as decimal(9,2)) a, cast(-id as decimal(18,6)) b, "
    "cast(id - 2000 as decimal(38,10)) * 1000000000000000000 c, cast(id as decimal(38,0)) d",
    "floats": "cast(id - 1500.25 as float) a, id / 3 b, if(id % 2 = 0, 0.0D, -1.0D) c, if(id % 2 = 0, 0.0D, 1.0D) d",
    "NaN and infinities": "if(id = 7, double('NaN'), double(id)) a, if(id < 1000, float('NaN'), float(id)) b, "
    "if(id % 2 = 0, double('-Infinity'), double('Infinity')) c",
    "dates": "date_add(date'1969-06-01', cast(id as int)) a, date_sub(date'0003-01-01', cast(id % 9 as int)) b, "
    "date_add(date'9999-12-30', cast(id as int)) c",
    "timestamps": "timestamp_micros(id * 123456789 - 1000001) a, timestamp_micros(-id * 98765432109) b, "
    "cast(timestamp_micros(id * 1001) as timestamp_ntz) c, timestamp'0900-01-01 00:00:00.123456' d",
    "strings": f"concat('k', id) a, concat({LONG}, id) b, concat({LONG}, '\U0010ffff', id) c, "
    f"concat(repeat('é', 31), if(id % 2 = 0, '😀😀', 'ü'), id) d, '' e, concat('\U0010ffff', 'a') f, "
    f"repeat('\U0010ffff', 60) g, concat(repeat('a', 31), '😀😀😀') h, concat(repeat('~', 32), '\x7f') i",
    "too long for a footer": "concat(repeat('y', 5000), id) a, cast(repeat(if(id = 7, null, 'b'), 5000) as binary) b",
    "without bounds": "id % 2 = 0 a, cast(concat('b', id) as binary) b, if(id % 5 = 0, null, true) c",
    "nested": "named_struct('x', id, 'y', named_struct('z', concat('z', id), 'w', nullif(id % 4, 0))) a, "
    "if(id % 2 = 0, null, named_struct('x', id)) b, id `with.dot`, id `with space`",
}
PROPERTIES = {
    "plain": "'delta.minReaderVersion'='1'",
    "column mapping, deletion vectors, row tracking": "'delta.columnMapping.mode'='name',"
    "'delta.enableDeletionVectors'='true','delta.enableRowTracking'='true'",
    "short strings, two columns": "'delta.dataSkippingStringPrefixLength'='5','delta.dataSkippingNumIndexedCols'='2'",
}


class Written:
    """A table of one case, and its rows written anew twice, neither committed."""

    def __init__(self, spark: SparkSession, path: Path, columns: str, properties: str) -> None:
        spark.range(0, 4000, 1, 4).createOrReplaceTempView("numbers")
        spark.sql(
            f"create table delta.`{path}` using delta tblproperties({properties}) as select {columns} from numbers"
        )
        self.delta = DeltaJvm(spark, str(path))
        self.snapshot = self.delta.snapshot()
        self.adds = self.snapshot.allFiles().collectAsList()
        self.rows = self.delta.data_frame(self.snapshot, self.adds)
        self.storage = pa_fs.PyFileSystem(DeltaStorageHandler(str(path)))

    def by_delta(self) -> dict[int, Any]:
        files = self.delta.write_files(self.delta.begin(self.snapshot), self.rows)
        return by_partition(files)

    def by_footers(self) -> dict[int, Any]:
        transaction, like = self.delta.begin(self.snapshot), self.adds[0]
        new = writing.write_with_stats(self.delta, lambda: self.storage, self.snapshot, transaction, self.rows, like)
        return by_partition(new.handles)


def by_partition(files: Any) -> dict[int, Any]:
    """Statistics as parsed JSON, with numbers as their text, by the Spark partition that wrote the file."""
    return {
        int(file.path().split("part-")[1][:5]): json.loads(file.stats(), parse_float=str, parse_int=str)
        for file in files
    }


@pytest.fixture
def by_delta_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail where the footers would not do: a comparison of Delta with itself proves nothing."""
    monkeypatch.setattr(writing, "footers_suffice", lambda *_: True)


@pytest.mark.usefixtures("by_delta_is_refused")
@pytest.mark.parametrize("properties", PROPERTIES)
@pytest.mark.parametrize("case", CASES)
def test_footers_give_the_statistics_that_delta_computes(
    spark: SparkSession, delta_path: Path, case: str, properties: str
) -> None:
    columns = CASES[case]
    if "mapping" not in properties:  # which such names need
        columns = columns.removesuffix(", id `with.dot`, id `with space`")
    written = Written(spark, delta_path, columns, PROPERTIES[properties])
    expected, found = written.by_delta(), written.by_footers()
    assert len(expected) >= 2
    assert found == expected


@pytest.mark.usefixtures("by_delta_is_refused")
def test_nan_in_one_of_several_row_groups_is_the_largest_value_of_the_file(
    spark: SparkSession, delta_path: Path
) -> None:
    blocks = spark.sparkContext._jsc.hadoopConfiguration()
    blocks.set("parquet.block.size", "4096")
    try:
        columns = "if(id in (7, 2007, 3990), double('NaN'), double(id)) a, if(id < 1200, float('NaN'), float(id)) b"
        written = Written(spark, delta_path, columns, PROPERTIES["plain"])
        expected, found = written.by_delta(), written.by_footers()
    finally:
        blocks.unset("parquet.block.size")
    footers = [pq.read_metadata(path) for path in delta_path.glob("*.parquet")]
    assert max(footer.num_row_groups for footer in footers) > 1
    assert found == expected
    assert {s["maxValues"]["a"] for s in found.values()} == {"NaN"}


SESSION = {
    "spark.sql.parquet.outputTimestampType": ("INT96", "TIMESTAMP_MILLIS"),
    "spark.sql.parquet.datetimeRebaseModeInWrite": ("LEGACY", "EXCEPTION"),
}


@pytest.mark.usefixtures("by_delta_is_refused")
@pytest.mark.parametrize(("setting", "value"), [(s, v) for s, values in SESSION.items() for v in values])
def test_settings_of_the_session_change_neither_times_nor_their_bounds(
    spark: SparkSession, delta_path: Path, setting: str, value: str
) -> None:
    columns = "date_add(date'0001-01-01', cast(id as int)) a, timestamp_micros(-50000000000000001 + id) b"
    written = Written(spark, delta_path, columns, PROPERTIES["plain"])
    with session_conf(spark, {setting: value}):
        files = writing.write_with_stats(
            written.delta,
            lambda: written.storage,
            written.snapshot,
            written.delta.begin(written.snapshot),
            written.rows,
            written.adds[0],
        )
        read = written.delta.read_back(written.snapshot, files.handles, written.adds[0])
        assert sorted(read.collect()) == sorted(written.rows.collect())
        assert by_partition(files.handles) == written.by_delta()


def test_arrays_are_left_to_delta_and_names_that_read_alike_are_not_mixed_up(
    spark: SparkSession, delta_path: Path, tmp_path: Path
) -> None:
    columns = "array(cast(null as bigint), id) a, id b"
    written = Written(spark, delta_path, columns, PROPERTIES["plain"])
    stats = T.StructType.fromJson(json.loads(written.delta.stats_schema(written.snapshot)))
    assert not footers_suffice(leaves(json.loads(written.delta.schema(written.snapshot))), stats)
    assert written.by_footers() == written.by_delta()

    table = pa.table({"a": [[None, 1], [None]], "a.list.element": [1, 2]})
    pq.write_table(table, tmp_path / "alike.parquet")
    kinds = {"a.list.element": T.LongType()}
    footer = read_footer(pa_fs.LocalFileSystem(), str(tmp_path / "alike.parquet"), kinds, kinds)
    assert (footer.rows, footer.nulls, footer.bounds) == (2, {}, {})


def test_bounds_in_other_units_or_of_writers_that_leave_nan_out_are_not_used(tmp_path: Path) -> None:
    times = pa.array([1, 2], pa.timestamp("ms"))
    table = pa.table({"t": times, "d": pa.array([1, 2], pa.decimal128(9, 1)), "f": [1.0, 2.0], "i": [1, 2]})
    pq.write_table(table, tmp_path / "other.parquet")
    kinds = {"t": T.TimestampNTZType(), "d": T.DecimalType(9, 2), "f": T.DoubleType(), "i": T.LongType()}
    footer = read_footer(pa_fs.LocalFileSystem(), str(tmp_path / "other.parquet"), kinds, kinds)
    assert footer.bounds == {"i": (1, 2)}
