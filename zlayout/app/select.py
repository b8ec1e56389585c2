"""Select layouts of a project by table names, globs, tags and paths."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Sequence
from fnmatch import fnmatchcase

from zlayout.errors import SpecError
from zlayout.message_text import quote_value
from zlayout.spec.model import LayoutSpec
from zlayout.spec.patterns import WILDCARDS

MAX_NAMES = 10  # in an error


def select_layouts(
    layouts: Sequence[LayoutSpec], wanted: str | Iterable[str], excluded: str | Iterable[str]
) -> tuple[LayoutSpec, ...]:
    """Return the layouts that match any of `wanted` (all if empty) and none of `excluded`, in their order.

    A string is one pattern.

    Raises SpecError ZL045 if a pattern in `wanted` or a table name in `excluded` matches nothing. Without this check, a
    misspelled name would look like success, or would not exclude its table.
    """
    wanted, excluded = (((p,) if isinstance(p, str) else tuple(p)) for p in (wanted, excluded))
    if not layouts:
        hint = "add a file that `layouts:` in zlayout.yaml matches"
        raise SpecError.of("ZL045", "expected at least one layout, found none", hint=hint)
    for pattern in (*wanted, *filter(is_name, excluded)):
        if not any(_matches(spec, pattern) for spec in layouts):
            names = [str(spec.table) for spec in layouts]
            close = difflib.get_close_matches(pattern, names, 1)
            listed = ", ".join(names[:MAX_NAMES]) + (f" and {len(names) - MAX_NAMES:,} more" * (len(names) > MAX_NAMES))
            hint = f"did you mean {close[0]}?" if close else f"tables with a layout: {listed}"
            if pattern.endswith(".json"):
                hint = "there is no plan file of this name here; write one with `zlayout plan --out FILE`"
            raise SpecError.of("ZL045", f"no layout matches {pattern!r}", hint=hint)
    return tuple(
        spec
        for spec in layouts
        if (not wanted or any(_matches(spec, p) for p in wanted)) and not any(_matches(spec, p) for p in excluded)
    )


def named_layouts(layouts: Sequence[LayoutSpec], tables: Collection[str]) -> tuple[LayoutSpec, ...]:
    """Return the layouts of the named tables. Raises SpecError ZL045 for a table without a layout."""
    chosen = tuple(spec for spec in layouts if str(spec.table) in tables)
    for name in sorted(set(tables) - {str(spec.table) for spec in chosen}):
        hint = "run `zlayout plan` again: the project changed"
        raise SpecError.of("ZL045", f"expected a layout of {quote_value(name)}, found none", hint=hint)
    return chosen


def is_name(pattern: str) -> bool:
    """Return whether the pattern is a table name. Tags and globs in `excluded` may match nothing."""
    return not pattern.startswith(("tag:", "path:")) and not set(pattern) & set(WILDCARDS)


def _matches(spec: LayoutSpec, pattern: str) -> bool:
    if pattern.startswith("tag:"):
        return any(fnmatchcase(tag, pattern[4:]) for tag in spec.tags)
    if pattern.startswith("path:"):
        return fnmatchcase(spec.location.path, pattern[5:])
    return fnmatchcase(str(spec.table), pattern)
