"""SIGKILL to the JVM, to Python or to both while `apply` runs: the table is as it was or has whole commits more.

Each case is a process of its own. After it the rows are read without Spark, what the run left behind is looked for, and
`apply` runs again.
"""

import json
import os
from itertools import product
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from reliability import count
from spark.kills.killed_apply import POINTS, REBASED
from spark.kills.runs import ROWS, KilledRun, backend_in, killed_run
from spark.projects import DELTA, ICEBERG
from support.runs import plan_and_apply
from support.unreferenced import unreferenced

from zlayout.session.results import Applied
from zlayout.spec.load import load_project

VICTIMS = ("jvm", "python", "both")
# Eight points in `make test`, each on one format with one victim; all of them in `make test-long`.
MORE = {
    "before settings",
    "after settings",
    "before sampling",
    "while sampling",
    "placed",
    "before the gate",
    "after the gate",
} | {
    "1 ms into the commit",
    "80 ms into the commit",
    "looking again",
    "rebase: deletes found",
    "rebase: rows found",
    "rebase: deletes written",
    "rebase: before the commit",
}
DAILY = {
    ((DELTA, ICEBERG)[number % 2], point, VICTIMS[number % 3])
    for number, point in enumerate(point for point in POINTS if point not in MORE)
}
CASES = [
    pytest.param(*case, marks=() if case in DAILY else pytest.mark.long)
    for case in product((DELTA, ICEBERG), POINTS, VICTIMS)
]
# How many of its two rewrites a run may have committed when it was killed. Its settings are one commit more.
COMMITTED = {point: {0, 1} if "into the commit" in point else {0} for point in POINTS} | {
    "answer lost": {1},
    "second group written": {1},
    "second answer lost": {2},
    "looking again": {2},
    "rebase: answer lost": {1},
}
# Here files have been written that no commit names.
LITTERED = {"while writing", "before the gate", "after the gate", "before the commit", "second group written"} | {
    point for point in POINTS if point.startswith(REBASED) and point != "rebase: answer lost"
}


@pytest.mark.parametrize(("table", "point", "victim"), CASES)
def test_a_killed_run_leaves_whole_commits_only(
    table: str, point: str, victim: str, tmp_path: Path, spark: SparkSession
) -> None:
    run = killed_run(table, point, victim, tmp_path)
    code, out, err = run.code, run.out, run.err
    count("kills")

    assert "Traceback" not in err, err[-3000:]
    if victim == "jvm":
        last = json.loads(out.splitlines()[-1])
        assert last["type"] == "change_summary", out[-2000:]
        # looking at a table needs no JVM: a run that has committed all ends well without it
        assert (code, "ZL3" in out) == ((0, False) if COMMITTED[point] == {2} else (1, True)), out[-2000:]
    else:
        assert code == -9

    done, rows = run.rewrites(), ROWS
    assert done in COMMITTED[point]
    if point.startswith(REBASED):
        rows = ROWS.filter([n % 100 != 3 for n in ROWS["id"].to_pylist()])
    assert run.project.rows(table).equals(rows)
    assert all(path.exists() for path in run.project.files(table))
    project = load_project(run.project.root, os.environ)
    catalog, name = project.catalogs[table.partition(".")[0]], project.layouts[0].table
    littered = unreferenced(catalog, name)
    if point in LITTERED:
        assert littered

    again = _apply(run, spark)
    assert again.error is None
    assert again.after.status == "unchanged", (again.after.decay, again.after.groups, again.failures)
    assert run.rewrites() == 2
    assert run.project.rows(table).equals(rows)
    assert set(littered) <= set(unreferenced(catalog, name)), "none was deleted"


def _apply(run: KilledRun, spark: SparkSession) -> Applied:
    """Plan and apply in this process, in a session with the run's catalogs."""
    with backend_in(spark, run.project.root) as (spec, backend):
        return plan_and_apply(spec, backend)[1]
