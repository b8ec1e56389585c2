"""Plans by hand, with all that a report can meet."""

from zlayout.errors import Diagnostic, Location
from zlayout.planner.model import (
    BytesRead,
    ChangePartitioning,
    ColumnForecast,
    Decay,
    FilesAfter,
    Measure,
    Plan,
    PropertyChange,
    PropertyReason,
    Reason,
    Requirements,
    RewriteGroup,
    SampleFacts,
    SetProperties,
    SettingDrift,
    Status,
    TablePlan,
)
from zlayout.planner.run_report import MeasuredColumn, ResultStatus, RunReport, TableResult

PLACE = Location("layouts/orders.yaml", 3, 1)


def column(name: str, touched: float, predicted: float | None) -> ColumnForecast:
    low, high = (1.0, 615.0) if predicted is None else (0.95 * predicted, 1.05 * predicted)
    read = BytesRead(2**40, None if predicted is None else 2**30, 2**30 - 2**24, 2**30 + 2**24)
    return ColumnForecast(name, touched, predicted, low, high, 1.0, 1.0, 0.0, 0, 0, (), read)


def group(partition: str, reason: Reason = Reason.LAYOUT_CHANGED) -> RewriteGroup:
    return RewriteGroup(partition, partition, 4805, 600 * 2**30, 1000, 615, reason, "d")


ORDERS = TablePlan(
    table="bronze.orders",
    format="delta",
    location=PLACE,
    status=Status.CHANGES,
    requirements=Requirements("id", 1843, "s", "l", (), None, None, ""),
    settings=(("zorder.columns", ["a"]), ("zorder.curve", "kd"), ("files.target_size", 2**27), ("engine", "native")),
    drift=(SettingDrift("zorder.columns", ["customer_id"], ["customer_id", "order_date"], PLACE),),
    actions=(group("day=1"), group("day=2")),
    columns=(column("customer_id", 9610.0, 35.4), column("order_date", 9610.0, 35.4)),
    files=9610,
    partitions=412,
    sample=SampleFacts(120_000, 48, 40, 6 * 2**20, 7),
    files_after=FilesAfter(1230, 1107, 1230, 2**30, 0),
)
EVENTS = TablePlan(
    table="bronze.events",
    format="iceberg",
    location=Location("layouts/events.yaml", 2, 1),
    status=Status.CHANGES,
    requirements=Requirements("id", 5, "s", "l", (), None, None, ""),
    actions=(
        SetProperties(
            (PropertyChange("write.metadata.metrics.column.url", None, "full", PropertyReason.NO_STATISTICS, "url"),)
        ),
        ChangePartitioning(("day(at)",), ("month(at)",), False, None),
        group("", Reason.NOT_LAID_OUT),
        group("west", Reason.DECAYED),
    ),
    decay=(
        Decay(Measure.UNCLUSTERED, 0.234, 0.1),
        Decay(Measure.SMALL_FILES, 0.05, 0.2),
        Decay(Measure.TOUCHED, 1.9, 1.5),
    ),
    files=9610,
    partitions=2,
)
UNCHANGED = TablePlan(
    "bronze.small", "delta", Location("layouts/small.yaml", 2, 1), Status.UNCHANGED, files=3, bytes=3000
)
REFUSED = TablePlan(
    table="gold.clustered",
    format="delta",
    location=Location("layouts/clustered.yaml", 2, 1),
    status=Status.REFUSED,
    diagnostics=(Diagnostic("ZL210", "liquid clustering is on", "refused", "turn it off"),),
)
BROKEN = TablePlan(
    table="gold.missing",
    format="delta",
    location=Location("layouts/missing.yaml", 2, 1),
    status=Status.ERROR,
    diagnostics=(Diagnostic("ZL110", "no table at the location", "error", "check `warehouse`"),),
)
# What a table may be called, or say, to do harm in a terminal, in HTML, XML, Markdown or a workflow command.
EVIL = "a|b`c`<script>alert(1)</script>\x1b[31m\u202e\ufffe@all::error::%0A](x)"
HOSTILE = TablePlan(
    table=EVIL,
    format="delta",
    location=Location(f"layouts/{EVIL}.yaml", 1, 1),
    status=Status.CHANGES,
    drift=(SettingDrift("zorder.columns", [EVIL], [EVIL, "x"], None),),
    actions=(
        SetProperties((PropertyChange(EVIL, EVIL, EVIL, PropertyReason.NO_STATISTICS, EVIL),)),
        group(f"region={EVIL}"),
    ),
    columns=(column(EVIL, 10.0, 2.0),),
    files=4805,
    partitions=2,
    diagnostics=(Diagnostic("ZL403", EVIL, "note", EVIL),),
)
PLAN = Plan("0.1.0", (EVENTS, ORDERS, UNCHANGED, BROKEN, REFUSED))
NOTHING = Plan("0.1.0", (UNCHANGED,))
DONE = TableResult(
    run_id="0" * 32,
    outcome=ResultStatus.AS_DECLARED,
    commits=1,
    files_removed=9610,
    files_added=1228,
    bytes_added=2**40,
    columns=(MeasuredColumn("customer_id", 35.2, 36.0, 35.0, (("33-64", 1228),), 35.4),),
    size_histogram=(("<= 1", 1228),),
)
FAILED = TableResult(
    run_id="1" * 32,
    outcome=ResultStatus.FAILED,
    commits=0,
    files_removed=0,
    files_added=0,
    bytes_added=0,
    problems=(Diagnostic("ZL305", "the disk is full", "error", "free some space"),),
)
APPLIED = RunReport(Plan("0.1.0", (EVENTS, ORDERS, UNCHANGED)), {EVENTS.table: FAILED, ORDERS.table: DONE})


def applied(result: TableResult, table: TablePlan = ORDERS) -> RunReport:
    """What apply did to one table."""
    return RunReport(Plan("0.1.0", (table,)), {table.table: result})
