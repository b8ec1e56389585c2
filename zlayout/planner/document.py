"""Write and read the plan document: a `RunReport` as JSON. The report format `json` is the same document.

The dataclasses of the plan are the only description of the document. pydantic validates documents by them, and makes
the JSON Schema from them (docs/adr/0011-plan-document.md).
"""

from __future__ import annotations

import re
from dataclasses import asdict, astuple, dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from zlayout.errors import Diagnostic, Location, Refused, SpecError
from zlayout.planner.model import FORMAT_VERSION, Changes, Plan, Status, Summary, TablePlan, Wait, summary
from zlayout.planner.passes import PASSES
from zlayout.planner.run_report import Picture, RunReport, TableResult
from zlayout.reading import parse_json, read_at_most
from zlayout.text import describe_value, escape_unprintable, json_text

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError
    from pydantic_core import SchemaValidator

# A plan of one table with 50,000 groups takes about 17 MB.
MAX_BYTES = 24 * 1024 * 1024
# A parsed value takes more memory than its text, so the number of values is limited too: to BASE_VALUES, plus one value
# per CHARACTERS_PER_VALUE characters of the document. A list counts as three values and an object as twelve.
BASE_VALUES, CHARACTERS_PER_VALUE = 350_000, 5
MAX_KEYS_PER_OBJECT = 40  # the largest record of a plan has fewer
HINT = "write a plan file with `zlayout plan --out FILE`, and do not edit it"
_PLAIN = ("int", "float", "str", "bool")
_EXPECTED = {
    "missing": "a value, found nothing",
    "unexpected_keyword_argument": "no such key",
    "dataclass_type": "an object",
    "tuple_type": "a list",
}


@dataclass(frozen=True, slots=True)
class AppliedTable:
    """The result of apply for one table of the plan."""

    table: str
    """The name of the table."""
    result: TableResult
    """What apply did to the table."""


@dataclass(frozen=True, slots=True)
class DrawnTable:
    """The picture of one table of the plan."""

    table: str
    """The name of the table."""
    picture: Picture
    """The picture that the HTML report draws."""


@dataclass(frozen=True, slots=True)
class Document:
    """The plan document, which `zlayout plan --out` writes and `zlayout show` and `zlayout apply` read."""

    __pydantic_config__: ClassVar = {"extra": "forbid", "use_attribute_docstrings": True}

    format_version: Literal[3]
    """The format version of the document. zlayout reads no other one."""
    zlayout_version: str
    """The version of zlayout that wrote the document."""
    exit_code: int
    """The exit code of `zlayout plan`: 1 if a table cannot be planned, 3 if a table is refused, else 0."""
    has_changes: bool
    """Whether `zlayout apply` would change a table."""
    summary: Summary
    """The number of tables and files that the plan changes."""
    tables: tuple[TablePlan, ...]
    """The plan of each table, sorted by table name."""
    results: tuple[AppliedTable, ...]
    """The results of the tables on which apply has started; empty if the plan was not applied."""
    pictures: tuple[DrawnTable, ...]
    """The pictures of the HTML report, for the tables that were drawn."""
    diagnostics: tuple[Diagnostic, ...] = ()
    """Warnings and notes that concern no single table, such as a rule that matches nothing."""
    changes: Changes | None = None
    """The revision with which `changed:REV` compared the layouts; null without one."""


def to_json(shown: Plan | RunReport) -> str:
    """Serialise a plan or run report as indented ASCII JSON with a stable order and a final line break."""
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
        plan.diagnostics,
        plan.changes,
    )
    text = json_text(asdict(document, dict_factory=_record_of))
    # Lists and objects that contain no others are put on one line. Strings in JSON contain no line breaks, so that only
    # white space between values changes.
    return re.sub(r"[\[{]\n[^][{}]*[]}]", _on_one_line, text) + "\n"


def _record_of(items: list[tuple[str, Any]]) -> dict[str, Any]:
    """Leave out what only a plan of `changed:REV` has."""
    return {key: value for key, value in items if value is not None or key not in ("change", "changes")}


def _on_one_line(found: re.Match[str]) -> str:
    return re.sub(r"\n *", "", re.sub(r",\n *", ", ", found[0]))


def too_large(text: str) -> bool:
    """Return whether a document exceeds the limits of `read`: MAX_BYTES, or the number of values."""
    values = text.count(",") + 3 * text.count("[") + 12 * text.count("{")
    return len(text) > MAX_BYTES or values > BASE_VALUES + len(text) / CHARACTERS_PER_VALUE


def read(path: Path) -> RunReport:
    """Read a plan file.

    Raises:
        SpecError: ZL040 or ZL041.
        Refused: ZL206 for another format version.
    """
    return from_json(_text_of(path), str(path))


def _text_of(path: Path) -> str:
    """Return the text of a plan file. When it returns, the bytes of the file no longer take memory."""
    try:
        content = read_at_most(path, MAX_BYTES + 1)
        # zlayout writes ASCII. A document with other characters needs up to four times the memory.
        max_bytes = MAX_BYTES if content.isascii() else MAX_BYTES // 4
        if len(content) > max_bytes:
            raise SpecError.of(
                "ZL040", f"expected at most {max_bytes:,} bytes, found a larger file", location=Location(str(path))
            )
        return content.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is not UTF-8 text"
        raise SpecError.of(
            "ZL040",
            f"cannot read the plan file: {reason}",
            hint="write the file with `zlayout plan --out FILE`",
            location=Location(str(path)),
        ) from error


def from_json(text: str, path: str) -> RunReport:
    """Parse a document that `to_json` wrote.

    Args:
        text: The document.
        path: The path of its file, for error messages.

    Returns:
        The plan with its results and pictures.

    Raises:
        SpecError: ZL040 or ZL041; the message names the invalid key.
        Refused: ZL206 for another format version.
    """
    values = _values(text, path)
    del text
    from pydantic_core import ValidationError  # imported here because most commands read no plan file

    try:
        document: Document = _reader().validate_python(values)
    except ValidationError as error:
        raise _invalid(_first_error(error), path) from None
    if wrong := _incoherence(document):
        raise _invalid(wrong, path)
    return RunReport(
        Plan(document.zlayout_version, document.tables, diagnostics=document.diagnostics, changes=document.changes),
        {entry.table: entry.result for entry in document.results},
        {entry.table: entry.picture for entry in document.pictures},
    )


def schema() -> dict[str, Any]:
    """Return the JSON Schema of the document. `make schemas` writes it to schemas/v3/plan.schema.json."""
    schema = _adapter().json_schema()
    for record in schema["$defs"].values():
        if "properties" in record:
            record["additionalProperties"] = False  # pydantic 2.13 omits it for nested records
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "zlayout plan"}


@cache
def _adapter() -> TypeAdapter[Document]:
    from pydantic import TypeAdapter

    return TypeAdapter(Document)


@cache
def _reader() -> SchemaValidator:
    from pydantic_core import SchemaValidator

    # Numbers, strings and booleans must not be converted into each other. The strict mode of pydantic would also reject
    # lists for tuples and objects for dataclasses. It accepts them only if pydantic parses the JSON itself, but then
    # every error contains a copy of the rejected input. Therefore only scalars are validated in strict mode.
    return SchemaValidator(_strict(_adapter().core_schema))


def _strict(schema: Any) -> Any:
    if isinstance(schema, list):
        return [_strict(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kind = schema.get("type")
    extra = {"strict": True} if kind in _PLAIN else {"fail_fast": True} if kind == "tuple" else {}
    return {key: _strict(part) for key, part in schema.items()} | extra


def _values(text: str, path: str) -> dict[str, Any]:
    if too_large(text):
        raise _invalid("expected fewer values, found more than a plan of this size has", path)
    # This is checked before parsing, because a parsed object with very many keys takes much memory. The limit is the
    # number of keys that all objects may have together. Quotation marks inside of strings do not count.
    if text.count('":') - text.count('\\":') > MAX_KEYS_PER_OBJECT * text.count("{"):
        message = f"not JSON: expected at most {MAX_KEYS_PER_OBJECT} keys in an object, found more"
        raise SpecError.of("ZL040", message, location=Location(path))
    try:
        document = parse_json(text, _record)
    except ValueError as error:
        location = Location(path, getattr(error, "lineno", 0), getattr(error, "colno", 0))
        message = f"not JSON: {getattr(error, 'msg', str(error))}".removesuffix(" starting at")
        raise SpecError.of("ZL040", message, hint=HINT, location=location) from error
    if not isinstance(document, dict) or "format_version" not in document:
        raise _invalid("expected an object with the key format_version, found none", path)
    found = document["format_version"]
    if type(found) is not int or found != FORMAT_VERSION:
        writer = document.get("zlayout_version")
        by = f", written by zlayout {writer:.40}" if isinstance(writer, str) else ""
        message = f"expected plan format version {FORMAT_VERSION}, found {describe_value(found)}{by}"
        raise Refused.of("ZL206", escape_unprintable(message), hint="run `zlayout plan` again", location=Location(path))
    return document


def _record(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(pairs) > MAX_KEYS_PER_OBJECT:
        raise ValueError(f"expected at most {MAX_KEYS_PER_OBJECT} keys in an object, found {len(pairs)}")
    record = dict(pairs)
    if len(record) < len(pairs):
        raise ValueError("duplicate key in an object")
    return record


def _invalid(reason: str, path: str) -> SpecError:
    error = SpecError.of("ZL041", f"not a plan file: {escape_unprintable(reason)}", hint=HINT, location=Location(path))
    assert isinstance(error, SpecError)
    return error


def _first_error(error: ValidationError) -> str:
    """Describe the first error, for example `tables.0.files: expected a valid integer, found 'many'`."""
    first = error.errors(include_url=False)[0]
    key = ".".join(str(part)[:60] for part in first["loc"])
    expected = _EXPECTED.get(first["type"]) or first["msg"].removeprefix("Input should be ")
    if first["type"] not in ("missing", "unexpected_keyword_argument"):
        expected += f", found {describe_value(first['input'])}"
    return f"{key}: expected {expected}"


def _incoherence(document: Document) -> str:
    for entries in (document.tables, document.results, document.pictures):
        if len({entry.table for entry in entries}) < len(entries):
            return "duplicate table"
    if unplanned := {result.table for result in document.results} - {table.table for table in document.tables}:
        return f"{min(unplanned)}: a result of a table without a plan"
    for table in document.tables:
        if table.status is Status.CHANGES and table.requirements is None:
            return f"{table.table}: expected requirements for the changes, found none"
        reasons = [waiting.reason for waiting in table.waiting]
        known = (Wait.BUDGET, *PASSES)
        if len({*reasons}) < len(reasons) or not {*known}.issuperset(reasons):
            return f"{table.table}: waiting: expected each of {', '.join(known)} at most once"
        for waiting in table.waiting:
            stated = waiting.budget is not None, waiting.ranked_by is not None, waiting.after is not None
            if stated != (waiting.reason is Wait.BUDGET, waiting.reason is Wait.BUDGET, waiting.reason is Wait.HOT):
                return f"{table.table}: waiting: expected other fields for the reason {waiting.reason}"
    drawn = [boxes for entry in document.pictures for boxes in (entry.picture.before, entry.picture.after)]
    drawn += [entry.result.boxes for entry in document.results]
    if any(boxes and len(boxes.positions) % 4 for boxes in drawn):
        return "expected four positions per box, found a remainder"
    # Each number fits into 64 bits, and so must the sums in the summary.
    too_large = max(astuple(summary(document.tables))) >= 2**63
    return "expected counts with a sum below 2**63, found larger ones" if too_large else ""
