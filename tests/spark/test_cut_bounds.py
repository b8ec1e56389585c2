"""Keys that agree in more characters than the formats keep in a bound: one apply makes them worth skipping by."""

import numpy as np
import pyarrow as pa
import pytest
from contract import Contract
from demo import scanned_files
from spark.arenas import SparkArena
from support.ranges import files_touched

from zlayout.planner.model import Reason, TablePlan
from zlayout.session.sampling import SAMPLE_BYTES, sampled
from zlayout.table.state import TableState

FILES = 8
HOST = "https://www.example.com/en-gb/catalogue/home-and-garden/outdoor/furniture/"
PROPERTY = {
    "delta": ("delta.dataSkippingStringPrefixLength", "256"),
    "iceberg": ("write.metadata.metrics.column.url", "truncate(256)"),
}


def urls(count: int, *, start: int = 0) -> pa.Table:
    """Distinct addresses that agree in their first 74 characters, in random order."""
    random = np.random.default_rng(start + 5)
    items = random.permutation(np.arange(start, start + count))
    return pa.table(
        {
            "id": pa.array(np.arange(start, start + count), pa.int64()),
            "url": pa.array([f"{HOST}{n % 7}/chair-{n:07}?ref=home" for n in items], pa.string()),
        }
    )


ROWS = urls(4000)


class UrlContract(Contract):
    rows = len(ROWS)
    files = FILES
    __test__ = False


def test_one_apply_makes_bounds_distinct(arena: SparkArena) -> None:
    contract = UrlContract()
    arena.create(ROWS, FILES)
    spec = contract.spec(arena, ("url",))
    before = contract.plan(arena, spec)
    assert _queried(arena, before.state) == [FILES] * 3

    name, value = PROPERTY[before.state.format]
    plan = before.plan
    assert [(p.name, p.before, p.after) for p in plan.properties] == [(name, None, value)]
    assert "ZL406" in _codes(plan)

    contract.apply(arena, before)
    after = contract.plan(arena, spec)
    assert after.state.properties[name] == value
    url = after.state.column("url")
    assert url.bound_length == 256
    assert after.plan.status == "unchanged"
    assert _codes(after.plan) == set()
    assert _queried(arena, after.state) == [1, 1, 1]
    (column,) = after.plan.columns
    assert column.truncated == 0
    assert column.touched == pytest.approx(column.floor, rel=0.05)

    again = contract.apply(arena, after)
    assert again.commits == []
    assert arena.backend.observe(arena.table, ()).version == after.state.version
    assert arena.rows().sort_by("id")["url"].to_pylist() == ROWS["url"].to_pylist()


def test_a_sample_makes_bounds_as_long_as_they_need_to_be(arena: SparkArena) -> None:
    contract = UrlContract()
    arena.create(ROWS, FILES)
    spec = contract.spec(arena, ("url",))
    before = contract.plan(arena, spec)
    decision = sampled(before, arena.backend, SAMPLE_BYTES, planning=True)
    (change,) = decision.plan.properties
    name, value = PROPERTY[before.state.format]
    assert (change.name, change.after) == (name, value.replace("256", "112"))  # 84 characters differ, and a margin
    contract.apply(arena, decision)
    after = contract.plan(arena, spec)
    assert after.state.properties[name] == change.after
    assert after.plan.status == "unchanged"
    assert _queried(arena, after.state) == [1, 1, 1]
    arena.append(urls(4000, start=4000), FILES)
    assert contract.plan(arena, spec).plan.properties == ()


def test_identical_beginnings_of_a_thousand_characters_end_in_an_empty_plan(arena: SparkArena) -> None:
    contract = UrlContract()
    long = pa.table({"id": ROWS["id"], "url": pa.array(["x" * 1000 + url for url in ROWS["url"].to_pylist()])})
    arena.create(long, FILES)
    spec = contract.spec(arena, ("url",))
    contract.apply(arena, contract.plan(arena, spec))
    after = contract.plan(arena, spec)
    assert after.plan.status == "unchanged"
    assert _codes(after.plan) == {"ZL406"}
    assert _queried(arena, after.state, long)[0] == len(after.state.files)
    assert contract.apply(arena, after).commits == []


def test_a_laid_out_table_is_rewritten_once_for_its_bounds(arena: SparkArena) -> None:
    """As an older release, or a person who took the property back, leaves it."""
    contract = UrlContract()
    arena.create(ROWS, FILES)
    spec = contract.spec(arena, ("url",))
    first = contract.plan(arena, spec)
    plan = first.plan
    short = first.with_actions(*plan.groups)
    contract.apply(arena, short)
    cut = contract.plan(arena, spec)
    assert _queried(arena, cut.state) == [len(cut.state.files)] * 3
    assert {g.reason for g in cut.plan.groups} == {Reason.BOUNDS_TRUNCATED}
    assert len(cut.plan.properties) == 1
    contract.apply(arena, cut)
    done = contract.plan(arena, spec)
    assert done.state is not None
    assert done.plan.status == "unchanged"
    assert _queried(arena, done.state) == [1, 1, 1]


def _codes(plan: TablePlan) -> set[str]:
    return {d.code for d in plan.diagnostics}


def _queried(arena: SparkArena, state: TableState, rows: pa.Table = ROWS) -> list[int]:
    """Files that Spark reads for three equality queries, which must be those that the bounds name."""
    session = arena.runtime.session
    session.conf.set("spark.sql.adaptive.enabled", "false")
    measured, expected = [], []
    for row in (3, 1777, 3999):
        value = rows["url"][row].as_py()
        query = arena.read().where(f"url = '{value}'").selectExpr("count(*)", "max(id)")
        assert query.collect()[0][0] == 1
        measured.append(scanned_files(query._jdf.queryExecution().executedPlan()))
        expected.append(int(files_touched(state.files, {"url": (value, value)}).sum()))
    session.conf.unset("spark.sql.adaptive.enabled")
    assert measured == expected
    return measured
