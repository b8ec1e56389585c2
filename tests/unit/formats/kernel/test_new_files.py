"""New files, looked up before a commit names them."""

import numpy as np
import pyarrow as pa
import pytest

from zlayout.errors import EngineError
from zlayout.formats.kernel.commits import require_sizes, spark_partitions

SIZES = {f"part-{n}.parquet": n + 1 for n in range(40)}


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
    name = (r"(?:^|/)part-(?P<partition>\d{5,})-[^/]*$", "part-<number>-...", "use another")
    paths = pa.array(["p=part-00001-x/part-00007-a.parquet", "part-123456-a.parquet"])
    assert spark_partitions(paths, *name).tolist() == [7, 123456]
    assert spark_partitions(paths[:0], *name).tolist() == []
    with pytest.raises(EngineError, match=r"ZL318 .*expected a new file named part-<number>-..., found part-7-a"):
        spark_partitions(pa.array(["part-00001-a.parquet", "part-7-a.parquet"]), *name)
