"""The report formats by name. Each is a pure function from a plan or run report to text."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from zlayout.planner import document
from zlayout.planner.model import Plan
from zlayout.planner.run_report import RunReport
from zlayout.report import github, html, junit, markdown, prometheus, sarif, text

REPORTERS: Mapping[str, Callable[[Plan | RunReport], str]] = {
    "text": text.render,
    "json": document.to_json,
    "markdown": markdown.render,
    "github": github.render,
    "sarif": sarif.render,
    "junit": junit.render,
    "html": html.render,
    "prometheus": prometheus.render,
}


def check_available(name: str) -> None:
    """Raise SpecError ZL062 if the format needs a package that is not installed."""
    if name == "html":
        html.check_available()
    if name == "prometheus":
        prometheus.check_available()
