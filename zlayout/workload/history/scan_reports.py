"""Convert scan reports of Iceberg (metrics reporter) and of Delta Kernel to queries on one table.

Iceberg replaces the values of a filter before it reports the filter (`ExpressionUtil.sanitize`), so that only columns
and operators are known. The values become parameters (`?`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from zlayout.predicate.parse import quote_column
from zlayout.sql_text import quote_path, string_literal

_ICEBERG = {"eq": "=", "not-eq": "<>", "lt": "<", "lt-eq": "<=", "gt": ">", "gt-eq": ">="}
_SANITIZED = re.compile(r"\((?:hash-[0-9a-f]{1,16}|\d+-digit-\w+|time|(?:date|timestamp)(?:-[\w-]+)?)\)")
_DELTA = re.compile(r"column\((`(?:[^`]|``)+`(?:\.`(?:[^`]|``)+`)*)\)")
_COMPARED = re.compile(r"\((`[^()]*`) (=|<=|>=|<|>) ((?:[^()`]|'[^']*')*)\)")
MAX_DEPTH = 60
MAX_COLUMNS = 3600  # in one filter of Delta Kernel


def is_scan_report(record: Mapping[str, Any]) -> bool:
    """Return whether a JSON object is a metrics report of Iceberg or Delta Kernel, of a scan or another operation."""
    return "report-type" in record or ("table-name" in record and "snapshot-id" in record) or "reportUUID" in record


def query_of(record: Mapping[str, Any]) -> str | None:
    """Return the scan of a report as SQL; None for a report of another operation.

    Raises:
        ValueError: The report cannot be read, for the reason in the message.
    """
    if record.get("report-type", "scan-report") != "scan-report" or record.get("operationType", "Scan") != "Scan":
        return None
    if "table-name" in record and "filter" not in record:
        return None  # a report of a commit
    if "tablePath" in record:
        location, found = record["tablePath"], record.get("filter")
        if not isinstance(location, str) or not (found is None or isinstance(found, str)):
            raise ValueError("expected tablePath and filter as strings in a scan report of Delta")
        return select(f"delta.{quote_path([location])}", _kernel(found) if found else "")
    name = record.get("table-name")
    if not isinstance(name, str) or not name:
        raise ValueError("expected a table-name in a scan report of Iceberg")
    condition = _iceberg(record["filter"], 0)
    return select(quote_path(name.split(".")), "" if condition == "TRUE" else condition)


def select(table: str, condition: str) -> str:
    """Return the SQL of a query on one table. condition: SQL; may be empty."""
    return f"SELECT * FROM {table}" + (f" WHERE {condition}" if condition else "")


def _iceberg(node: Any, depth: int) -> str:
    if depth > MAX_DEPTH:
        raise ValueError(f"expected a filter of at most {MAX_DEPTH} levels")
    if isinstance(node, bool):
        return "TRUE" if node else "FALSE"
    if not isinstance(node, dict):
        raise ValueError("expected an expression of Iceberg in the filter")
    kind = node.get("type")
    if kind in ("and", "or"):
        left, right = _iceberg(node.get("left"), depth + 1), _iceberg(node.get("right"), depth + 1)
        return f"({left} {kind.upper()} {right})"
    if kind == "not":
        return f"NOT ({_iceberg(node.get('child'), depth + 1)})"
    if kind == "literal":
        return "TRUE" if node.get("value") else "FALSE"
    term = _term(node.get("term"))
    if kind in ("is-null", "not-null"):
        return f"{term} IS {'NOT ' if kind == 'not-null' else ''}NULL"
    if kind in ("is-nan", "not-nan"):
        return f"{'NOT ' if kind == 'not-nan' else ''}isnan({term})"
    if kind in ("in", "not-in") and isinstance(node.get("values"), list) and node["values"]:
        return f"{term} {'NOT ' if kind == 'not-in' else ''}IN ({', '.join(map(_value, node['values']))})"
    if kind in _ICEBERG and "value" in node:
        return f"{term} {_ICEBERG[kind]} {_value(node['value'])}"
    if kind in ("starts-with", "not-starts-with") and isinstance(node.get("value"), str):
        return f"{'NOT ' if kind[0] == 'n' else ''}startswith({term}, {_value(node['value'])})"
    raise ValueError(f"unknown expression {str(kind)[:40]!r} in the filter")


def _term(node: Any) -> str:
    if isinstance(node, str) and node:
        return quote_column(node)
    if isinstance(node, dict) and node.get("type") == "reference":
        return _term(node.get("term"))
    if isinstance(node, dict) and node.get("type") == "transform" and isinstance(node.get("transform"), str):
        return f"{re.sub(r'[^a-z_]', '_', node['transform'])}({_term(node.get('term'))})"
    raise ValueError("expected a column in the filter")


def _value(value: Any) -> str:
    if isinstance(value, dict) and value.get("type") == "literal":
        value = value.get("value")
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return "?" if _SANITIZED.fullmatch(value) else string_literal(value)
    raise ValueError("expected a value in the filter")


def _kernel(text: str) -> str:
    """Convert a filter as Delta Kernel prints it to SQL, with each value as a string."""
    columns: Sequence[str] = _DELTA.findall(text)
    if "?" in text or len(columns) > MAX_COLUMNS:
        raise ValueError("the filter cannot be read")
    replaced = _DELTA.sub(lambda found: found[1], text)
    return _COMPARED.sub(lambda found: f"({found[1]} {found[2]} {_plain(found[3])})", replaced)


def _plain(value: str) -> str:
    """Return a printed column as it is, and a printed value as a string, which is later converted to its type."""
    return value if value.startswith("`") else string_literal(value)
