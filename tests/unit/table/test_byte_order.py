"""Text and binary in the order of their bytes, as Python has it."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zlayout.table.order import byte_order

PIECES = st.sampled_from(
    [b"", b"\x00", b"\x00" * 8, b"a", b"ab", b"abcdefgh", b"abcdefg\x00", "é".encode(), b"\xff" * 9]
)
KINDS = (pa.binary(), pa.large_binary())


@given(st.lists(st.lists(PIECES, max_size=4).map(b"".join), max_size=30), st.sampled_from(KINDS), st.integers(0, 5))
def test_the_order_is_that_of_the_bytes(values: list[bytes], kind: pa.DataType, cut: int) -> None:
    array = pa.array(values, kind).slice(cut)
    found = byte_order(array)
    ordered = [values[cut:][place] for place in found.order.tolist()]
    assert sorted(found.order.tolist()) == list(range(len(array)))
    assert ordered == sorted(values[cut:])
    distinct = sorted(set(values[cut:]))
    assert [value for value, fresh in zip(ordered, found.fresh.tolist(), strict=True) if fresh] == distinct
    words = found.words(4)
    assert {len(word) for word in words} == {len(distinct)}
    rows = list(zip(*(word.tolist() for word in words), strict=True))
    assert rows == sorted(rows)


WORDS = ((b"a", b"b1234567", b"b1234567", b"c"), (b"", b"8x", b"8y", b""))


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_words_begin_after_the_prefix_that_all_share(kind: pa.DataType) -> None:
    names = ["part-0c", "part-0a", "part-0b12345678x", "part-0b12345678y"]
    found = byte_order(pa.array(names, kind))
    assert found.order.tolist() == [1, 2, 3, 0]
    words = [word.tolist() for word in found.words(9)]
    assert words[0] == [
        int.from_bytes(text, "big") for text in (b"a\0\0\0\0\0\0\0", b"b1234567", b"b1234567", b"c\0\0\0\0\0\0\0")
    ]
    assert words[1] == [0, int.from_bytes(b"8x\0\0\0\0\0\0", "big"), int.from_bytes(b"8y\0\0\0\0\0\0", "big"), 0]
    assert len(words) == 2
