"""Write the report as metrics of Prometheus, in the text format that node_exporter reads from files."""

from __future__ import annotations

from zlayout.planner.model import Plan
from zlayout.planner.run_report import RunReport
from zlayout.report.gauges import gauges


def render(shown: Plan | RunReport) -> str:
    """Render gauges for each table, of its state before the run, and what apply did. Needs the extra `metrics`."""
    import prometheus_client

    registry = prometheus_client.CollectorRegistry()
    for gauge in gauges(shown):
        family = prometheus_client.Gauge(f"zlayout_{gauge.name}", gauge.text, gauge.labels, registry=registry)
        for labels, value in gauge.values.items():
            family.labels(*labels).set(value)
    return prometheus_client.generate_latest(registry).decode()
