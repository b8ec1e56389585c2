"""Stands in for the Spark jobs of a rebase, for both formats: which rows files have, and which of them are equal."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from model import spark_job
from model.rows import Row
from model.schedule import step

from zlayout.formats.kernel import rebase
from zlayout.rewrite.gate import DIGEST, HASH, Content
from zlayout.rewrite.rows import FILE, POSITION
from zlayout.rewrite.rows import GROUP as GROUP_NUMBER
from zlayout.table.state import Int64

# A live row with the number of its file in a list and its position: the stand-ins of readers return lists of these.
Numbered = tuple[int, int, Row]
OTHER_ROW = "another row is marked"


class Rows(list[Numbered]):
    """Stands in for a frame."""

    schema = None


class RowIndex(AbstractContextManager["RowIndex"]):
    """Stands in for `rebase.RowIndex`: the rows of files as they were when they were read."""

    def __init__(self, _session: Any) -> None:
        self.rows: dict[tuple[int, int], Row] = {}
        self.files: set[int] = set()

    def __exit__(self, *_: object) -> None:
        pass

    def read(self, rows_of: Callable[[Any], Rows], reader: Any, files: Any, at: Int64) -> bool:
        missing = np.array(sorted({*at.tolist()} - self.files), np.int64)
        for number, position, row in rows_of(reader.select(files, missing)) if len(missing) else ():
            self.rows[int(missing[number]), position] = row
        self.files |= {*missing.tolist()}
        return len(missing) > 0

    def digests_of(self, rows: rebase.Located) -> pa.Table:
        places = ((at, n, group) for at, group, of in zip(rows.at, rows.owner, rows.positions, strict=True) for n in of)
        found = [(group, self.rows[at, n]) for at, n, group in places if (at, n) in self.rows]
        groups, some = [int(group) for group, _ in found], [row for _, row in found]
        return pa.table({GROUP_NUMBER: pa.array(groups, pa.int64()), HASH: _hashes(some), DIGEST: _digests(some)})

    def equal(self, files: rebase.Located, gone: pa.Table) -> pa.Table:
        step("find", visible=False)
        wanted = set(gone[HASH].to_pylist())
        dead = {(at, n) for at, of in zip(files.at.tolist(), files.positions, strict=True) for n in of.tolist()}
        group_of = dict(zip(files.at.tolist(), files.owner.tolist(), strict=True))
        found = [
            (group_of[place[0]], *place, row)
            for place, row in sorted(self.rows.items())
            if place[0] in group_of and place not in dead and spark_job.hash_of(row) in wanted
        ]
        numbers = {
            name: pa.array([each[n] for each in found], pa.int64())
            for n, name in enumerate((GROUP_NUMBER, FILE, POSITION))
        }
        return pa.table({**numbers, DIGEST: _digests([each[3] for each in found])})


def _hashes(rows: Sequence[Row]) -> pa.Array:
    return pa.array([spark_job.hash_of(row) for row in rows], pa.uint64())


def _digests(rows: Sequence[Row]) -> pa.Array:
    return pa.array([repr(row[1:]).encode() for row in rows], pa.binary())


def read_contents(reader: Any, lists: Sequence[Any], owner: Int64, new_owner: Int64) -> list[Content]:
    found = []
    for number, files in enumerate(lists):
        read, owners = (reader.pinned, owner) if number < 2 else (reader.written, new_owner)
        groups: dict[str, tuple[Row, ...]] = {str(group): () for group in owners.tolist()}
        for file, _, row in read(files):
            groups[str(owners[file])] += (row,)
        found.append(spark_job.content(groups))
    return found


@contextmanager
def stand_in() -> Iterator[None]:
    """Replace the jobs; what is done with their results stays as it is."""
    with ExitStack() as stack:
        for name, value in (
            ("rewrite_conf", lambda _: nullcontext()),
            ("RowIndex", RowIndex),
            ("read_contents", read_contents),
        ):
            stack.enter_context(patch.object(rebase, name, value))
        yield
