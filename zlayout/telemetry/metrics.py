"""The gauges of a report under the names of OpenTelemetry."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from zlayout.planner.run_report import RunReport
from zlayout.report.gauges import Gauge, gauges

if TYPE_CHECKING:
    from opentelemetry.metrics import Meter
    from opentelemetry.sdk.metrics.export import Metric


def set_gauges(meter: Meter, report: RunReport) -> None:
    """Set the gauges of a meter of the application."""
    for gauge in gauges(report):
        instrument = meter.create_gauge(_name(gauge), gauge.unit, gauge.text)
        for attributes, value in _points(gauge):
            instrument.set(value, attributes)


def as_data(report: RunReport) -> list[Metric]:
    """Return the gauges as data to send. The SDK would limit the number of tables: it keeps 2,000 values per gauge."""
    from opentelemetry.sdk.metrics import export

    now = time.time_ns()
    return [
        export.Metric(
            _name(gauge),
            gauge.text,
            gauge.unit,
            export.Gauge([export.NumberDataPoint(attributes, now, now, value) for attributes, value in _points(gauge)]),
        )
        for gauge in gauges(report)
        if gauge.values
    ]


def _name(gauge: Gauge) -> str:
    """Return the name: `zlayout.table.files` of `table_files`."""
    return f"zlayout.{gauge.name.replace('table_', 'table.', 1)}"


def _points(gauge: Gauge) -> Iterator[tuple[dict[str, str], float]]:
    names = [f"zlayout.{label}" for label in gauge.labels]
    for labels, value in gauge.values.items():
        yield dict(zip(names, labels, strict=True)), value
