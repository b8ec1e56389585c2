"""An Airflow DAG with two tasks: the first writes a plan file, and the second applies exactly this plan.

Put it into the DAGs folder and set ZLAYOUT_PROJECT to the project's folder. Both tasks need access to the folder of the
plan files, ZLAYOUT_PLANS. A stale plan is refused; then clear both tasks, because a retry of the second one would be
refused again.
"""

import logging
import os
from pathlib import Path

from airflow.sdk import dag, get_current_context, task

import zlayout

log = logging.getLogger(__name__)


def load() -> zlayout.Project:
    return zlayout.load_project(os.environ["ZLAYOUT_PROJECT"])


@task
def plan_layouts() -> str:
    """Plan all tables; the result is the path of the plan file."""
    plan = zlayout.plan(load())
    name = "".join(c if c.isalnum() else "-" for c in get_current_context()["run_id"])
    path = Path(os.environ.get("ZLAYOUT_PLANS", "."), f"plan-{name}.json")
    zlayout.write_plan(plan, path)
    for table in plan.tables:
        log.info("%s: %s, %s bytes to rewrite", table.table, table.status, f"{table.rewrite_bytes:,}")
    return str(path)


@task
def apply_plan(path: str) -> None:
    """Apply the plan file on Spark; the task fails if a table is not as declared afterwards."""
    plan = zlayout.read_plan(load(), path)
    report = zlayout.apply(plan, on_event=lambda event: log.info("%s", event))
    if report.failed:
        problems = [str(problem) for found in report.failed.values() for problem in found]
        raise RuntimeError(f"not as declared: {', '.join(report.failed)}: {'; '.join(problems)}")


@dag(schedule="@daily", catchup=False, tags=["zlayout"])
def layouts() -> None:
    """Bring all tables to their declared layouts."""
    apply_plan(plan_layouts())


layouts()
