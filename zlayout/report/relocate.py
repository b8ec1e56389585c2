"""A report whose locations are relative to another folder than the one that zlayout runs in."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from zlayout.errors import Location
from zlayout.planner.model import Plan
from zlayout.planner.run_report import RunReport


def seen_from(shown: Plan | RunReport, below: str) -> RunReport:
    """The same report with its relative paths put below the folder `below`; '' leaves them as they are."""
    report = RunReport.of(shown)
    return report if below in ("", ".") else _moved(report, below)


def _moved(value: Any, below: str) -> Any:
    """A copy of plain data in which each `Location` is moved. Joining leaves an absolute path as it is."""
    if isinstance(value, Location):
        return replace(value, path=posixpath.normpath(posixpath.join(below, value.path)))
    if isinstance(value, tuple):
        return tuple(_moved(item, below) for item in value)
    if isinstance(value, Mapping):
        return {key: _moved(item, below) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{field.name: _moved(getattr(value, field.name), below) for field in fields(value)})
    return value
