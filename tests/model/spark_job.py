"""The Spark job of a rewrite, without Spark: rows of groups into one new file for each group, past the real gate.

The job itself may go wrong: a row is dropped, doubled, changed, a pair of equal rows becomes another pair, or two
groups each get a row of the other, as a broken shuffle, reader or writer would have it. What then happens is up to
`zlayout.rewrite.gate`.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from itertools import combinations, product
from typing import cast
from unittest.mock import patch

from model.rows import Row
from model.schedule import step
from pyspark.sql import DataFrame

from zlayout import errors
from zlayout.formats.base import render_cost
from zlayout.formats.kernel import commits, execute
from zlayout.rewrite import gate

Rows = tuple[Row, ...]
Groups = Mapping[str, Rows]
VACUUM = "new files are removed"
MIXED = "two groups exchange a row"
_MASK = (1 << 64) - 1


def hash_of(row: Row) -> int:
    """64 bits of all that the format sees of a row; a row's hidden identity is not among them."""
    return hash((row.key, row.value, row.id, row.version, 11)) & _MASK


def content(groups: Groups) -> gate.Content:
    """Rows and the sum of their hashes, seeded by their group, as `zlayout.rewrite.gate` has Spark compute it."""
    hashes = [avalanche(hash((name, hash_of(row)))) for name, rows in groups.items() for row in rows]
    return gate.Content(len(hashes), sum(hashes) & _MASK)


def avalanche(number: int) -> int:
    """The end of XXH64. Python's hash of a tuple is nearly linear in its parts, so that sums of them may agree."""
    number = ((number & _MASK) ^ ((number & _MASK) >> 33)) * 0xC2B2AE3D27D4EB4F & _MASK
    number = (number ^ (number >> 29)) * 0x165667B19E3779F9 & _MASK
    return number ^ (number >> 32)


def dropped(rows: Rows) -> Rows:
    return rows[1:]


def doubled(rows: Rows) -> Rows:
    return (rows[0], *rows)


def changed(rows: Rows) -> Rows:
    return (rows[0]._replace(value=rows[0].value + 1), *rows[1:])


def other_pair(rows: Rows) -> Rows:
    """Two rows that look the same become two that look the same, but other ones: an XOR of hashes cannot detect it."""
    for at, row in enumerate(rows):
        for other in range(at + 1, len(rows)):
            if row[1:] == rows[other][1:]:
                new = [r._replace(value=r.value + 7) if n in (at, other) else r for n, r in enumerate(rows)]
                return tuple(new)
    return rows


def mixed(groups: Groups) -> Groups:
    """A row of one group and a row of another that looks different change places."""
    for one, other in combinations(groups, 2):
        for row, came in product(groups[one], groups[other]):
            if hash_of(row) != hash_of(came):
                left = tuple(came if r == row else r for r in groups[one])
                right = tuple(row if r == came else r for r in groups[other])
                return {**groups, one: left, other: right}
    return groups


FAULTS: Mapping[str, Callable[[Rows], Rows]] = {
    "a row is dropped": dropped,
    "a row is doubled": doubled,
    "a row is changed": changed,
    "a pair is changed": other_pair,
}


def rewrite(source: Groups, expected: Mapping[str, int], *, may_fail: bool) -> tuple[Groups, bool]:
    """(rows of the new file of each group, whether the files are removed at once by a VACUUM without retention).

    expected: live rows of each group by the metadata. may_fail: whether the job itself can go wrong. Raises what the
    gate raises, EngineError ZL310 and ZL311.
    """
    fault = step("write", (*FAULTS, MIXED, VACUUM) if may_fail else (), visible=False)
    break_rows = FAULTS.get(fault)
    new = dict(mixed(source) if fault == MIXED else source)
    if break_rows is not None:
        name = max(source, key=lambda group: (len(source[group]), group))
        new[name] = break_rows(source[name])
    watched = gate.Gate(cast(DataFrame, source), sum(expected.values()))
    watched._before, watched._after = content(source), content(new)  # type: ignore[assignment]
    watched.check()
    gate.require_rows({group: (expected[group], len(new[group])) for group in source})
    return new, fault == VACUUM


@contextmanager
def stand_in() -> Iterator[None]:
    """Let the real gate look at contents of the model instead of at Spark's observations."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(execute, "fallback_reason", lambda *_: None))
        # the seconds of a rewrite would make equal states differ
        stack.enter_context(patch.object(commits, "render_cost", lambda cost: render_cost(replace(cost, seconds=1.0))))
        stack.enter_context(patch.object(gate, "Observation", lambda: None))
        for counted in ("_observed", "_accumulated"):
            stack.enter_context(patch.object(gate, counted, lambda content, *_: content))
        stack.enter_context(patch.object(gate, "content_of", lambda frame: content(frame)))
        if hasattr(errors, "without_secrets"):  # slow, and there are none here
            stack.enter_context(patch.object(errors, "without_secrets", lambda text: text))
        yield
