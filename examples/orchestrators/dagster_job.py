"""A Dagster job with two steps: the first writes a plan file, and the second applies exactly this plan.

Set ZLAYOUT_PROJECT to the project's folder, and run it with `dagster dev -f dagster_job.py`. A stale plan is refused,
so an approval can be inserted between the steps.
"""

import os
from pathlib import Path

import dagster

import zlayout


def load() -> zlayout.Project:
    return zlayout.load_project(os.environ["ZLAYOUT_PROJECT"])


@dagster.op
def plan_layouts(context: dagster.OpExecutionContext) -> str:
    """Plan all tables; the result is the path of the plan file."""
    plan = zlayout.plan(load())
    folder = Path(os.environ.get("ZLAYOUT_PLANS", "."))
    path = folder / f"plan-{context.run_id}.json"
    zlayout.write_plan(plan, path)
    for table in plan.tables:
        context.log.info(f"{table.table}: {table.status}, {table.rewrite_bytes:,} bytes to rewrite")
    return str(path)


@dagster.op
def apply_plan(context: dagster.OpExecutionContext, path: str) -> None:
    """Apply the plan file on Spark; the op fails if a table is not as declared afterwards."""
    plan = zlayout.read_plan(load(), path)
    report = zlayout.apply(plan, on_event=lambda event: context.log.info(str(event)))
    failed = {table: "; ".join(map(str, problems)) for table, problems in report.failed.items()}
    if failed:
        raise dagster.Failure("tables are not as declared", metadata=failed)


@dagster.job
def layouts() -> None:
    """Bring all tables to their declared layouts."""
    apply_plan(plan_layouts())


defs = dagster.Definitions(
    jobs=[layouts], schedules=[dagster.ScheduleDefinition(job=layouts, cron_schedule="0 3 * * *")]
)
