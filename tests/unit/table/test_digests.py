"""Equal sets of files have equal digests, other sets have others."""

import hashlib
from dataclasses import replace
from itertools import permutations

import numpy as np
import pyarrow as pa
import pytest

from tests.unit.table.conftest import MakeFiles
from zlayout.planner import proposal
from zlayout.planner.proposal import digests_of
from zlayout.table import state as side_by_side
from zlayout.table.state import FileTable

PATHS = ["d", "b", "é", "a", "cc", "c"]


@pytest.fixture
def files(make_files: MakeFiles) -> FileTable:
    made = make_files({"a": ([0] * 6, [1] * 6)})
    return replace(made, path=pa.array(PATHS), version_key=pa.array(["1", "", "2", "", "", "3"]))


def digest(files: FileTable) -> str:
    return digests_of((files,))[0]


@pytest.mark.parametrize("block", [1, 2, 4, 6, 7])
def test_the_digest_is_of_lengths_and_texts_in_order(
    files: FileTable, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proposal, "FILES_PER_BLOCK", block)
    pairs = sorted((p.encode(), v.encode()) for p, v in zip(PATHS, files.version_key.to_pylist(), strict=True))
    whole = np.array([len(pairs)], "<i8").tobytes()
    for start in range(0, len(pairs), block):
        texts = b""
        for column in zip(*pairs[start : start + block], strict=True):
            texts += np.array([len(text) for text in column], "<i8").tobytes() + b"".join(column)
        whole += hashlib.sha256(texts).digest()
    assert digest(files) == hashlib.sha256(whole).hexdigest()
    assert digest(files.take(np.array([4, 1, 0, 3, 5, 2]))) == digest(files)
    assert digest(files.take(np.arange(0))) == hashlib.sha256(b"\0" * 8).hexdigest()


@pytest.mark.parametrize("cores", [1, 2, 8])
@pytest.mark.parametrize("few", [0, 10**6])
@pytest.mark.parametrize("block", [1, 3, 100])
def test_a_part_has_the_same_digest_alone_and_among_others(
    files: FileTable, cores: int, few: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proposal, "MAX_THREADS", cores)
    monkeypatch.setattr(proposal, "FILES_PER_BLOCK", block)
    monkeypatch.setattr(side_by_side, "MIN_FILES_FOR_THREADS", few)
    parts = [files.take(np.array(places, np.int64)) for places in ((3, 1), (), (5, 0, 2, 4), (1,), (0, 1, 2, 3, 4, 5))]
    assert digests_of(parts) == list(map(digest, parts))
    assert len(set(map(digest, parts))) == len(parts)


def test_paths_that_are_there_twice_are_in_the_order_of_their_version_keys(files: FileTable) -> None:
    twice = replace(files, path=pa.array(["d", "b", "é", "b", "b", "c"]))
    found = {digest(twice.take(np.array(order))) for order in permutations(range(6))}
    assert len(found) == 1
    other = replace(twice, version_key=pa.array(["1", "", "2", "", "3", ""]))
    assert digest(other) not in found


def test_the_digest_of_several_parts_is_that_of_the_sets(files: FileTable) -> None:
    one, other = files.split([np.array([3, 1]), np.array([0, 2, 5])])
    assert digests_of((one, other)) == [digest(one), digest(other)]
    assert digests_of((other, one.take(np.array([1, 0])))) == [digest(other), digest(one)]
    assert len({digest(part) for part in (one, other, files)}) == 3
    assert digests_of(()) == []
