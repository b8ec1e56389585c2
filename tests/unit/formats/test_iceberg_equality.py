"""Equality deletes count where Iceberg's delete index lets them apply: partition, sequence number, bounds, nulls."""

import numpy as np
import pyarrow as pa
import pytest

from zlayout.formats.iceberg.read import observe as equality
from zlayout.formats.iceberg.read.manifests import EQUALITY_DELETES, POSITION_DELETES, DataColumns, DeleteFile
from zlayout.formats.iceberg.read.observe import Deletes, attribute_deletes

ID, NAME = 1, 2
FIELDS = {ID: pa.field("", pa.int64()), NAME: pa.field("", pa.string())}
Range = tuple[int, int] | None


def number(value: int) -> bytes:
    return value.to_bytes(8, "little", signed=True)


def data(ranges: list[Range], sequence: list[int] | int = 1, rows: int = 100, nulls: int = 0) -> DataColumns:
    """Files of one partition with these bounds of `ID`."""
    count = len(ranges)
    return DataColumns(
        path=[f"f{n}" for n in range(count)],
        rows=[rows] * count,
        sequence=[sequence] * count if isinstance(sequence, int) else sequence,
        written=[1] * count,
        partition=[0] * count,
        partitions={(1, (1,)): 0},
        lower={ID: [r and number(r[0]) for r in ranges]},
        upper={ID: [r and number(r[1]) for r in ranges]},
        nulls={ID: [nulls] * count},
    )


def delete(of: Range, sequence: int = 9, rows: int = 10, **changes: object) -> DeleteFile:
    made = DeleteFile(f"d{of}", EQUALITY_DELETES, False, (1, (1,)), sequence, rows, None, None, None, (ID,))
    if of is not None:
        made = made._replace(lower={ID: number(of[0])}, upper={ID: number(of[1])}, nulls={ID: 0})
    return made._replace(**changes)  # type: ignore[arg-type]


def found(files: DataColumns, *deletes: DeleteFile) -> Deletes:
    files.deletes = list(deletes)
    return attribute_deletes(files, frozenset({0}), FIELDS)


def test_an_upsert_of_new_keys_deletes_nothing() -> None:
    files = data([(0, 99), (100, 199), (200, 299)])
    assert found(files, delete((300, 399), rows=100)).rows.tolist() == [0, 0, 0]
    assert found(files, delete((300, 399), rows=100)).shared.tolist() == [False] * 3


def test_a_delete_counts_in_the_files_that_it_overlaps() -> None:
    files = data([(0, 99), (100, 199), (200, 299), None])
    deletes = found(files, delete((150, 220), rows=30))
    assert deletes.rows.tolist() == [0, 10, 10, 10]
    assert deletes.shared.tolist() == [False, True, True, True]
    assert found(files, delete(None, rows=40)).rows.tolist() == [10] * 4
    assert found(files, delete((50, 50), partition=(2, (1,)))).rows.tolist() == [0] * 4
    assert found(data([(0, 99), (100, 199)]), delete((50, 60), partition=(0, ()))).rows.tolist() == [10, 0]


def test_a_delete_counts_in_older_files_only() -> None:
    files = data([(0, 99)] * 3, sequence=[1, 5, 9])
    assert found(files, delete((0, 99), sequence=5)).rows.tolist() == [10, 0, 0]


@pytest.mark.parametrize(
    ("stored_nulls", "deleted_nulls", "applies"),
    [(0, 0, False), (5, 2, True), (5, 0, False), (-1, 2, True), (5, -1, True), (0, 10, False), (100, 0, False)],
)
def test_nulls_meet_nulls(stored_nulls: int, deleted_nulls: int, applies: bool) -> None:
    """The ranges have no value in common, so that only a null can be."""
    files = data([(0, 99)], nulls=stored_nulls)
    assert bool(found(files, delete((500, 600), nulls={ID: deleted_nulls})).rows[0]) == applies


def test_only_nulls_and_no_nulls_have_nothing_in_common_whatever_the_bounds() -> None:
    assert found(data([None], nulls=100), delete(None, nulls={ID: 0})).rows.tolist() == [0]
    assert found(data([None], nulls=0), delete(None, nulls={ID: 10})).rows.tolist() == [0]
    assert found(data([None], nulls=0), delete(None, nulls={ID: 9})).rows.tolist() == [10]


def applies(files: DataColumns, n: int, one: DeleteFile) -> bool:
    """`canContainEqDeletesForFile`, for integers, line by line."""
    if one.sequence <= files.sequence[n]:
        return False
    for i in one.equality:
        stored, gone = files.nulls[i][n], one.nulls.get(i, -1)
        if stored != 0 and gone != 0:
            continue
        if stored == files.rows[n] and gone == 0:
            return False
        if gone == one.rows and stored == 0:
            return False
        sides = files.lower[i][n], files.upper[i][n], one.lower.get(i), one.upper.get(i)
        if any(side is None for side in sides):
            continue
        low, high, first, last = (int.from_bytes(side or b"", "little", signed=True) for side in sides)
        if low > last or first > high:
            return False
    return True


@pytest.mark.parametrize("pairs", [10**6, 3])
@pytest.mark.parametrize("seed", range(20))
def test_as_the_delete_index_does_one_by_one(seed: int, pairs: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a limit of pairs, delete files beyond it apply to all older files: never to fewer."""
    monkeypatch.setattr(equality, "MAX_PAIRS", pairs)
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 15))

    def ends() -> Range:
        low = int(random.integers(0, 50))
        return None if random.random() < 0.15 else (low, low + int(random.integers(0, 20)))

    files = data([ends() for _ in range(count)], sequence=random.integers(0, 6, count).tolist(), rows=50)
    second = data([ends() for _ in range(count)])
    for mine, other in ((files.lower, second.lower), (files.upper, second.upper)):
        mine[NAME + 1] = other[ID]
    for i in (ID, NAME + 1):
        files.nulls[i] = random.choice([-1, 0, 0, 0, 7, 50], count).tolist()
    fields = {ID: FIELDS[ID], NAME + 1: pa.field("", pa.int64())}
    deletes = []
    for n in range(int(random.integers(1, 9))):
        one, two = delete(ends(), key=f"d{n}"), delete(ends())
        ids = ((ID,), (ID, NAME + 1))[int(random.integers(2))]
        lower, upper = (
            dict(zip((ID, NAME + 1), (a.get(ID), b.get(ID)), strict=True))
            for a, b in ((one.lower, two.lower), (one.upper, two.upper))
        )
        nulls = {i: int(random.choice([0, 0, 3, 10])) for i in ids if random.random() < 0.8}
        sequence = int(random.integers(0, 7))
        deletes.append(one._replace(equality=ids, lower=lower, upper=upper, nulls=nulls, sequence=sequence))
    files.deletes = deletes
    hit = np.array([[applies(files, n, one) for n in range(count)] for one in deletes])
    share = np.minimum(10 / np.maximum(hit.sum(axis=1) * 50, 1), 1.0)
    expected = np.minimum((hit * 50 * share[:, None]).sum(axis=0), 50)
    got = attribute_deletes(files, frozenset({0}), fields)
    shared = (hit & (hit.sum(axis=1) > 1)[:, None]).any(axis=0)
    if pairs == 10**6:
        assert (np.abs(got.rows - expected) < 1 + 1e-6).all()
        assert abs(int(got.rows.sum()) - expected.sum()) <= 0.5 + 1e-6
        assert got.shared.tolist() == shared.tolist()
    else:
        assert got.estimated[expected > 0].all()
        assert got.shared[shared].all()


@pytest.mark.parametrize(("name", "rows"), [("a", 0), ("mm", 10), ("z", 0)])
def test_strings_are_compared_by_their_bytes(name: str, rows: int) -> None:
    files = data([(0, 99)])
    files.lower[NAME], files.upper[NAME], files.nulls[NAME] = [b"m"], [b"n"], [0]
    text = delete(None, equality=(NAME,), lower={NAME: name.encode()}, upper={NAME: name.encode()}, nulls={NAME: 0})
    assert found(files, text).rows.tolist() == [rows]


def test_no_estimate_is_that_a_whole_file_is_deleted() -> None:
    files = data([(0, 99), (0, 99)])
    by_value, by_position = delete((0, 99), rows=500), delete(None, content=POSITION_DELETES, referenced="f1", rows=40)
    deletes = found(files, by_value, by_position)
    assert deletes.rows.tolist() == [100, 100]
    assert deletes.plausible(np.array([100, 100])).tolist() == [50, 40 + 30]
    # What is deleted by position is known.
    exact = found(files, delete(None, content=POSITION_DELETES, referenced="f1", rows=100))
    assert exact.plausible(np.array([100, 100])).tolist() == [0, 100]
