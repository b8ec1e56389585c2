"""Table names and partition keys, parsed from a spec."""

from __future__ import annotations

import re

from zlayout.errors import Location, SpecError
from zlayout.message_text import quote_value
from zlayout.spec.model import TableName
from zlayout.spec.validation import suggestion
from zlayout.table.partition import PartitionField

_PART = re.compile(r"`((?:[^`]|``)+)`|([^`.]+)")
_CALL = re.compile(r"\s*(\w+)\s*\(\s*(?:([^,()]*?)\s*,\s*)?([^,()]+?)\s*\)\s*")
_PLAIN_TRANSFORMS = ("identity", "year", "month", "day", "hour")
_NUMBERED_TRANSFORMS = ("bucket", "truncate")


def parse_table(text: str, location: Location) -> TableName:
    """Parse `catalog.namespace.table`, in which parts with dots are in backticks. Raises SpecError ZL020."""
    parts = _parts(text)
    if parts is None:
        raise SpecError.of(
            "ZL020",
            f"expected a table name such as lake.sales.orders, found {quote_value(text)}",
            hint="put a part with a dot in backticks, and double a backtick inside it",
            location=location,
        )
    for part in parts:
        if not part.isprintable() or part in (".", "..") or "/" in part or "\\" in part or part != part.strip():
            raise SpecError.of(
                "ZL020",
                f"invalid part {quote_value(part)} in a table name",
                hint="remove '/', '\\', '.', '..', outer blanks and unprintable characters",
                location=location,
            )
    if len(parts) < 2:
        raise SpecError.of(
            "ZL020",
            f"expected catalog.namespace.table, found {quote_value(text)}",
            hint="the first part is a catalog of zlayout.yaml",
            location=location,
        )
    return TableName(parts[0], tuple(parts[1:-1]), parts[-1])


def _parts(text: str) -> list[str] | None:
    parts: list[str] = []
    position = 0
    while found := _PART.match(text, position):
        parts.append(found[1].replace("``", "`") if found[1] else found[2])
        position = found.end()
        if position == len(text):
            return parts
        if text[position] != ".":
            return None
        position += 1
    return None


def parse_partition_key(text: str, location: Location) -> PartitionField:
    """Parse a partition key such as `region`, `month(ts)` or `bucket(16, id)`. Raises SpecError ZL023."""
    if not text.isprintable() or not text.strip():
        raise _wrong_key(text, "", location)
    if "(" not in text and ")" not in text and "," not in text:
        return PartitionField(_column(text.strip()))
    call = _CALL.fullmatch(text)
    if call is None or not call[3].strip():
        raise _wrong_key(text, "", location)
    name, argument, source = call.groups()
    if name in _PLAIN_TRANSFORMS and argument is None:
        return PartitionField(_column(source), name)
    width = argument if argument is not None and re.fullmatch(r"[1-9][0-9]{0,8}", argument) else None
    if name in _NUMBERED_TRANSFORMS and width:
        return PartitionField(_column(source), f"{name}[{width}]")
    hint = suggestion(name, (*_PLAIN_TRANSFORMS, *_NUMBERED_TRANSFORMS))
    if name in _NUMBERED_TRANSFORMS:
        hint = f"write {name}(16, column)"
    elif name in _PLAIN_TRANSFORMS:
        hint = f"write {name}(column)"
    raise _wrong_key(text, hint, location)


def _column(text: str) -> str:
    backticked = re.fullmatch(r"`((?:[^`]|``)+)`", text)
    return backticked[1].replace("``", "`") if backticked else text


def _wrong_key(text: str, hint: str, location: Location) -> SpecError:
    expected = "expected a column, identity, year, month, day or hour of one, bucket(n, c) or truncate(n, c)"
    error = SpecError.of("ZL023", f"{expected}, found {quote_value(text)}", hint=hint, location=location)
    assert isinstance(error, SpecError)
    return error
