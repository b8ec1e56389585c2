"""The choice of rows to delete, compared with a search by hand."""

from collections import Counter
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest

from zlayout.formats.kernel import rebase
from zlayout.formats.kernel.rebase import POSITION_BITS, IndexedRows, Located, RowIndex, match, parts_of
from zlayout.rewrite.gate import DIGEST, HASH
from zlayout.rewrite.rows import FILE, GROUP, POSITION


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


LARGE = 2**POSITION_BITS  # the first place of file 1


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        ([], []),
        ([0], [(0, 0)]),
        ([3], [(0, 3)]),
        ([4], [(0, 3), (4, 4)]),
        ([9], [(0, 3), (4, 7), (8, 9)]),
        ([1, LARGE + 1], [(0, LARGE + 1)]),
        ([2, LARGE + 2, 2 * LARGE + 1], [(0, LARGE), (LARGE + 1, 2 * LARGE + 1)]),
        ([3, 5 * LARGE + 3], [(0, 5 * LARGE - 1), (5 * LARGE, 5 * LARGE + 3)]),
    ],
)
def test_parts_have_at_most_four_rows_and_all_of_them(
    last: list[int], expected: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rebase, "MAX_PART_ROWS", 4)
    assert parts_of(np.array(last, np.int64)) == expected


def indexed(rows: list[tuple[int, int, bytes]], sizes: list[int], files: int) -> RowIndex:
    """An index of rows (place, hash, digest) in parts of these sizes. Spark would have read them."""
    index: RowIndex = object.__new__(RowIndex)
    places, hashes, texts = ([row[n] for row in rows] for n in range(3))
    kinds = {rebase._PLACE: pa.int64(), HASH: pa.int64(), DIGEST: pa.binary()}
    columns = zip(kinds.items(), (places, hashes, texts), strict=True)
    table = pa.table({name: pa.array(values, kind) for (name, kind), values in columns})
    ends = np.cumsum([0, *sizes]).tolist()
    index._parts = [IndexedRows.of(table.slice(first, end - first)) for first, end in pairwise(ends)]
    index._at = np.arange(files)
    return index


def located(places: set[int], owner: dict[int, int]) -> Located:
    rows = [np.array(sorted(p % LARGE for p in places if p // LARGE == file), np.int64) for file in owner]
    return Located(np.array([*owner], np.int64), np.array([*owner.values()], np.int64), rows)


def test_the_index_finds_rows_by_place_and_by_value() -> None:
    """Many rows are equal, hashes of different rows are equal, parts are empty, and rows are not live any more."""
    random = np.random.default_rng(11)
    for _ in range(300):
        files = int(random.integers(1, 4))
        places = random.permutation([file * LARGE + n for file in range(files) for n in range(random.integers(1, 15))])
        kinds = random.integers(0, 4, len(places)).tolist()
        rows = [(p, kind % 2 - 1, b"%016d" % kind) for p, kind in zip(places.tolist(), kinds, strict=True)]
        first, second = sorted(random.integers(0, len(rows) + 1, 2).tolist())
        index = indexed(rows, [first, second - first, len(rows) - second], files)
        owner = dict(enumerate(random.integers(0, 2, files).tolist()))
        row_at = {p: (owner[p // LARGE], hash_, digest) for p, hash_, digest in sorted(rows)}

        chosen, dead = ({p for p in row_at if random.random() < share} for share in (0.3, 0.2))
        gone = index.digests_of(located(chosen, owner))
        names = (GROUP, FILE, HASH, DIGEST)
        assert Counter(zip(*(gone[name].to_pylist() for name in names), strict=True)) == Counter(
            (row_at[p][0], p // LARGE, *row_at[p][1:]) for p in chosen
        )

        del owner[random.integers(0, files)]  # a file of the index in which no row is searched for
        searched = {file: owner[file] for file in random.permutation([*owner]).tolist()}
        found = index.equal(located({p for p in dead if p // LARGE in owner}, searched), gone)
        wanted, expected = Counter(row_at[p] for p in chosen), list[tuple[int, bytes, int]]()
        for place, row in row_at.items():
            if place // LARGE in owner and place not in dead and wanted[row]:
                wanted[row] -= 1
                expected.append((row[0], row[2], place))
        place = [f * LARGE + n for f, n in zip(found[FILE].to_pylist(), found[POSITION].to_pylist(), strict=True)]
        assert [*zip(found[GROUP].to_pylist(), found[DIGEST].to_pylist(), place, strict=True)] == expected
