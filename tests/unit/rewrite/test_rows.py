"""The number of rows that the driver samples."""

import pytest

from zlayout.rewrite.rows import MAX_SAMPLE_ROWS, rows_per_file


@pytest.mark.parametrize(
    ("files", "rows"), [(1, 2000), (5000, 2000), (5001, 1999), (20_000, 500), (50_000, 200), (800_000, 200), (0, 2000)]
)
def test_a_file_gets_fewer_rows_where_many_files_are_written(files: int, rows: int) -> None:
    assert rows_per_file(files) == rows


@pytest.mark.parametrize("files", [1, 4999, 7777, 49_999, 50_000])
def test_the_sample_is_bounded_up_to_fifty_thousand_files(files: int) -> None:
    assert rows_per_file(files) * files <= MAX_SAMPLE_ROWS
