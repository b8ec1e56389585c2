"""The report formats by name. Each is a pure function from a plan or run report to text."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from zlayout.errors import SpecError
from zlayout.planner import document
from zlayout.planner.model import Plan
from zlayout.planner.run_report import RunReport
from zlayout.report import markdown, text


def _render_of(name: str) -> Callable[[Plan | RunReport], str]:
    def render(report: Plan | RunReport) -> str:
        return str(import_module(f"zlayout.report.{name}").render(report))

    return render


REPORTERS: Mapping[str, Callable[[Plan | RunReport], str]] = {
    "text": text.render,
    "json": document.to_json,
    "markdown": markdown.render,
    "github": _render_of("github"),
    "sarif": _render_of("sarif"),
    "junit": _render_of("junit"),
    "html": _render_of("html"),
    "prometheus": _render_of("prometheus"),
}
# The extra of zlayout that a format needs, and its packages.
_EXTRAS = {"html": ("report", "jinja2"), "prometheus": ("metrics", "prometheus_client")}


def check_available(name: str) -> None:
    """Raise SpecError ZL062 if the format needs a package that is not installed."""
    extra, *packages = _EXTRAS.get(name, ("",))
    try:
        for package in packages:
            import_module(package)
    except ImportError as error:
        raise SpecError.of(
            "ZL062",
            f"the {name} report needs a package that is not installed: {error.name}",
            hint=f"run pip install 'zlayout[{extra}]'",
        ) from error
