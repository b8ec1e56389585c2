"""Stands in for the Spark jobs of a rebase, for both formats: which rows files have, and which of them are equal."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

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


def read_deleted(reader: Any, deleted: rebase.Deleted) -> pa.Table:
    rows = [
        (deleted.owner[number], row)
        for number, position, row in reader.pinned(deleted.before)
        if position in deleted.positions[number]
    ]
    found = [row for _, row in rows]
    groups = pa.array([group for group, _ in rows], pa.int64())
    return pa.table({GROUP_NUMBER: groups, HASH: _hashes(found), DIGEST: _digests(found)})


def read_equal(reader: Any, files: Any, owner: Int64, gone: pa.Table) -> pa.Table:  # noqa: ARG001
    step("find", visible=False)
    wanted = set(gone[HASH].to_pylist())
    rows = [found for found in reader.written(files) if spark_job.hash_of(found[2]) in wanted]
    numbers, at = (pa.array([row[n] for row in rows], pa.int64()) for n in (0, 1))
    return pa.table({FILE: numbers, POSITION: at, DIGEST: _digests([row for _, _, row in rows])})


def _hashes(rows: Sequence[Row]) -> pa.Array:
    return pa.array([spark_job.hash_of(row) for row in rows], pa.uint64())


def _digests(rows: Sequence[Row]) -> pa.Array:
    return pa.array([repr(row[1:]) for row in rows], pa.string())


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
            ("read_deleted", read_deleted),
            ("read_equal", read_equal),
            ("read_contents", read_contents),
        ):
            stack.enter_context(patch.object(rebase, name, value))
        yield
