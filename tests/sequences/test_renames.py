"""A table whose key columns are renamed, swapped, dropped from the layout and renamed back, with applies in between."""

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from support.builders import make_layout, make_spec
from support.memory_format.backend import MemoryBackend
from support.memory_format.store import MemoryCatalog, MemoryTable
from support.runs import plan_and_apply

from zlayout.planner.work import PlanOptions
from zlayout.session.plan import plan_table
from zlayout.spec.model import LayoutSpec

NAMES = ("a", "b", "c", "d")


def spec_by(*columns: str) -> LayoutSpec:
    return make_spec(make_layout(*columns, target_size=3 * 8 * 100), "mem.db.t")


def rows(count: int, random: np.random.Generator, names: tuple[str, ...]) -> pa.Table:
    return pa.table({name: random.integers(0, 10**6, count) for name in names})


@pytest.mark.parametrize("seed", range(12))
def test_names_come_and_go_and_one_apply_is_enough(seed: int) -> None:
    random = np.random.default_rng(seed)
    names = ("a", "b", "other")
    stored = MemoryTable(rows(0, random, names).schema)
    stored.append(rows(2000, random, names), 12)
    backend = MemoryBackend(MemoryCatalog({"db.t": stored}))
    keys = ["a"] if random.random() < 0.5 else ["a", "b"]
    for _ in range(8):
        _, applied = plan_and_apply(spec_by(*keys), backend)
        assert applied.after.status == "unchanged"
        match int(random.integers(4)):
            case 0:  # a rename that the layout follows
                free = [name for name in NAMES if name not in stored.current.schema.names]
                old, new = keys[0], str(random.choice(free))
                stored.rename({old: new})
                keys[0] = new
                assert plan_table(spec_by(*keys), backend, PlanOptions()).plan.status == "unchanged"
            case 1:  # a swap that the layout does not follow
                first, second = keys[0], "other"
                stored.rename({first: second, second: first})
                plan = plan_table(spec_by(*keys), backend, PlanOptions()).plan
                assert (plan.status, [d.key for d in plan.drift]) == ("changes", ["zorder.columns"])
            case 2:  # and one that it follows by what is a swap of the layout, too
                first, second = keys[0], "other"
                stored.rename({first: "x", second: first})
                stored.rename({"x": second})
                swapped = replace(spec_by(second, *keys[1:]))
                assert plan_table(swapped, backend, PlanOptions()).plan.status == "unchanged"
                stored.rename({first: second, second: first})
            case _:
                names = tuple(stored.current.schema.names)
                stored.append(rows(int(random.integers(1, 400)), random, names))
