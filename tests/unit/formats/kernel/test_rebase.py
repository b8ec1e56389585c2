"""The choice of rows to delete, compared with a search by hand."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from zlayout.formats.kernel.rebase import POSITION_BITS, Located, match


def chosen(deleted: str, found: str) -> list[int] | None:
    """Rows as text: `0a` is a row of group 0 with the digest a."""
    rows = [[(int(row[0]), row[1:]) for row in text.split()] for text in (deleted, found)]
    groups = [np.array([group for group, _ in some], np.int64) for some in rows]
    texts = [pa.array([digest for _, digest in some], pa.string()) for some in rows]
    at = match(groups[0], texts[0], groups[1], texts[1])
    return None if at is None else at.tolist()


@pytest.mark.parametrize(
    ("deleted", "found", "expected"),
    [
        ("0a", "0b 0a", [1]),
        ("0a 0a", "0a 0b 0a 0a", [0, 2]),
        ("0a 1a", "1a 0a 0a", [0, 1]),
        ("0b 0a", "0a 0b", [0, 1]),
        ("0a 0a", "0a 0b", None),
        ("0a", "1a", None),
        ("0a", "", None),
        ("", "0a", []),
        ("", "", []),
    ],
)
def test_as_many_equal_rows_of_the_group_are_chosen_as_were_deleted(
    deleted: str, found: str, expected: list[int] | None
) -> None:
    assert chosen(deleted, found) == expected


def test_the_chosen_rows_are_the_deleted_multiset() -> None:
    random = np.random.default_rng(7)
    for _ in range(200):
        sizes = random.integers(0, 30, 2)
        deleted, found = (
            [f"{g}{d}" for g, d in zip(random.integers(0, 3, n), random.integers(0, 4, n), strict=True)] for n in sizes
        )
        at = chosen(" ".join(deleted), " ".join(found))
        possible = not Counter(deleted) - Counter(found)
        assert (at is not None) == possible
        if at is not None:
            assert Counter(found[n] for n in at) == Counter(deleted)
            assert len(set(at)) == len(at)


def test_rows_have_the_places_and_groups_of_their_files() -> None:
    rows = Located(np.array([5, 2, 9]), np.array([1, 0, 2]), [np.array([0, 7]), np.array([3]), np.array([], np.int64)])
    of_5, of_2, of_9 = (at << POSITION_BITS for at in (5, 2, 9))
    assert rows.rows == 3
    assert rows.places().tolist() == [of_5, of_5 + 7, of_2 + 3]
    assert rows.owners(np.array([of_2 + 3, of_5, of_9 + 1, of_5 + 7])).tolist() == [0, 1, 2, 1]
    nothing = np.zeros(0, np.int64)
    assert Located(nothing, nothing, []).places().tolist() == []
