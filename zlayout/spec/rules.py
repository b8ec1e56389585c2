"""Rules: layout specs for all tables that a pattern matches, and the choice of the rule for a table."""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from zlayout.errors import Diagnostic, Location, SpecError
from zlayout.spec.layouts import parse_table, size_in_bytes
from zlayout.spec.model import Conditions, LayoutRule, LayoutSpec, TableName
from zlayout.spec.yaml import Document
from zlayout.text import column_name, quote_value

if TYPE_CHECKING:
    from zlayout.table.state import TableState

_ANY = "\x00"  # a character that no table name contains


def layout_rule(document: Document, spec: LayoutSpec) -> LayoutRule:
    """Return the rule that a document with `match:` declares.

    Args:
        document: The document.
        spec: Its layout spec, whose table is the pattern.

    Raises:
        SpecError: ZL020 for each invalid pattern, ZL013 if `only.max_size` is below `only.min_size`.
    """
    problems = [*_pattern_problems(spec.table, spec.location, spec.table.catalog)]
    exclude = []
    for index, text in enumerate(document.data.get("exclude", ())):
        location = document.locations[f"exclude[{index}]"]
        exclude.append(parse_table(text, location))
        problems += _pattern_problems(exclude[-1], location, spec.table.catalog)
    only = _conditions(document.data["only"]) if "only" in document.data else None
    if only and only.min_size is not None and only.max_size is not None and only.min_size > only.max_size:
        location = document.locations["only.max_size"]
        message = f"expected only.max_size of at least only.min_size, {document.data['only']['min_size']}"
        problems.append(Diagnostic("ZL013", f"{message}, found less", location=location))
    if problems:
        raise SpecError(*problems)
    return LayoutRule(spec.table, tuple(exclude), only, spec)


def matches(rule: LayoutRule, table: TableName) -> bool:
    """Return whether the pattern of a rule matches a table, and none of the excluded patterns does."""
    return matches_name(rule.pattern, table) and not any(matches_name(pattern, table) for pattern in rule.exclude)


def holds(only: Conditions | None, state: TableState) -> bool:
    """Return whether a table meets the conditions of a rule. only: None if the rule has none."""
    if only is None:
        return True
    size = int(state.files.bytes.sum())
    return (
        (only.min_size is None or size >= only.min_size)
        and (only.max_size is None or size <= only.max_size)
        and only.partitioned in (None, bool(state.partition_fields))
        and all(state.column(name) is not None for name in only.columns)
    )


def rule_of(rules: Sequence[LayoutRule], table: TableName) -> LayoutRule | None:
    """Return the narrowest rule that matches a table; None if no rule does.

    Args:
        rules: The rules whose conditions the table meets.
        table: A table that no layout spec names.

    Raises:
        SpecError: ZL039 if several rules match, and none of them is narrower than all others.
    """
    found = [rule for rule in rules if matches(rule, table)]
    narrowest = [rule for rule in found if not any(_narrower(other, rule) for other in found)]
    if len(narrowest) > 1:
        listed = " and ".join(f"{rule.spec.rule} ({rule.spec.location})" for rule in narrowest)
        message = f"{table} has several rules, and none is narrower than the others: {listed}"
        hint = "exclude the table from all of them but one, or declare a layout of its own"
        raise SpecError.of("ZL039", message, hint=hint, location=narrowest[0].spec.location)
    return next(iter(narrowest), None)


@lru_cache(maxsize=1024)
def within(inner: TableName, outer: TableName) -> bool:
    """Return whether the pattern `outer` matches every name that the pattern `inner` matches."""
    parts = list(zip(inner.identifier, outer.identifier, strict=False))
    same = inner.catalog == outer.catalog and len(inner.identifier) == len(outer.identifier)
    # The outer glob must match the inner one with each ? replaced by one character and each * by none, and then with
    # each * replaced by two.
    return same and all(
        fnmatchcase(part.replace("?", _ANY).replace("*", characters), glob)
        for part, glob in parts
        for characters in ("", _ANY * 2)
    )


def _narrower(one: LayoutRule, other: LayoutRule) -> bool:
    if not within(one.pattern, other.pattern):
        return False
    return not within(other.pattern, one.pattern) or (one.only is not None and other.only is None)


def matches_name(pattern: TableName, table: TableName) -> bool:
    """Return whether a pattern matches a table."""
    parts, globs = table.identifier, pattern.identifier
    return pattern.catalog == table.catalog and len(parts) == len(globs) and all(map(fnmatchcase, parts, globs))


def _pattern_problems(pattern: TableName, location: Location, catalog: str) -> list[Diagnostic]:
    if pattern.catalog != catalog:
        message = f"expected a pattern of one catalog, found {quote_value(str(pattern))}"
        hint = "begin the patterns of match and exclude with the name of the same catalog"
    elif any("[" in part for part in pattern.identifier):
        message = f"expected the wildcards * and ? only, found '[' in {quote_value(str(pattern))}"
        hint = "use one layout for each pattern"
    else:
        return []
    return [Diagnostic("ZL020", message, hint=hint, location=location)]


def _conditions(data: dict[str, Any]) -> Conditions:
    sizes = {key: size_in_bytes(data[key]) for key in ("min_size", "max_size") if key in data}
    return Conditions(
        partitioned=data.get("partitioned"), columns=tuple(map(column_name, data.get("columns", ()))), **sizes
    )
