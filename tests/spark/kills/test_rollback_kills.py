"""SIGKILL to the JVM, to Python or to both during `rollback` of a run of two commits: all of it is undone, or nothing.

Each case is a process of its own. After it the rows are read without Spark, and the rollback is made again.
"""

from itertools import product
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from reliability import count
from spark.kills.killed_rollback import POINTS
from spark.kills.runs import ROWS, backend_in, killed, project_of
from spark.projects import DELTA, ICEBERG
from support.runs import plan_and_apply

from zlayout.errors import Refused
from zlayout.planner.work import PlanOptions
from zlayout.session.plan import plan_table

VICTIMS = ("jvm", "python", "both")
# Four cases in `make test`; all of them in `make test-long`.
DAILY = {
    (DELTA, "before the commit", "python"),
    (DELTA, "20 ms into the commit", "jvm"),
    (ICEBERG, "20 ms into the commit", "both"),
    (ICEBERG, "answer lost", "python"),
}
CASES = [
    pytest.param(*case, marks=() if case in DAILY else pytest.mark.long)
    for case in product((DELTA, ICEBERG), POINTS, VICTIMS)
]
UNDONE = {point: {False, True} if "into the commit" in point else {False} for point in POINTS} | {
    "answer lost": {True},
    "before the end": {True},
}


@pytest.mark.parametrize(("table", "point", "victim"), CASES)
def test_a_killed_rollback_undoes_the_whole_run_or_nothing(
    table: str, point: str, victim: str, tmp_path: Path, spark: SparkSession
) -> None:
    project = project_of(table, tmp_path)
    before = set(project.files(table))
    with backend_in(spark, project.root) as (spec, backend):
        _, applied = plan_and_apply(spec, backend)
    after = set(project.files(table))
    assert [commit.kind for commit in applied.commits].count("rewrite") == 2
    assert before.isdisjoint(after)

    run = killed(project, table, "killed_rollback.py", point, victim)
    count("kills")
    assert "Traceback" not in run.err, run.err[-3000:]
    now = set(project.files(table))
    assert now in (before, after)
    undone = now == before
    assert undone in UNDONE[point]
    assert project.rows(table).equals(ROWS)
    if victim == "jvm":  # Python lives, and must not state what is not so
        done = run.code == 0
        assert done <= undone, run.out[-2000:]
        assert done or run.code == 1
        assert done or "ZL3" in run.err, run.err[-2000:]
        assert done or not undone or "ZL331" in run.err, run.err[-2000:]
    else:
        assert run.code == -9

    with backend_in(spark, project.root) as (spec, backend):
        if not undone:
            undo = backend.undo(spec.table, None)
            assert undo.run_id == applied.run_id
            backend.roll_back(undo, "again", {}, lambda _: None)
        version = project.version(table)
        with pytest.raises(Refused, match="ZL231"):
            backend.undo(spec.table, None)
        assert set(project.files(table)) == before
        assert project.rows(table).equals(ROWS)
        assert all(path.exists() for path in before | after), "nothing was deleted"
        planned = plan_table(spec, backend, PlanOptions()).plan
        assert (planned.status, len(planned.groups)) == ("changes", 2)
        assert project.version(table) == version
