"""The estimated size of files in a layout is that of files with these rows, which are written here."""

import io
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.builders import make_file_table, make_layout

from zlayout.curve.layout import build_map
from zlayout.planner.simulation import Rewrite
from zlayout.planner.written_size import size_ratios
from zlayout.spec.model import Layout
from zlayout.table.partition import Partition, PartitionField
from zlayout.table.samples import KeySample, RowGroups, StoredRows, column_sizes, summed

ROWS, FILES = 120_000, 12
RANDOM = np.random.default_rng(7)
DAY = RANDOM.integers(0, 730, ROWS)
TABLE = pa.table(
    {
        "id": np.arange(ROWS),  # grows in the order of arrival
        "day": DAY.astype(np.int32),
        "item": RANDOM.integers(0, 1000, ROWS),
        "due": (DAY + RANDOM.integers(0, 30, ROWS)).astype(np.int32),  # is correlated with a z-order column
        "price": RANDOM.random(ROWS),
    }
)
DICTIONARIES = ["day", "item", "due"]
NOTHING = np.zeros(0, np.int64)
SAMPLE = KeySample({}, NOTHING, NOTHING, 0, 0, 0, 0, True, RowGroups(NOTHING, NOTHING, NOTHING, {}))


def written(rows: pa.Table, codec: str) -> pq.FileMetaData:
    sink = io.BytesIO()
    pq.write_table(rows, sink, compression=codec, use_dictionary=DICTIONARIES)
    return pq.read_metadata(io.BytesIO(sink.getvalue()))


def stored(codec: str, table: pa.Table = TABLE, chunk: int = 3000, each: int = 2) -> StoredRows:
    """Chunks of a table in arrival order, from the beginning of each of its files."""
    step = ROWS // FILES
    places = [(file, file * step + at * chunk) for at in range(each) for file in range(FILES)]
    sizes = summed([column_sizes(written(table.slice(n * step, step), codec), [0]) for n in range(FILES)])
    keys = {c: tuple(TABLE[c].combine_chunks().slice(at, chunk) for _, at in places) for c in ("day", "item", "id")}
    rows = tuple(table.slice(at, chunk) for _, at in places)
    in_footers = written(TABLE.slice(0, 1), codec).row_group(0).column(0).compression
    return StoredRows(np.array([file for file, _ in places]), rows, keys, sizes, ROWS, in_footers)


def rewrite(targets: list[int], partition: list[int] | None = None, fields: tuple[PartitionField, ...] = ()) -> Rewrite:
    """A rewrite of all files, of each partition as a group. partition: of each file; the first files have chunks."""
    step, number = ROWS // FILES, len(partition or range(FILES))
    own = (PartitionField("p"),) if partition else ()
    partitions = tuple(Partition(0, own, (n,) if partition else ()) for n in range(len(targets)))
    files = make_file_table([step] * number, bytes=[step] * number, partition=partition, partitions=partitions)
    group = np.array(partition or [0] * number)
    return Rewrite(make_layout(), files, group, np.array(targets), (), fields or own, SAMPLE)


def measured(layout: Layout, files: int, codec: str, table: pa.Table = TABLE) -> float:
    """The size of all rows in these files, each in the order of a column, divided by that in arrival order."""
    step = ROWS // FILES
    now = [table.slice(n * step, step) for n in range(FILES)]
    return size_of(files_of(TABLE, layout, files, table.column_names), codec) / size_of(now, codec)


def files_of(rows: pa.Table, layout: Layout, files: int, columns: list[str] | None = None) -> list[pa.Table]:
    """The files of a layout, each in the order of a column."""
    keys = {name: rows[name].combine_chunks() for name in layout.weights}
    built = build_map(keys, layout, files)
    file, order = built.locate(keys), "item" if "item" in layout.weights else "day"  # 1000 items, and 730 days
    each = (rows.take(pa.array(np.flatnonzero(file == n))).sort_by(order) for n in range(built.files))
    return [part.select(columns or part.column_names) for part in each]


def size_of(files: list[pa.Table], codec: str) -> float:
    return sum(float(size.sum()) for part in files for size in column_sizes(written(part, codec), [0]).values())


@pytest.mark.parametrize("codec", ["snappy", "zstd", "none"])
@pytest.mark.parametrize(("columns", "files"), [(("day", "item"), 12), (("day",), 12), (("day", "item"), 4)])
def test_the_ratio_is_that_of_files_that_are_written(columns: tuple[str, ...], files: int, codec: str) -> None:
    layout, repeated = make_layout(*columns), TABLE.drop_columns("id")
    expected = measured(layout, files, codec, repeated)
    assert expected < 0.95
    assert size_ratios(rewrite([files]), stored(codec, repeated))(layout) == pytest.approx(expected, abs=0.01)
    # a chunk of consecutive rows has ids of a small range, which compress better than those of a new file
    whole = measured(layout, files, codec)
    error = {"none": 0.015, "snappy": 0.04, "zstd": 0.015 if files == 12 else 0.08}[codec]
    assert size_ratios(rewrite([files]), stored(codec))(layout) == pytest.approx(whole, abs=error)


def test_rows_of_a_file_are_in_the_order_of_a_column_with_few_values() -> None:
    table = TABLE.select(["day", "price"])
    ratio = size_ratios(rewrite([FILES]), stored("none", table))
    by_day, by_id = make_layout("day"), make_layout("id")  # there are too many ids
    assert ratio(by_day) == pytest.approx(measured(by_day, FILES, "none", table), abs=0.005)
    assert ratio(make_layout("id", "day")) == pytest.approx(ratio(make_layout("day", "id")), abs=0.01)
    for kept in (by_id, make_layout("day", sort_within=False)):
        assert ratio(kept) > 1.05 * ratio(by_day)


def test_files_grow_if_the_order_of_arrival_was_the_better_one() -> None:
    columns = TABLE.select(["id", "price"])
    own = StoredRows(
        (known := stored("zstd")).file,
        tuple(rows.select(columns.column_names) for rows in known.rows),
        known.keys,
        {name: known.stored[name] for name in columns.column_names},
        ROWS,
        "ZSTD",
    )
    assert size_ratios(rewrite([FILES]), own)(make_layout("item")) > 1.01


@pytest.mark.parametrize("files", [1, 2])
def test_rows_stay_in_their_partition(files: int) -> None:
    partition, layout, step = [n // 2 for n in range(FILES)], make_layout("day"), ROWS // FILES
    written = [part for n in range(0, FILES, 2) for part in files_of(TABLE.slice(n * step, 2 * step), layout, files)]
    expected = size_of(written, "snappy") / size_of([TABLE.slice(n * step, step) for n in range(FILES)], "snappy")
    ratio = size_ratios(rewrite([files] * 6, partition), stored("snappy"))(layout)
    assert ratio == pytest.approx(expected, abs=0.01), "the rows of two files are in one order"


def test_partitions_without_chunks_change_nothing() -> None:
    few, layout = [n // 2 for n in range(FILES)], make_layout("day")
    many = [n // 2 for n in range(5 * FILES)]
    expected, found = (size_ratios(rewrite([2] * (len(of) // 2), of), stored("snappy"))(layout) for of in (few, many))
    assert found == pytest.approx(expected)


def test_an_unknown_ratio() -> None:
    layout = make_layout("day")
    assert size_ratios(rewrite([FILES]), None)(layout) is None
    assert size_ratios(rewrite([FILES]), stored("snappy"))(make_layout("price")) is None, "its values were not read"
    other = replace(stored("snappy"), codec="LZO")
    assert size_ratios(rewrite([FILES]), other)(layout) is None, "Arrow does not write this codec"
    wrong = replace(stored("snappy"), stored=stored("snappy").stored | {"day": np.array([1e12, 1e12])})
    assert size_ratios(rewrite([FILES]), wrong)(layout) is None, "a footer with an absurd size"
    moves = rewrite([FILES], fields=(PartitionField("price"),))
    assert size_ratios(moves, stored("snappy"))(layout) is None, "the partitions of the rows are not known"
    many = rewrite([FILES], fields=(PartitionField("item"),))
    assert size_ratios(many, stored("snappy"))(layout) is None, "partitions of 72 rows"


@pytest.mark.parametrize("codec", ["snappy", "zstd"])
@pytest.mark.parametrize(("width", "targets"), [(200, 12), (50, 12), (730, 12), (100, 4)])
def test_rows_that_move_are_laid_out_in_their_new_partition(codec: str, width: int, targets: int) -> None:
    """Partitions by a number of days, in most cases with fewer than one of the wanted files each."""
    table, layout = TABLE.drop_columns("id"), make_layout("item")
    moves = rewrite([targets], fields=(PartitionField("day", f"truncate[{width}]"),))
    parts = [table.filter(pa.array(DAY // width == n)) for n in range(-(-730 // width))]
    new = [file for part in parts for file in files_of(part, layout, max(1, round(targets * len(part) / ROWS)))]
    now = [table.slice(n * ROWS // FILES, ROWS // FILES) for n in range(FILES)]
    expected = size_of(new, codec) / size_of(now, codec)
    found, whole = (size_ratios(one, stored(codec, table))(layout) for one in (moves, rewrite([targets])))
    assert found == pytest.approx(expected, abs=0.015)
    assert (abs(found - whole) < 0.005) == (width == 730), "a partition has fewer days than the table"
