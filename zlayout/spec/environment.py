"""Replace environment variables: `${VAR}`, `${VAR:-default}` and `${VAR:?message}`.

They are allowed only in some fields of `zlayout.yaml`, and in no layout spec, so that a layout id is the same on every
machine. Messages never contain values, which may be secrets.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from zlayout.errors import Diagnostic
from zlayout.message_text import quote_value
from zlayout.secrets import is_secret, passwords
from zlayout.spec.validation import Violation
from zlayout.spec.yaml import Document

_VARIABLE = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?:(?P<how>:-|:\?)(?P<text>[^}]*))?\}")
_WITH_VARIABLES = (
    ("catalogs", "*", "warehouse"),
    ("catalogs", "*", "uri"),
    ("catalogs", "*", "tables", "*"),
    ("catalogs", "*", "properties", "*"),
    ("catalogs", "*", "storage", "*"),
    ("spark", "master"),
    ("spark", "conf", "*"),
    ("commit", "properties", "*"),
)

KeyPath = tuple[str, ...]
# A catalog property or a Spark setting that consists of one variable is treated as a secret if its value has at least
# this number of characters, even if neither name suggests a secret.
MIN_UNNAMED_LENGTH = 8


def literal_only(document: Document) -> Iterator[Violation]:
    """Yield ZL017 for each text and each key of a layout spec that contains `${`."""
    for path, key, text, _ in _strings(document.data):
        if "${" in text:
            yield key, _misplaced(path)


def substitute(data: Mapping[str, Any], environ: Mapping[str, str]) -> tuple[dict[str, Any], list[Violation]]:
    """Replace the variables in a project's data. Variables in the inserted values are not replaced.

    Args:
        data: The content of `zlayout.yaml`.
        environ: The environment variables.

    Returns:
        The data with values, and ZL017, ZL018 and ZL019 for variables that are not allowed, not set or not valid.
    """
    problems: list[Violation] = []
    values: dict[KeyPath, str] = {}
    for path, key, text, is_name in _strings(data):
        found: list[Diagnostic] = []
        if "${" in text:
            if is_name or not _may_have_variables(path):
                problems.append((key, _misplaced(path)))
                continue
            values[path], found = _expand(text, environ)
        elif is_name:
            continue
        found = found or list(_replaced_elsewhere(path, values.get(path, text)))
        problems.extend((key, diagnostic) for diagnostic in found)
    return _replaced(data, values), problems


def written_secrets(document: Document) -> Iterator[Violation]:
    """Yield ZL042 for each secret that `zlayout.yaml` contains instead of a variable, or would store in commits."""
    hint = "replace it with ${NAME} and set NAME in the environment, or use a profile or the role of the machine"
    for path, key, text, is_name in _strings(document.data):
        if is_name:
            continue
        if path[0] == "commit" and is_secret(path[-1]):
            hint_of_commit = "remove it: every reader of the table can read what a commit stores"
            yield key, Diagnostic("ZL042", f"{quote_value(key)} would store a secret", hint=hint_of_commit)
        elif _may_have_variables(path) and "storage" not in path and text.lower() not in ("true", "false"):
            # ZL037 reports credentials in `storage.endpoint`.
            literal = _VARIABLE.sub(lambda m: m["text"] if m["how"] == ":-" else "", text)
            has_variable = any(m["how"] != ":-" for m in _VARIABLE.finditer(text))
            if passwords(literal) or (is_secret(path[-1]) and literal and not has_variable):
                yield key, Diagnostic("ZL042", f"{quote_value(key)} contains a secret", hint=hint)


def configuration_values(
    data: Mapping[str, Any], values: Mapping[str, Any], environ: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    """Yield the configuration values of a project with names that show which of them are secrets.

    Args:
        data: The content of `zlayout.yaml`.
        values: The result of `substitute` for `data`.
        environ: The environment variables.

    Yields:
        (name, value) of each string in `values` and of each variable in `data`. A catalog property or a Spark setting
        of at least MIN_UNNAMED_LENGTH characters that consists of one variable is also yielded under a name that begins
        with "secret".
    """
    written = {path: text for path, _, text, is_name in _strings(data) if not is_name}
    for path, _, text, is_name in _strings(values):
        if is_name:
            continue
        name = path[-1]
        yield name, text
        raw = written.get(path, "")
        for match in _VARIABLE.finditer(raw):
            yield match["name"], environ.get(match["name"], "")
            may_be_secret = path[0] != "commit" and path[-2:-1] in (("properties",), ("conf",))
            if match[0] == raw and may_be_secret and len(text) >= MIN_UNNAMED_LENGTH:
                yield f"secret {name}", text


def _misplaced(path: KeyPath) -> Diagnostic:
    where = path[-1] if path else "here"
    fields = "warehouse, uri, tables, storage and properties of catalogs, spark.master, spark.conf, commit.properties"
    return Diagnostic(
        "ZL017", f"${{...}} is not allowed in {quote_value(where)}", hint=f"use it in zlayout.yaml only: {fields}"
    )


def _may_have_variables(path: KeyPath) -> bool:
    return any(
        len(path) == len(field) and all(f in ("*", p) for f, p in zip(field, path, strict=True))
        for field in _WITH_VARIABLES
    )


def _replaced_elsewhere(path: KeyPath, value: str) -> Iterator[Diagnostic]:
    """A variable that Spark, Hadoop or Iceberg replaces would be in use without being known as a secret."""
    # Spark and Hadoop replace `${env:NAME}` and `${env.NAME}` in settings, but not in commit properties.
    if "${" in value and _may_have_variables(path) and path[0] != "commit":
        message = "expected a value without '${' after replacing variables, because Spark and Hadoop would replace it"
        yield Diagnostic("ZL019", message, hint="write ${NAME} alone, and set NAME to the final value")
    elif value.startswith("env:") and path[0] == "catalogs" and _may_have_variables(path):
        message = "expected a value that does not begin with env:, because Iceberg would replace it"
        yield Diagnostic("ZL019", message, hint="write ${NAME}")


def _expand(text: str, environ: Mapping[str, str]) -> tuple[str, list[Diagnostic]]:
    problems: list[Diagnostic] = []
    if text.count("${") != len(_VARIABLE.findall(text)):
        return text, [Diagnostic("ZL019", "expected ${NAME}, ${NAME:-default} or ${NAME:?message}, found another '${'")]

    def value(match: re.Match[str]) -> str:
        name, how, extra = match["name"], match["how"], match["text"]
        found = environ.get(name)
        if found or (found is not None and how is None):
            return found
        if how == ":-":
            return str(extra)
        hint = f"set it, or write ${{{name}:-default}}"
        reason = f": {quote_value(extra)[1:-1]}" if extra else ""
        problems.append(Diagnostic("ZL018", f"the environment variable {name} is not set{reason}", hint=hint))
        return ""

    expanded = _VARIABLE.sub(value, text)
    if not expanded and not problems:
        problems.append(Diagnostic("ZL018", "expected a value, found an empty string after replacing ${...}"))
    if "\x00" in expanded or "\n" in expanded:
        problems.append(Diagnostic("ZL018", "expected one line of text, found a line break or NUL from ${...}"))
    return expanded, problems


def _strings(data: Any, path: KeyPath = (), key: str = "") -> Iterator[tuple[KeyPath, str, str, bool]]:
    """Yield (path of keys, dotted key, string, whether the string is a key) for each string in nested data."""
    if isinstance(data, str):
        yield path, key, data, False
    elif isinstance(data, list):
        for index, item in enumerate(data):
            yield from _strings(item, (*path, f"[{index}]"), f"{key}[{index}]")
    elif isinstance(data, dict):
        for name, item in data.items():
            below = f"{key}.{name}" if key else name
            yield (*path, name), below, name, True
            yield from _strings(item, (*path, name), below)


def _replaced(data: Mapping[str, Any], values: Mapping[KeyPath, str], path: KeyPath = ()) -> dict[str, Any]:
    return {
        name: _replaced(item, values, (*path, name)) if isinstance(item, Mapping) else values.get((*path, name), item)
        for name, item in data.items()
    }
