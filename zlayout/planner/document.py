"""The plan file: `Plan` as JSON and back. The same JSON is the report of format `json`."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

from zlayout.errors import Location, Refused, SpecError
from zlayout.message_text import escaped
from zlayout.planner.coherent import incoherence
from zlayout.planner.model import FORMAT_VERSION, Plan, summary
from zlayout.planner.run_report import RunReport
from zlayout.planner.typed import MismatchError, typed
from zlayout.reading import parse_json, read_at_most

MAX_BYTES = 10 * 1024 * 1024
# A value takes more memory than its text. So many may be in any file, and above that one for each so many characters,
# a list counted as three and an object as twelve; the densest parts of a plan, groups and pictures, have fewer.
FREE_VALUES, CHARACTERS_A_VALUE = 180_000, 5
HINT = "a plan file is what `zlayout plan --out FILE` writes; do not edit it"


def to_json(shown: Plan | RunReport) -> str:
    """The plan, results and pictures as indented JSON with a `summary`; stable order, ASCII, ends with a newline."""
    report = RunReport.of(shown)
    plan, body = report.plan, dataclasses.asdict(report.plan)
    document = {
        "format_version": body.pop("format_version"),
        "zlayout_version": body.pop("zlayout_version"),
        "exit_code": plan.exit_code,
        "has_changes": plan.has_changes,
        "summary": dataclasses.asdict(summary(plan.tables)),
        **body,
        "results": {name: dataclasses.asdict(result) for name, result in report.results.items()},
        "pictures": {name: dataclasses.asdict(picture) for name, picture in report.pictures.items()},
    }
    text = json.dumps(document, indent=2, allow_nan=False)
    # Lists of numbers on one line each. No string of JSON holds a newline, so that none can look like such a list.
    return (
        re.sub(r"\[\n[\s\d,-]*\]", lambda m: "[" + ", ".join(m[0][1:-1].replace(",", " ").split()) + "]", text) + "\n"
    )


def from_json(text: str, path: str) -> RunReport:
    """The report that `to_json` wrote. Raises SpecError ZL040 or ZL041 for what is not one, naming the place.

    Raises Refused ZL206 for a plan of another version of the format.
    """
    document = _parse(text, path)
    if "format_version" not in document:
        raise SpecError.of("ZL041", "not a plan file: it has no format_version", hint=HINT, location=Location(path))
    found = document["format_version"]
    if type(found) is not int or found != FORMAT_VERSION:
        raise Refused.of(
            "ZL206",
            f"this is a plan of format {_short(found)}, expected {FORMAT_VERSION}",
            hint="make the plan again with this version of zlayout",
            location=Location(path),
        )
    for derived in ("summary", "exit_code", "has_changes"):
        document.pop(derived, None)
    try:
        parts = {"results": document.pop("results", {}), "pictures": document.pop("pictures", {})}
        report: RunReport = typed({"plan": document, **parts}, RunReport)
    except MismatchError as error:
        message = f"not a plan file: {escaped(str(error))}"
        raise SpecError.of("ZL041", message, hint=HINT, location=Location(path)) from None
    if wrong := incoherence(report):
        raise SpecError.of("ZL041", f"not a plan file: {escaped(wrong)}", hint=HINT, location=Location(path))
    return report


def read(path: Path) -> RunReport:
    """The plan in the file at `path`. Raises SpecError ZL040 when it cannot be read."""
    try:
        content = read_at_most(path, MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise SpecError.of("ZL040", f"the file is larger than {MAX_BYTES} bytes", location=Location(str(path)))
        text = content.decode("utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not UTF-8 text"
        raise SpecError.of(
            "ZL040",
            f"cannot read the plan file: {reason}",
            hint="write one with `zlayout plan --out FILE`",
            location=Location(str(path)),
        ) from error
    del content
    return from_json(text, str(path))


def _parse(text: str, path: str) -> dict[str, Any]:
    values = text.count(",") + 3 * text.count("[") + 12 * text.count("{")
    if values > FREE_VALUES + len(text) / CHARACTERS_A_VALUE:
        raise SpecError.of("ZL041", f"not a plan file: {values:,} values in it", hint=HINT, location=Location(path))
    try:
        document = parse_json(text)
    except ValueError as error:
        place = Location(path, getattr(error, "lineno", 0), getattr(error, "colno", 0))
        reason = getattr(error, "msg", str(error))
        raise SpecError.of("ZL040", f"not JSON: {reason}", location=place) from error
    if not isinstance(document, dict):
        raise SpecError.of("ZL041", "not a plan file: expected an object", location=Location(path))
    return document


def _short(value: object) -> str:
    return f"{value!r:.40}" if isinstance(value, str | int | float | None) else type(value).__name__
