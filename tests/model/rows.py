"""Rows of the model, and what must be true of them whatever the schedule.

A row has a hidden identity `uid` that no format knows of, so that a lost, a revived and a doubled row can be told
apart even where two rows look the same. Its `id` and `version` are the row id and the row commit version (Delta) or
last updated sequence number (Iceberg): None where the row takes them from its file.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import NamedTuple

from model.schedule import Violation


class Row(NamedTuple):
    uid: int
    key: int
    value: int
    id: int | None = None
    version: int | None = None


Lineage = tuple[int | None, int | None]


class Effect(NamedTuple):
    """What a writer's commit does to the rows, whatever files it does it with.

    keys: all rows with these keys go, those included that the writer never saw (equality deletes).
    """

    added: tuple[Row, ...] = ()
    removed: frozenset[int] = frozenset()
    keys: frozenset[int] = frozenset()
    values: Mapping[int, int] = {}

    def content(self) -> Hashable:
        return self.added, self.removed, self.keys, tuple(self.values.items())


NOTHING = Effect()


class Expected(NamedTuple):
    """The rows that a serial execution of the committed writers gives, by uid: (key, value) and lineage."""

    rows: Mapping[int, tuple[int, int]]
    lineage: Mapping[int, Lineage]

    def after(self, effect: Effect, live: Iterable[Row]) -> Expected:
        """live: the table's rows after the commit, which tell the numbers that the format gave to new versions."""
        if effect is NOTHING:
            return self
        rows = {
            uid: (key, effect.values.get(uid, value))
            for uid, (key, value) in self.rows.items()
            if uid not in effect.removed and key not in effect.keys
        }
        rows |= {row.uid: (row.key, row.value) for row in effect.added}
        fresh = {row.uid: (row.id, row.version) for row in live}
        lineage = {uid: self.lineage[uid] if uid in self.lineage else fresh.get(uid, (None, None)) for uid in rows}
        for uid in effect.values.keys() & rows.keys():
            lineage[uid] = (lineage[uid][0], fresh.get(uid, (None, None))[1])
        return Expected(rows, lineage)

    def check(self, live: Iterable[Row]) -> None:
        """Raise Violation unless the table's rows are these."""
        found: dict[int, Row] = {}
        for row in live:
            if row.uid in found:
                raise Violation("rows doubled", f"{row} is live twice")
            found[row.uid] = row
        if lost := self.rows.keys() - found.keys():
            raise Violation("rows lost", f"{sorted(lost)}")
        if revived := found.keys() - self.rows.keys():
            raise Violation("rows revived", f"{sorted(revived)}")
        for uid, row in found.items():
            if (row.key, row.value) != self.rows[uid]:
                raise Violation("rows changed", f"expected {self.rows[uid]}, found {row}")
            if (row.id, row.version) != self.lineage[uid]:
                raise Violation("lineage lost", f"expected row id and version {self.lineage[uid]}, found {row}")


EMPTY = Expected({}, {})


def renamed(
    expected: Expected, elsewhere: set[int], files: Sequence[Sequence[Row]], live: Sequence[tuple[int, int]]
) -> list[tuple[Row, ...]]:
    """Exchange the hidden identities of rows that look the same, so that those that writers deleted are not live.

    Without row ids, to delete any of them is to delete the row. The rows of other looks keep their identities.

    elsewhere: the identities of the table's other live rows. files: the rows of new files. live: file and position of
    those that are not deleted.
    """
    left: dict[tuple[int, int], list[int]] = {}
    for uid, look in expected.rows.items():
        if uid not in elsewhere and uid not in {files[n][at].uid for n, at in live}:
            left.setdefault(look, []).append(uid)
    rows = [list(of_file) for of_file in files]
    for n, at in live:
        row = rows[n][at]
        look = row.key, row.value
        if row.uid not in expected.rows and left.get(look):
            rows[n][at] = row._replace(uid=left[look].pop())
    return [tuple(of_file) for of_file in rows]
