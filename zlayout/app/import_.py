"""A layout spec from a live table. Pure: a `TableState` in, YAML text out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from zlayout.spec.model import TableName
from zlayout.spec.yaml import dump
from zlayout.sql_text import quoted
from zlayout.table.partition import PartitionField
from zlayout.table.state import Ordering, TableState

MIB = 1024 * 1024
DEFAULT_SIZE = 128 * MIB
_SIZE_PROPERTIES = ("delta.targetFileSize", "write.target-file-size-bytes")


def recorded_settings(state: TableState) -> Mapping[str, Any] | None:
    """The settings that zlayout recorded for most of the table's bytes; None where it laid out none of them.

    Others may have written the record anew: one that lacks what every layout has does not count.
    """
    known = [n for n, record in enumerate(state.files.layouts) if _whole(record.settings)]
    if not known:
        return None
    size = [int(state.files.bytes[state.files.layout == n].sum()) for n in known]
    return state.files.layouts[known[int(np.argmax(size))]].settings if max(size) else None


def _whole(settings: Mapping[str, Any]) -> bool:
    columns, size = settings.get("zorder.columns"), settings.get("files.target_size")
    return isinstance(columns, list) and type(size) is int


def settings_from(state: TableState, ordering: Ordering) -> dict[str, Any]:
    """Settings for a table that others laid out: its order, and the file size that it has or asks for."""
    curve = {"zorder.curve": ordering.curve} if ordering.curve else {}
    return {"zorder.columns": list(ordering.columns), **curve, "files.target_size": target_size(state)}


def target_size(state: TableState) -> int:
    """Bytes: what the table's properties ask for, else the size of the file that the middle byte lies in.

    The latter is rounded to a power of two from 1 MiB to 1 GiB; a table of fewer than 4 files says too little and gets
    the default.
    """
    for name in _SIZE_PROPERTIES:
        if re.fullmatch("[0-9]{1,18}", text := state.properties.get(name, "")) and int(text) > 0:
            return int(text)
    if len(state.files) < 4:
        return DEFAULT_SIZE
    sizes = np.sort(state.files.bytes)
    middle = sizes[np.searchsorted(np.cumsum(sizes), sizes.sum() / 2)]
    return int(2 ** np.clip(np.rint(np.log2(max(int(middle), 1))), 20, 30))


def spec_text(table: TableName, fields: tuple[PartitionField, ...], settings: Mapping[str, Any], source: str) -> str:
    """The YAML of a layout with these settings (under their dotted names), as a person would write it."""
    zorder = {key.partition(".")[2]: value for key, value in settings.items() if key.startswith("zorder.")}
    files = {key.partition(".")[2]: value for key, value in settings.items() if key.startswith("files.")}
    files["target_size"] = _size_text(files["target_size"])
    body: dict[str, Any] = {"version": 1, "table": table_text(table)}
    if fields:
        body["partition_by"] = [str(field) for field in fields]
    body |= {"zorder": zorder, "files": files}
    if "engine" in settings:
        body["engine"] = settings["engine"]
    text = dump(body, default_flow_style=None, width=110)
    return f"# Imported by zlayout; its order is from {source}.\n{text}"


def table_text(table: TableName) -> str:
    """The name as a spec has it: parts with dots or backticks in backticks."""
    parts = (table.catalog, *table.identifier)
    return ".".join(quoted(part) if set(part) & set(".`") else part for part in parts)


def _size_text(size: int) -> int | str:
    for unit, name in ((MIB, "MiB"), (1024, "KiB")):
        if size % unit == 0:
            return f"{size // unit}{name}"
    return size
