"""The sizes of files on storage, compared with those that a table records."""

from threading import Barrier

import pytest

from zlayout.formats.undo import MAX_CONCURRENT_REQUESTS, missing_files

SIZES = {f"part-{n}.parquet": n + 1 for n in range(40)}


def test_files_that_are_there_are_not_missing() -> None:
    assert missing_files(SIZES, SIZES.__getitem__) == []
    assert missing_files({}, SIZES.__getitem__) == []


@pytest.mark.parametrize("found", [None, 0, 8])
@pytest.mark.parametrize("name", ["part-0.parquet", "part-6.parquet", "part-39.parquet"])
def test_a_file_that_is_gone_or_has_another_size_is_returned(name: str, found: int | None) -> None:
    assert missing_files(SIZES, lambda path: found if path == name else SIZES[path]) == [name]


def test_a_request_that_fails_raises_its_error() -> None:
    def refuse(path: str) -> int:
        if path == "part-20.parquet":
            raise PermissionError(path)
        return SIZES[path]

    with pytest.raises(PermissionError, match="part-20"):
        missing_files(SIZES, refuse)


def test_storage_is_asked_for_many_files_at_once() -> None:
    together = Barrier(MAX_CONCURRENT_REQUESTS, timeout=30)

    def stored(path: str) -> int:
        together.wait()
        return SIZES[path]

    assert missing_files(dict(list(SIZES.items())[: 2 * MAX_CONCURRENT_REQUESTS]), stored) == []
