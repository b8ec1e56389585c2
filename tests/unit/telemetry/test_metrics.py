"""The metrics of commands, as a real collector receives them."""

from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.collector import Collector, values
from support.projects import Cli

import zlayout
from zlayout.planner.model import Plan
from zlayout.planner.run_report import RunReport
from zlayout.telemetry.recorder import as_data

Points = dict[tuple[str, frozenset[tuple[str, object]]], float]


def received(collector: Collector) -> Points:
    """Values by the name of Prometheus and the labels."""
    return {
        (
            name.replace(".", "_"),
            frozenset((key.removeprefix("zlayout."), value) for key, value in values(point.attributes).items()),
        ): getattr(point, point.WhichOneof("value"))
        for name, metric in collector.metrics().items()
        for point in metric.gauge.data_points
    }


@pytest.mark.usefixtures("memory")
def test_they_are_those_of_the_prometheus_file(tmp_path: Path, cli: Cli, collector: Collector) -> None:
    path = tmp_path / "zlayout.prom"
    cli("apply", "--auto-approve", "--report", f"prometheus={path}")
    written = {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(path.read_text())
        for sample in family.samples
    }
    assert received(collector) == written
    metrics = collector.metrics()
    assert len({name for name, _ in written}) == len(metrics) == 10  # nothing is sent of a gauge without values
    assert (metrics["zlayout.table.bytes"].unit, metrics["zlayout.table.files"].unit) == ("By", "{file}")
    assert metrics["zlayout.tables"].description == "Number of tables by status of the plan."


@pytest.mark.usefixtures("root")
def test_the_service_is_that_of_the_environment_or_else_zlayout(
    cli: Cli, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    cli("plan")
    assert [(r["service.name"], r["service.version"]) for r in collector.resources()] == [
        ("zlayout", zlayout.__version__)
    ] * 2
    collector.requests.clear()
    monkeypatch.setenv("OTEL_SERVICE_NAME", "lake")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=test")
    cli("plan")
    assert [(r["service.name"], r["deployment.environment.name"]) for r in collector.resources()] == [
        ("lake", "test")
    ] * 2


@pytest.mark.usefixtures("root")
def test_no_table_of_many_is_left_out() -> None:
    """The SDK would merge the values of more than 2,000 tables into one."""
    table = zlayout.plan(zlayout.load_project()).tables[0]
    plan = Plan("0", tuple(replace(table, table=f"lake.db.t{n}") for n in range(2500)))
    files = next(metric for metric in as_data(RunReport(plan)) if metric.name == "zlayout.table.files")
    assert len(files.data.data_points) == 2500
