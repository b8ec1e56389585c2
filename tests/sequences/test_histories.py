"""Random histories of a table: after each apply the plan is empty, whatever was appended, deleted and declared."""

from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from support.builders import make_layout, make_spec
from support.memory_format.backend import MemoryBackend
from support.memory_format.store import MemoryCatalog, MemoryTable
from support.runs import plan_and_apply

from zlayout.spec.model import LayoutSpec, Tolerance

BYTES_PER_ROW = 24
MOST = 10**6  # a value

T = TypeVar("T")


class History:
    """A table of random size, layout and tolerance, and what happens to it.

    keys: "uniform"; "correlated", b follows a; "skewed", a few values of a have most rows and b has three values;
    "mixed", each append has keys of another kind.
    """

    def __init__(self, seed: int, keys: str) -> None:
        self._random = np.random.default_rng(seed)
        self._keys = keys
        self._partitions = self._any(1, 2, 3)
        self._rows_a_file = self._any(20, 100, 400)
        first = self._rows(self._rows_a_file * self._any(*range(2, 40)), MOST)
        self._table = MemoryTable(first.schema, ["part"] if self._partitions > 1 else [])
        self._table.append(first, self._any(*range(1, 30)))
        self._backend = MemoryBackend(MemoryCatalog({"db.t": self._table}))
        self._spec = self._declared()

    def change(self) -> None:
        """One to four appends of a few or many rows, here or everywhere, and deletes."""
        for _ in range(self._any(1, 2, 3, 4)):
            if self._any(0.0, 0.3, 0.6, 0.9) < 0.9:
                rows = max(1, round(self._rows_a_file * self._any(0.02, 0.1, 0.3, 0.6, 1.0, 3.0)))
                self._table.append(self._rows(rows, self._any(10**3, 10**5, 3 * 10**5, MOST)), self._any(1, 2, 3))
            else:
                low = int(self._random.integers(0, MOST))
                self._table.delete((pc.field("a") >= low) & (pc.field("a") < low + self._any(10**4, 10**5)))

    def apply(self) -> None:
        _, applied = plan_and_apply(self._spec, self._backend)
        assert applied.after.status == "unchanged", applied.after.decay

    def _any(self, *values: T) -> T:
        return values[int(self._random.integers(len(values)))]

    def _rows(self, count: int, width: int) -> pa.Table:
        low = [int(self._random.integers(0, MOST + 1 - width)) for _ in range(2)]
        columns = {name: self._random.integers(at, at + width, count) for name, at in zip("ab", low, strict=True)}
        keys = self._any("uniform", "correlated", "skewed") if self._keys == "mixed" else self._keys
        if keys == "correlated":
            columns["b"] = columns["a"] + self._random.integers(0, MOST // 100, count)
        elif keys == "skewed":
            heavy = self._random.choice(4, count, p=(0.2, 0.1, 0.05, 0.65))
            columns["a"] = np.where(heavy < 3, MOST // 2 + heavy, columns["a"])
            columns["b"] = self._random.choice(3, count, p=(0.7, 0.2, 0.1))
        return pa.table({**columns, "part": self._random.integers(0, self._partitions, count)})

    def _declared(self) -> LayoutSpec:
        columns = self._any("a", "ab", "ab")
        size = BYTES_PER_ROW * self._rows_a_file
        tolerance = Tolerance(
            touched=self._any(1.2, 1.5, 2.0),
            unclustered=self._any(0.05, 0.1, 0.3),
            small_files=self._any(0.05, 0.1, 0.3, 0.5),
            deleted_rows=self._any(0.05, 0.1, 0.3),
        )
        return make_spec(
            make_layout(*columns, target_size=size),
            "mem.db.t",
            tolerance=tolerance,
            max_group_size=self._any(None, None, None, 3 * size, 8 * size),
        )


def run(seed: int, keys: str = "uniform") -> None:
    history = History(seed, keys)
    history.apply()
    for _ in range(7):
        history.change()
        history.apply()


# 84 and 299: few files, of which touched is predicted badly
@pytest.mark.parametrize("seed", [*range(40), 84, 299])
def test_one_apply_is_enough(seed: int) -> None:
    run(seed)


@pytest.mark.parametrize("keys", ["correlated", "skewed", "mixed"])
@pytest.mark.parametrize("seed", range(12))
def test_one_apply_is_enough_for_keys_that_theory_does_not_know(seed: int, keys: str) -> None:
    run(seed, keys)


@pytest.mark.long
@pytest.mark.parametrize("keys", ["uniform", "correlated", "skewed", "mixed"])
@pytest.mark.parametrize("part", range(10))
def test_one_apply_is_enough_for_many(part: int, keys: str) -> None:
    for seed in range(1000 + 20 * part, 1020 + 20 * part):  # a history takes about 2 s
        run(seed, keys)
