"""Texts of many items are passed by few calls, which are not too large."""

import numpy as np
import pyarrow as pa
import pytest

from zlayout.spark import arrow


@pytest.fixture(autouse=True)
def _limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrow, "ITEMS_PER_CALL", 4)
    monkeypatch.setattr(arrow, "MAX_CHARACTERS", 10)


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([], []),
        ([0] * 9, [(0, 4), (4, 8), (8, 9)]),
        ([50, 50], [(0, 1), (1, 2)]),
        ([3, 3, 3, 3, 3], [(0, 4), (4, 5)]),
        ([6, 6, 6, 6], [(0, 2), (2, 4)]),
        ([1, 50, 1, 1], [(0, 2), (2, 4)]),
    ],
)
def test_a_call_ends_after_a_number_of_items_or_characters(lengths: list[int], expected: list[tuple[int, int]]) -> None:
    assert list(arrow.parts(np.array(lengths, np.int64))) == expected


@pytest.mark.parametrize(
    "texts", [[], [""], ["", "", "", "", "", ""], ["a" * 50, "", "b"], ["é" * 9, "x" * 9, "y", "z"]]
)
def test_all_texts_are_read_in_their_order(texts: list[str]) -> None:
    calls = []

    def read(start: int, end: int, characters: int) -> str:
        """As AddFiles.java does."""
        some = texts[start : start + 1]
        while start + len(some) < end and len("\0".join(some)) < characters:
            some.append(texts[start + len(some)])
        calls.append(len("\0".join(some)))
        return "\0".join(some)

    found = arrow.texts(read, len(texts), pa.large_string())
    assert (found.type, found.to_pylist()) == (pa.large_string(), texts)
    assert len(calls) <= len(texts)
    assert all(size < 10 + max(map(len, texts)) + 1 for size in calls)


def test_numbers_keep_their_values() -> None:
    numbers = np.array([0, -1, 2**63 - 1, -(2**63)], np.int64)
    assert arrow.from_bytes(arrow.to_bytes(numbers)).tolist() == numbers.tolist()
    assert arrow.to_bytes(np.array([1], np.int64)) == b"\0" * 7 + b"\1"
