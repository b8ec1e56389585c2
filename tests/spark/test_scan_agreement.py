"""What the metrics say a query touches is what Spark reports as read."""

from typing import Any

from contract import Contract, make_rows
from demo import scanned_files
from spark.arenas import SparkArena
from support.ranges import files_touched

ROWS = make_rows(Contract.rows)
SOME_A = ROWS["a"][17].as_py()
SOME_B = ROWS["b"][1234].as_py()

# A condition for Spark, and the same for files_touched.
QUERIES: list[tuple[str, dict[str, tuple[Any, Any]]]] = [
    (f"a = {SOME_A}", {"a": (SOME_A, SOME_A)}),
    (f"b = '{SOME_B}'", {"b": (SOME_B, SOME_B)}),
    ("a between 20000 and 24000", {"a": (20000, 24000)}),
    ("a <= 3000", {"a": (None, 3000)}),
    ("b >= 'key-095'", {"b": ("key-095", None)}),
    ("a between 20000 and 60000 and b <= 'key-02'", {"a": (20000, 60000), "b": (None, "key-02")}),
    ("a = -1", {"a": (-1, -1)}),
]


def test_files_touched_are_the_files_that_spark_reads(arena: SparkArena) -> None:
    contract = Contract()
    arena.create(ROWS, contract.files)
    before = _compare(arena)
    contract.apply(arena, contract.plan(arena, contract.spec(arena)))
    after = _compare(arena)
    assert sum(after.values()) < sum(before.values())


def _compare(arena: SparkArena) -> dict[str, int]:
    """Both counts for every query, asserted equal."""
    session = arena.runtime.session
    session.conf.set("spark.sql.adaptive.enabled", "false")
    files = arena.backend.observe(arena.table, ("a", "b")).files
    expected, measured = {}, {}
    for condition, ranges in QUERIES:
        query = arena.read().where(condition).selectExpr("count(*)", "max(id)")
        query.collect()
        expected[condition] = int(files_touched(files, ranges).sum())
        measured[condition] = scanned_files(query._jdf.queryExecution().executedPlan())
    session.conf.unset("spark.sql.adaptive.enabled")
    assert measured == expected
    return measured
