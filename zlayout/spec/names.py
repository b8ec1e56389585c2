"""Parse the table names and the partition keys of a spec."""

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
    """Parse `catalog.namespace.table`. Parts that contain dots are in backticks.

    Raises:
        SpecError: ZL020 for any other text.
    """
    parts = _parts(text)
    if parts is None:
        message = f"expected a table name such as lake.sales.orders, found {quote_value(text)}"
        hint = "put a part with a dot in backticks, and double a backtick inside it"
    elif invalid := [part for part in parts if not _is_valid(part)]:
        message = f"invalid part {quote_value(invalid[0])} in a table name"
        hint = "remove '/', '\\', '.', '..', outer blanks and unprintable characters"
    elif len(parts) < 2:
        message = f"expected catalog.namespace.table, found {quote_value(text)}"
        hint = "the first part is a catalog of zlayout.yaml"
    else:
        return TableName(parts[0], tuple(parts[1:-1]), parts[-1])
    raise SpecError.of("ZL020", message, hint=hint, location=location)


def _is_valid(part: str) -> bool:
    return part.isprintable() and part not in (".", "..") and not set("/\\") & set(part) and part == part.strip()


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
    """Parse a partition key such as `region`, `month(ts)` or `bucket(16, id)`.

    Raises:
        SpecError: ZL023 for any other text.
    """
    call = _CALL.fullmatch(text) if text.isprintable() else None
    hint = ""
    if text.isprintable() and text.strip() and not set("(),") & set(text):
        return PartitionField(_column(text.strip()))
    if call is not None and call[3].strip():
        name, argument, source = call.groups()
        if name in _PLAIN_TRANSFORMS:
            if argument is None:
                return PartitionField(_column(source), name)
            hint = f"write {name}(column)"
        elif name in _NUMBERED_TRANSFORMS:
            if argument is not None and re.fullmatch(r"[1-9][0-9]{0,8}", argument):
                return PartitionField(_column(source), f"{name}[{argument}]")
            hint = f"write {name}(16, column)"
        else:
            hint = suggestion(name, (*_PLAIN_TRANSFORMS, *_NUMBERED_TRANSFORMS))
    expected = "expected a column, identity, year, month, day or hour of one, bucket(n, c) or truncate(n, c)"
    raise SpecError.of("ZL023", f"{expected}, found {quote_value(text)}", hint=hint, location=location)


def _column(text: str) -> str:
    backticked = re.fullmatch(r"`((?:[^`]|``)+)`", text)
    return backticked[1].replace("``", "`") if backticked else text
