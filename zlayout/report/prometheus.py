"""Write the report as metrics of Prometheus, in the text format that node_exporter reads from files."""

from __future__ import annotations

from zlayout.errors import SpecError
from zlayout.planner.model import Plan
from zlayout.planner.run_report import RunReport
from zlayout.report.gauges import gauges


def check_available() -> None:
    """Raise SpecError ZL062 if the package of the extra `metrics` is not installed."""
    try:
        import prometheus_client  # noqa: F401
    except ImportError as error:
        raise SpecError.of(
            "ZL062",
            f"the prometheus report needs a package that is not installed: {error.name}",
            hint="run pip install 'zlayout[metrics]'",
        ) from error


def render(shown: Plan | RunReport) -> str:
    """Render gauges for each table, of its state before the run, and what apply did. Raises SpecError ZL062."""
    check_available()
    import prometheus_client

    registry = prometheus_client.CollectorRegistry()
    for gauge in gauges(shown):
        family = prometheus_client.Gauge(f"zlayout_{gauge.name}", gauge.text, gauge.labels, registry=registry)
        for labels, value in gauge.values.items():
            family.labels(*labels).set(value)
    return prometheus_client.generate_latest(registry).decode()
