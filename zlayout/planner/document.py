"""The plan file: `RunReport` as JSON and back. The same JSON is the report of format `json`.

The dataclasses of the plan are the only description of the document: pydantic reads it by them and derives its JSON
Schema from them (docs/adr/0011-plan-document.md).
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, astuple, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from zlayout.errors import Location, Refused, SpecError
from zlayout.message_text import describe_value, escape_unprintable
from zlayout.planner.model import FORMAT_VERSION, Plan, Status, Summary, TablePlan, summary
from zlayout.planner.picture import Picture
from zlayout.planner.result import TableResult
from zlayout.planner.run_report import RunReport
from zlayout.reading import parse_json, read_at_most

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError
    from pydantic_core import SchemaValidator

# A plan of one table with 50,000 groups takes some 17 MB.
MAX_BYTES = 24 * 1024 * 1024
# A parsed value takes more memory than its text. Any file may hold FREE_VALUES, and a larger one a value for each
# CHARACTERS_PER_VALUE characters. A list counts as three values and an object as twelve.
FREE_VALUES, CHARACTERS_PER_VALUE = 350_000, 5
MAX_KEYS = 40  # of one object; the largest record of a plan has fewer
HINT = "a plan file is what `zlayout plan --out FILE` writes; do not edit it"
_PLAIN = ("int", "float", "str", "bool")
_EXPECTED = {
    "missing": "a value, found nothing",
    "unexpected_keyword_argument": "no such key",
    "dataclass_type": "an object",
    "tuple_type": "a list",
}


@dataclass(frozen=True, slots=True)
class AppliedTable:
    """The result of an apply for one table of the plan."""

    table: str
    """The name of the table."""
    result: TableResult
    """What apply did."""


@dataclass(frozen=True, slots=True)
class DrawnTable:
    """The picture of one table of the plan."""

    table: str
    """The name of the table."""
    picture: Picture
    """What the HTML report draws."""


@dataclass(frozen=True, slots=True)
class Document:
    """A plan of zlayout, as `zlayout plan --out` writes it and `zlayout show` and `zlayout apply` read it."""

    __pydantic_config__ = {"extra": "forbid", "use_attribute_docstrings": True}  # noqa: RUF012

    format_version: Literal[2]
    """The version of this format. zlayout reads no other."""
    zlayout_version: str
    """The version of zlayout that wrote the document."""
    exit_code: int
    """The exit code of `zlayout plan`: 1 when a table cannot be planned, 3 when one is refused, else 0."""
    has_changes: bool
    """Whether `zlayout apply` would change a table."""
    summary: Summary
    """The counts of the last line of the plan."""
    tables: tuple[TablePlan, ...]
    """The plan of each table, in the order of their names."""
    results: tuple[AppliedTable, ...]
    """What apply did, for the tables that it began; empty in a plan that was not applied."""
    pictures: tuple[DrawnTable, ...]
    """What the HTML report draws, for the tables that were drawn."""


def to_json(shown: Plan | RunReport) -> str:
    """The document as indented JSON in a stable order. It is ASCII and ends with a newline."""
    report = RunReport.of(shown)
    plan = report.plan
    document = Document(
        FORMAT_VERSION,
        plan.zlayout_version,
        plan.exit_code,
        plan.has_changes,
        summary(plan.tables),
        plan.tables,
        tuple(AppliedTable(*item) for item in report.results.items()),
        tuple(DrawnTable(*item) for item in report.pictures.items()),
    )
    text = json.dumps(asdict(document), indent=2, allow_nan=False)
    # Lists and objects without others inside go on one line each. No string of JSON holds a line break, so only the
    # white space between values changes.
    return re.sub(r"[\[{]\n[^][{}]*[]}]", _on_one_line, text) + "\n"


def _on_one_line(found: re.Match[str]) -> str:
    return re.sub(r"\n *", "", re.sub(r",\n *", ", ", found[0]))


def too_large(text: str) -> bool:
    """Whether a document exceeds the limits of `read`: MAX_BYTES, or so many values that they need too much memory."""
    values = text.count(",") + 3 * text.count("[") + 12 * text.count("{")
    return len(text) > MAX_BYTES or values > FREE_VALUES + len(text) / CHARACTERS_PER_VALUE


def read(path: Path) -> RunReport:
    """The plan in the file at `path`. Raises as `from_json`, and SpecError ZL040 when the file cannot be read."""
    try:
        content = read_at_most(path, MAX_BYTES + 1)
        # zlayout writes ASCII. A document with other characters takes up to four times the memory.
        most = MAX_BYTES if content.isascii() else MAX_BYTES // 4
        if len(content) > most:
            raise SpecError.of("ZL040", f"the file is larger than {most} bytes", location=Location(str(path)))
        return from_json(content.decode("utf-8"), str(path))
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not UTF-8 text"
        raise SpecError.of(
            "ZL040",
            f"cannot read the plan file: {reason}",
            hint="write one with `zlayout plan --out FILE`",
            location=Location(str(path)),
        ) from error


def from_json(text: str, path: str) -> RunReport:
    """The plan in a document that `to_json` wrote, with the results and pictures that it holds.

    Args:
        text: the document.
        path: the file it is from, for errors.

    Raises:
        SpecError: ZL040 for text that is not JSON, ZL041 for JSON that is not a plan, with the place inside it.
        Refused: ZL206 for a plan of another version of the format.
    """
    values = _values(text, path)
    del text
    from pydantic_core import ValidationError  # here and below, because most commands read no plan file

    try:
        document: Document = _reader().validate_python(values)
    except ValidationError as error:
        raise _invalid(_first_error(error), path) from None
    if wrong := _incoherence(document):
        raise _invalid(wrong, path)
    return RunReport(
        Plan(document.zlayout_version, document.tables),
        {entry.table: entry.result for entry in document.results},
        {entry.table: entry.picture for entry in document.pictures},
    )


def schema() -> dict[str, Any]:
    """The JSON Schema of the document. `make schemas` writes it to schemas/v2/plan.schema.json."""
    schema = _adapter().json_schema()
    for record in schema["$defs"].values():
        if "properties" in record:
            record["additionalProperties"] = False  # pydantic 2.13 does not state it for a record inside another one
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "zlayout plan"}


@cache
def _adapter() -> TypeAdapter[Document]:
    """The description of the document."""
    from pydantic import TypeAdapter

    return TypeAdapter(Document)


@cache
def _reader() -> SchemaValidator:
    """Validates plain values, and never converts one plain type into another.

    pydantic's strict mode for plain values rejects a list for a tuple and an object for a dataclass, which is all that
    JSON has; its reader of JSON text copies the rejected input into every error. So strict mode is set on the types of
    plain values alone.
    """
    from pydantic_core import SchemaValidator

    return SchemaValidator(_strict(_adapter().core_schema))


def _strict(schema: Any) -> Any:
    """The core schema with strict numbers, texts and booleans, and lists that end at their first invalid item."""
    if isinstance(schema, list):
        return [_strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    extra = {"strict": True} if kind in _PLAIN else {"fail_fast": True} if kind == "tuple" else {}
    return {key: _strict(part) for key, part in schema.items()} | extra


def _values(text: str, path: str) -> dict[str, Any]:
    """The plain values of a document of this version of the format."""
    if too_large(text):
        raise _invalid("it has too many values for its size", path)
    try:
        document = parse_json(text, _record)
    except ValueError as error:
        place = Location(path, getattr(error, "lineno", 0), getattr(error, "colno", 0))
        raise SpecError.of("ZL040", f"not JSON: {getattr(error, 'msg', str(error))}", location=place) from error
    if not isinstance(document, dict):
        raise _invalid("expected an object", path)
    if "format_version" not in document:
        raise _invalid("it has no format_version", path)
    found = document["format_version"]
    if type(found) is not int or found != FORMAT_VERSION:
        writer = document.get("zlayout_version")
        by = f", written by zlayout {writer:.40}" if isinstance(writer, str) else ""
        message = f"expected plan format {FORMAT_VERSION}, found {describe_value(found)}{by}"
        raise Refused.of("ZL206", escape_unprintable(message), hint="run `zlayout plan` again", location=Location(path))
    return document


def _record(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON. Raises ValueError for duplicate keys and for too many of them."""
    if len(pairs) > MAX_KEYS:
        raise ValueError(f"an object has more than {MAX_KEYS} keys")
    record = dict(pairs)
    if len(record) < len(pairs):
        raise ValueError("an object has a duplicate key")
    return record


def _invalid(reason: str, path: str) -> SpecError:
    error = SpecError.of("ZL041", f"not a plan file: {escape_unprintable(reason)}", hint=HINT, location=Location(path))
    assert isinstance(error, SpecError)
    return error


def _first_error(error: ValidationError) -> str:
    """`tables.0.files: expected a valid integer, found 'many'`."""
    first = error.errors(include_url=False)[0]
    place = ".".join(str(part)[:60] for part in first["loc"])
    expected = _EXPECTED.get(first["type"]) or first["msg"].removeprefix("Input should be ")
    if first["type"] not in ("missing", "unexpected_keyword_argument"):
        expected += f", found {describe_value(first['input'])}"
    return f"{place or 'the document'}: expected {expected}"


def _incoherence(document: Document) -> str:
    """What no type can state and reports or apply rely on, '' if all of it holds."""
    for entries in (document.tables, document.results, document.pictures):
        if len({entry.table for entry in entries}) < len(entries):
            return "duplicate table"
    if unplanned := {result.table for result in document.results} - {table.table for table in document.tables}:
        return f"{min(unplanned)}: a result of a table without a plan"
    for table in document.tables:
        if table.status is Status.CHANGES and table.version is None:
            return f"{table.table}: changes without what they require"
    drawn = [boxes for entry in document.pictures for boxes in (entry.picture.before, entry.picture.after)]
    drawn += [entry.result.boxes for entry in document.results]
    if any(boxes and len(boxes.positions) % 4 for boxes in drawn):
        return "boxes that cannot be drawn"
    # Each number fits into 64 bits; so must the sums that a plan is written with.
    return "counts that add up to more than 64 bits" if max(astuple(summary(document.tables))) >= 2**63 else ""
