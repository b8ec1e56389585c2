"""The plan file: `Plan` as JSON and back. The same JSON is the report of format `json`."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path
from typing import Any

from zlayout.errors import Location, Refused, SpecError
from zlayout.plan.model import FORMAT_VERSION, Plan, summary

MAX_BYTES = 64 * 1024 * 1024


def to_json(plan: Plan) -> str:
    """The plan as indented JSON with a `summary`; stable order, ends with a newline."""
    body = dataclasses.asdict(plan)
    document = {
        "format_version": body.pop("format_version"),
        "zlayout_version": body.pop("zlayout_version"),
        "exit_code": plan.exit_code,
        "has_changes": plan.has_changes,
        "summary": dataclasses.asdict(summary(plan.tables)),
        **body,
    }
    text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    # Lists of numbers on one line each. No string of JSON holds a newline, so that none can look like such a list.
    return (
        re.sub(r"\[\n[\s\d,-]*\]", lambda m: "[" + ", ".join(m[0][1:-1].replace(",", " ").split()) + "]", text) + "\n"
    )


def from_json(text: str, path: str) -> Plan:
    """The plan that `to_json` wrote. Raises SpecError ZL040 or ZL041 for what is not one, naming the place.

    Raises Refused ZL206 for a plan of another version of the format.
    """
    document = _parse(text, path)
    found = document.get("format_version")
    if found != FORMAT_VERSION:
        raise Refused.of(
            "ZL206",
            f"this is a plan of format {found!r:.40}, expected {FORMAT_VERSION}",
            hint="make the plan again with this version of zlayout",
            location=Location(path),
        )
    import pydantic

    for derived in ("summary", "exit_code", "has_changes"):
        document.pop(derived, None)
    try:
        return pydantic.TypeAdapter(Plan).validate_json(json.dumps(document), strict=True, extra="forbid")
    except pydantic.ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise SpecError.of(
            "ZL041",
            f"not a plan file: {where}: {first['msg']}",
            hint="a plan file is what `zlayout plan --out FILE` writes; do not edit it",
            location=Location(path),
        ) from error


def read(path: Path) -> Plan:
    """The plan in the file at `path`. Raises SpecError ZL040 when it cannot be read."""
    try:
        if path.stat().st_size > MAX_BYTES:
            raise SpecError.of("ZL040", f"the file is larger than {MAX_BYTES} bytes", location=Location(str(path)))
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not UTF-8 text"
        raise SpecError.of(
            "ZL040",
            f"cannot read the plan file: {reason}",
            hint="write one with `zlayout plan --out FILE`",
            location=Location(str(path)),
        ) from error
    return from_json(text, str(path))


def _parse(text: str, path: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        place = Location(path, getattr(error, "lineno", 0), getattr(error, "colno", 0))
        raise SpecError.of(
            "ZL040", f"not JSON: {getattr(error, 'msg', 'nested too deeply')}", location=place
        ) from error
    if not isinstance(document, dict):
        raise SpecError.of("ZL041", "not a plan file: expected an object", location=Location(path))
    return document
