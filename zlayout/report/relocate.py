"""Change the locations of a report to be relative to another folder than the working directory."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from zlayout.errors import Location
from zlayout.planner.model import Plan
from zlayout.planner.run_report import RunReport


def seen_from(shown: Plan | RunReport, below: str) -> RunReport:
    """Return the report with the folder `below` in front of its relative paths; '' changes nothing."""
    report = RunReport.of(shown)
    return report if below in ("", ".") else _moved(report, below)


def _moved(value: Any, below: str) -> Any:
    """Copy plain data and prefix the path of each `Location`. Absolute paths are not changed."""
    if isinstance(value, Location):
        return replace(value, path=posixpath.normpath(posixpath.join(below, value.path)))
    if isinstance(value, tuple):
        return tuple(_moved(item, below) for item in value)
    if isinstance(value, Mapping):
        return {key: _moved(item, below) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: _moved(getattr(value, field.name), below) for field in fields(value)})
    return value
