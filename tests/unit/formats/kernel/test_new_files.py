"""New files, looked up before a commit names them."""

from __future__ import annotations

from threading import Barrier

import pytest

from zlayout.errors import EngineError
from zlayout.formats.kernel.new_files import require_files
from zlayout.formats.stored_files import MAX_CONCURRENT_REQUESTS

SIZES = {f"part-{n}.parquet": n + 1 for n in range(40)}


def test_files_that_are_there_pass() -> None:
    require_files(SIZES, SIZES.__getitem__)
    require_files({}, SIZES.__getitem__)


@pytest.mark.parametrize(("found", "says"), [(None, "found no file"), (0, "found 0"), (8, "found 8")])
@pytest.mark.parametrize("name", ["part-0.parquet", "part-6.parquet", "part-39.parquet"])
def test_one_that_is_gone_or_of_another_size_is_named(name: str, found: int | None, says: str) -> None:
    with pytest.raises(EngineError, match=rf"ZL316 .*: {name}: expected {SIZES[name]} bytes, {says}"):
        require_files(SIZES, lambda path: found if path == name else SIZES[path])


def test_a_look_that_fails_fails_the_commit() -> None:
    def refuse(path: str) -> int:
        if path == "part-20.parquet":
            raise PermissionError(path)
        return SIZES[path]

    with pytest.raises(PermissionError, match="part-20"):
        require_files(SIZES, refuse)


def test_storage_is_asked_for_many_at_once() -> None:
    together = Barrier(MAX_CONCURRENT_REQUESTS, timeout=30)

    def stored(path: str) -> int:
        together.wait()
        return SIZES[path]

    require_files(dict(list(SIZES.items())[: 2 * MAX_CONCURRENT_REQUESTS]), stored)
