"""The ints that stand for partition ids in shuffles of Spark before version 4.1."""

import numpy as np
import pytest

from zlayout.rewrite.engine import hash_of_ints, keys_of_partitions


def test_the_hash_is_the_one_of_spark() -> None:
    """The expected values are those of `select hash(0), hash(1), hash(-1), hash(2147483647)` in Spark."""
    values = np.array([0, 1, -1, 2147483647], np.int32)
    assert hash_of_ints(values).tolist() == [933211791, -559580957, -1604776387, 133916647]


@pytest.mark.parametrize("count", [1, 2, 7, 1000, 65_537])
def test_each_partition_has_a_key_of_its_own(count: int) -> None:
    keys = keys_of_partitions(count)
    assert (hash_of_ints(keys) % count).tolist() == list(range(count))
