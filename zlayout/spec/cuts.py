"""Read the cuts of a layout spec, `zorder.cuts`: comparisons of a z-order column with a literal by `<` or `<=`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from zlayout.errors import Diagnostic, Location, SpecError
from zlayout.message_text import quote_value
from zlayout.predicate.literals import literal
from zlayout.predicate.model import Compare
from zlayout.predicate.parse import parse_where, to_sql
from zlayout.spec.layout import WORKLOAD_CURVE, Layout

_NOWHERE = Location("")


def parse_cut(text: str, location: Location) -> Compare:
    """Parse one cut.

    Raises:
        SpecError: ZL058 for anything but a column, `<` or `<=`, and a literal.
    """
    try:
        found = parse_where(text, location)
    except SpecError:
        found = None
    if isinstance(found, Compare) and found.operator in ("<", "<="):
        return found
    message = f"expected column < literal or column <= literal in zorder.cuts, found {quote_value(text)}"
    raise SpecError.of("ZL058", message, hint="for example l_shipdate < DATE '1995-01-01'", location=location)


def parsed_cuts(written: Any) -> tuple[Compare, ...] | None:
    """Parse the cuts of a layout record; None if they are not cuts."""
    try:
        return tuple(parse_cut(text, _NOWHERE) for text in written)
    except (SpecError, TypeError):
        return None


def cut_problems(layout: Layout, locations: dict[str, Location], location: Location) -> Iterator[Diagnostic]:
    """Yield ZL058 for cuts without curve workload, the reverse, a cut of another column, and one that is repeated."""
    place = locations.get("zorder.cuts") or locations.get("zorder.curve") or location
    if layout.cuts and layout.curve != WORKLOAD_CURVE:
        message = f"expected curve workload with zorder.cuts, found {layout.curve}"
        yield Diagnostic("ZL058", message, hint="set curve: workload, or remove the cuts", location=place)
    if layout.curve == WORKLOAD_CURVE and not layout.cuts:
        hint = "add cuts, which zlayout advise finds for a workload, or use curve kd"
        yield Diagnostic("ZL058", "expected zorder.cuts with curve workload, found none", hint=hint, location=place)
    names = {column.name.lower() for column in layout.columns}
    for index, cut in enumerate(layout.cuts):
        place = locations.get(f"zorder.cuts[{index}]") or place
        if cut.column.lower() not in names:
            message = f"expected a column of zorder.columns in zorder.cuts, found {quote_value(cut.column)}"
            yield Diagnostic("ZL058", message, hint="add it to zorder.columns, or remove the cut", location=place)
        elif cut in layout.cuts[:index]:
            message = f"duplicate cut at {literal(cut.value)} in zorder.cuts"
            yield Diagnostic("ZL058", message, hint="keep the first one", location=place)


def cut_texts(cuts: Sequence[Compare]) -> list[str]:
    """Write cuts for a layout spec, with columns in backticks only where the parser needs them."""
    plain = [f"{cut.column} {cut.operator} {literal(cut.value)}" for cut in cuts]
    return [text if parsed_cuts([text]) == (cut,) else to_sql(cut) for text, cut in zip(plain, cuts, strict=True)]
