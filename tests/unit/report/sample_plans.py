"""Plans by hand, with all that a report can meet."""

from __future__ import annotations

from dataclasses import replace

from zlayout.errors import Diagnostic, Location
from zlayout.planner.model import (
    ColumnForecast,
    Decay,
    GroupPlan,
    PartitionChange,
    Plan,
    PropertyChange,
    Requires,
    SettingDrift,
    TablePlan,
)
from zlayout.planner.result import MeasuredColumn, TableResult

PLACE = Location("layouts/orders.yaml", 3, 1)


def column(name: str, touched: float, predicted: float | None) -> ColumnForecast:
    return ColumnForecast(name, touched, predicted, 35.07, 1.0, 0.0, 0, 0, ())


def group(partition: str, reason: str = "laid out otherwise") -> GroupPlan:
    return GroupPlan(partition, partition, 4805, 600 * 2**30, 1000, 615, reason)


ORDERS = TablePlan(
    table="bronze.orders",
    format="delta",
    location=PLACE,
    status="changes",
    requires=Requires("id", 1843, "l", "s", "", "f"),
    settings=(("zorder.columns", ["a"]), ("zorder.curve", "kd"), ("files.target_size", 2**27), ("engine", "native")),
    drift=(SettingDrift("zorder.columns", ["customer_id"], ["customer_id", "order_date"], PLACE),),
    groups=(group("day=1"), group("day=2")),
    columns=(column("customer_id", 9610.0, 35.4), column("order_date", 9610.0, 35.4)),
    files=9610,
    partitions=412,
)
EVENTS = TablePlan(
    table="bronze.events",
    format="iceberg",
    location=Location("layouts/events.yaml", 2, 1),
    status="changes",
    requires=Requires("id", 5, "l", "s", "", "f"),
    properties=(PropertyChange("write.metadata.metrics.column.url", None, "full", "no min/max statistics on url"),),
    partitioning=PartitionChange(("day(at)",), ("month(at)",), False, None),
    groups=(group("", "not laid out yet"), group("west", "decayed")),
    decay=(Decay("unclustered", 0.234, 0.1), Decay("small_files", 0.05, 0.2), Decay("touched", 1.9, 1.5)),
    files=9610,
    partitions=2,
)
UNCHANGED = TablePlan("bronze.small", "delta", Location("layouts/small.yaml", 2, 1), "unchanged", files=3, bytes=3000)
REFUSED = TablePlan(
    table="gold.clustered",
    format="delta",
    location=Location("layouts/clustered.yaml", 2, 1),
    status="refused",
    diagnostics=(Diagnostic("ZL210", "liquid clustering is on", "refused", "turn it off"),),
)
BROKEN = TablePlan(
    table="gold.missing",
    format="delta",
    location=Location("layouts/missing.yaml", 2, 1),
    status="error",
    diagnostics=(Diagnostic("ZL110", "no table at the location", "error", "check `warehouse`"),),
)
# What a table may be called, or say, to do harm in a terminal, in HTML, XML, Markdown or a workflow command.
EVIL = "a|b`c`<script>alert(1)</script>\x1b[31m\u202e\ufffe@all::error::%0A](x)"
HOSTILE = TablePlan(
    table=EVIL,
    format="delta",
    location=Location(f"layouts/{EVIL}.yaml", 1, 1),
    status="changes",
    drift=(SettingDrift("zorder.columns", [EVIL], [EVIL, "x"], None),),
    properties=(PropertyChange(EVIL, EVIL, EVIL, EVIL),),
    groups=(group(f"region={EVIL}"),),
    columns=(column(EVIL, 10.0, 2.0),),
    files=4805,
    partitions=2,
    diagnostics=(Diagnostic("ZL403", EVIL, "note", EVIL),),
)
PLAN = Plan("0.1.0", (EVENTS, ORDERS, UNCHANGED, BROKEN, REFUSED))
NOTHING = Plan("0.1.0", (UNCHANGED,))
DONE = replace(
    ORDERS,
    result=TableResult(
        run_id="0" * 32,
        outcome="as_declared",
        commits=1,
        files_removed=9610,
        files_added=1228,
        bytes_added=2**40,
        columns=(MeasuredColumn("customer_id", 35.2, 36.0, 35.0, (("33-64", 1228),)),),
        size_histogram=(("<= 1", 1228),),
    ),
)
FAILED = replace(
    EVENTS,
    result=TableResult(
        "1" * 32, "failed", 0, 0, 0, 0, problems=(Diagnostic("ZL305", "the disk is full", "error", "free some space"),)
    ),
)
APPLIED = Plan("0.1.0", (FAILED, DONE, UNCHANGED))
