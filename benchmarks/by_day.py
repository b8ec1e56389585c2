"""Measures the rewrites of a table with one partition per day while late rows arrive, with and without a workload.

Half of the rows of an append are of a new day, and half are late rows of the days before. The queries select a value of
column a in one of the last three days. Results: {write_amplification, read_share_mean, appends}. read_share is the
share of the table that a query opens after the rewrite.

- every_partition restores every decayed partition, at tolerance 1.5x. With rarely_read, those that no query of the
  workload reads wait (tolerance.rarely_read: 0%).
- The others have a budget for each append: budget_touched, budget_touched_more and budget_touched_most rank by touched,
  budget_workload by the queries. budget_touched_most writes about as much as rarely_read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
from growing import KEYS, RANGE, Int64, Table, apply, rows_of, sizes

from zlayout.advisor.costs import costs, in_partitions, queries_on
from zlayout.errors import Location
from zlayout.formats.delta.backend import DeltaBackend
from zlayout.planner.work import PlanOptions
from zlayout.session.plan import plan_tables
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import Layout, LayoutSpec, Project, TableName, Tolerance, ZorderColumn
from zlayout.workload.files import read_workload

DAYS = 15  # before the first append, and of late rows
ASKED_DAYS, QUERIES = 3, 40


@dataclass(frozen=True, slots=True)
class Rule:
    """What is rewritten after each append. budget: a share of the appended bytes; None for no limit."""

    budget: float | None = None
    has_workload: bool = False
    rarely_read: float | None = None


BY_DAY = {
    "every_partition": Rule(),
    "rarely_read": Rule(has_workload=True, rarely_read=0.0),
    "budget_touched": Rule(0.5),
    "budget_touched_more": Rule(0.75),
    "budget_touched_most": Rule(2.0),
    "budget_workload": Rule(0.5, has_workload=True),
}


def run_by_day(
    arm: str, project: Project, runtime: SparkRuntime, appends: int, rows: int, files: int
) -> dict[str, float]:
    """Append to a table of one partition per day, and rewrite what the rule of the arm selects."""
    rule = BY_DAY[arm]
    path, workload, unknown = project.root / "db" / arm, project.root / f"{arm}.sql", project.root / "unknown.sql"
    path.parent.mkdir(exist_ok=True)
    runtime.session.sql(
        f"CREATE TABLE delta.`{path}` (a BIGINT, b BIGINT, payload BINARY, day INT) USING delta PARTITIONED BY (day)"
    )
    backend, name = DeltaBackend(project.catalogs["lake"], runtime), TableName("lake", ("db",), arm)
    table = Table(runtime, backend, name, path, 1, files)
    random = np.random.default_rng(1)
    table.append(_with_days(rows_of(arm, rows, 0, 0), random.integers(0, DAYS, rows)), 1)
    layout = Layout(
        tuple(map(ZorderColumn, KEYS)), "kd", 1000, False, int(table.live().bytes.sum()) // files, True, "zlayout"
    )
    spec = LayoutSpec(table.name, layout, Location("benchmark"), tolerance=Tolerance(rarely_read=rule.rarely_read))
    apply(spec, backend, PlanOptions())
    if rule.has_workload:
        spec = replace(spec, workload=(workload,))
    appended = written = 0
    shares = []
    for number in range(appends):
        before, count, today = sizes(table), rows // 50, DAYS + number
        days = np.where(np.arange(count) < count // 2, today, today - random.integers(1, DAYS, count))
        table.append(_with_days(rows_of(arm, count, number + 1, 0), days), 1)
        fresh = sizes(table)
        size = sum(fresh[file] for file in fresh.keys() - before.keys())
        for file in (workload, unknown):
            file.write_text(_queries(arm, today, random))
        apply(spec, backend, PlanOptions(max_rewrite_bytes=rule.budget and int(rule.budget * size)))
        if rule.budget is None:
            _require_nothing_to_do(spec, backend)
        after = sizes(table)
        appended, written = appended + size, written + sum(after[file] for file in after.keys() - fresh.keys())
        state = backend.observe(name, KEYS)
        asked = in_partitions(queries_on(read_workload([unknown]), name, state).queries, state)
        shares.append(costs(asked, state.files).mean_bytes / sum(after.values()))
        print(f"{arm} {number + 1}: {written / appended:.2f}x written, {shares[-1]:.2%} read", flush=True)
    found = {"write_amplification": round(written / appended, 2), "read_share_mean": round(float(np.mean(shares)), 5)}
    return found | {"appends": appends}


def _require_nothing_to_do(spec: LayoutSpec, backend: DeltaBackend) -> None:
    """Raise RuntimeError if a new plan has changes."""
    (planned,) = plan_tables([spec], {spec.table.catalog: backend})
    if planned.plan.status != "unchanged":
        raise RuntimeError(f"the plan after apply is not empty: {planned.plan}")


def _with_days(rows: pa.Table, days: Int64) -> pa.Table:
    return rows.append_column("day", pa.array(days, pa.int32()))


def _queries(arm: str, today: int, random: np.random.Generator) -> str:
    asked = zip(random.integers(0, ASKED_DAYS, QUERIES), random.integers(0, RANGE, QUERIES), strict=True)
    return "".join(f"SELECT * FROM {arm} WHERE day = {today - day} AND a = {value};\n" for day, value in asked)
