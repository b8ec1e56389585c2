"""New files, looked up before a commit names them."""

from __future__ import annotations

from threading import Barrier

import numpy as np
import pyarrow as pa
import pytest

from zlayout.errors import EngineError
from zlayout.formats.kernel.new_files import FileName, require_files, require_sizes, spark_partitions
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


@pytest.mark.parametrize(("found", "says"), [(-1, "found no file"), (0, "found 0"), (8, "found 8")])
@pytest.mark.parametrize("at", [0, 6, 39])
def test_a_size_that_differs_is_named(at: int, found: int, says: str) -> None:
    paths, recorded = pa.array(list(SIZES)), np.array(list(SIZES.values()))
    stored = recorded.copy()
    require_sizes(paths, recorded, stored)
    stored[at] = found
    with pytest.raises(EngineError, match=rf"ZL316 .*: part-{at}.parquet: expected {at + 1} bytes, {says}"):
        require_sizes(paths, recorded, stored)


def test_the_spark_partition_is_in_the_name_of_the_file() -> None:
    name = FileName(r"(?:^|/)part-(?P<partition>\d{5,})-[^/]*$", "part-<number>-...", "use another")
    paths = pa.array(["p=part-00001-x/part-00007-a.parquet", "part-123456-a.parquet"])
    assert spark_partitions(paths, name).tolist() == [7, 123456]
    assert spark_partitions(paths[:0], name).tolist() == []
    with pytest.raises(EngineError, match=r"ZL318 .*expected a new file named part-<number>-..., found part-7-a"):
        spark_partitions(pa.array(["part-00001-a.parquet", "part-7-a.parquet"]), name)
