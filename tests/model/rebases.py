"""Stands in for the Spark jobs of a rebase, for both formats: which rows files have, and which of them are equal."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from itertools import groupby
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
MISCOUNTED = "rows are read with other positions"


class Rows(list[Numbered]):
    """Stands in for a frame."""

    schema, columns = None, ()


class RowIndex:
    """Stands in for `rebase.RowIndex`: the rows of files as they were when they were read."""

    def __init__(self, reader: Any, rows_of: Callable[[Any], Rows]) -> None:
        self._reader, self._rows_of = reader, rows_of
        self.may_fail: bool = reader.session.table.jobs_fail
        self.rows: dict[tuple[int, int], Row] = {}
        self.files: set[int] = set()

    def close(self) -> None:
        pass

    def read(self, files: Any, at: Int64) -> Int64:
        """A reader that miscounts gives each row of a file the position of the one before it."""
        missing = np.array(sorted({*at.tolist()} - self.files), np.int64)
        if not len(missing):
            return missing
        rows = self._rows_of(self._reader.select(files, missing))
        miscounts = step("index", (MISCOUNTED,) if self.may_fail else (), visible=False) == MISCOUNTED
        for file, of_file in groupby(rows, lambda found: found[0]):
            places, some = zip(*((position, row) for _, position, row in of_file), strict=True)
            for position, row in zip(places, some[1:] + some[:1] if miscounts else some, strict=True):
                self.rows[int(missing[file]), position] = row
        self.files |= {*missing.tolist()}
        return missing

    def digests_of(self, rows: rebase.Located) -> pa.Table:
        places = ((at, n, group) for at, group, of in zip(rows.at, rows.owner, rows.positions, strict=True) for n in of)
        found = [(int(group), int(at), self.rows[at, n]) for at, n, group in places if (at, n) in self.rows]
        groups, files, some = ([each[n] for each in found] for n in range(3))
        numbers = {GROUP_NUMBER: pa.array(groups, pa.int64()), FILE: pa.array(files, pa.int64())}
        return pa.table({**numbers, HASH: _hashes(some), DIGEST: _digests(some)})

    def equal(self, files: rebase.Located, gone: pa.Table) -> pa.Table:
        step("find", visible=False)
        wanted = set(gone[HASH].to_pylist())
        dead = {(at, n) for at, of in zip(files.at.tolist(), files.positions, strict=True) for n in of.tolist()}
        group_of = dict(zip(files.at.tolist(), files.owner.tolist(), strict=True))
        found = [
            (group_of[place[0]], *place, row)
            for place, row in sorted(self.rows.items())
            if place[0] in group_of and place not in dead and _hash(row) in wanted
        ]
        numbers = {
            name: pa.array([each[n] for each in found], pa.int64())
            for n, name in enumerate((GROUP_NUMBER, FILE, POSITION))
        }
        return pa.table({**numbers, DIGEST: _digests([each[3] for each in found])})


def _hashes(rows: Sequence[Row]) -> pa.Array:
    return pa.array([_hash(row) for row in rows], pa.int64())


def _hash(row: Row) -> int:
    number = spark_job.avalanche(spark_job.hash_of(row))
    return number - 2**64 * (number >= 2**63)


def _digests(rows: Sequence[Row]) -> pa.Array:
    return pa.array([repr(row[1:]).encode() for row in rows], pa.binary())


def contents_of(frames: Sequence[Rows], _columns: Any) -> list[Content]:
    hashes = [[_hash(row) for _, _, row in frame] for frame in frames]
    return [Content(len(some), sum(some)) for some in hashes]


@contextmanager
def stand_in() -> Iterator[None]:
    """Replace the jobs; what is done with their results stays as it is."""
    with ExitStack() as stack:
        for name, value in (
            ("rewrite_conf", lambda _: nullcontext()),
            ("RowIndex", RowIndex),
            ("contents_of", contents_of),
            ("MAX_SHARE", 0.5),  # groups have one or two files
        ):
            stack.enter_context(patch.object(rebase, name, value))
        yield
