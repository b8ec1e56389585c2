"""The reserved names: those of the columns that engine zlayout adds to rows during a rewrite.

A table that has a column with such a name is refused.
"""

from __future__ import annotations

from collections.abc import Iterable

from zlayout.errors import Diagnostic

PREFIX = "__zlayout_"


def reserved_refusals(names: Iterable[str]) -> tuple[Diagnostic, ...]:
    """Return ZL260 if some of these columns have reserved names, in any letter case; empty if none has.

    Spark could not distinguish such a column from the one that zlayout adds.
    """
    if not (found := sorted({name for name in names if name.lower().startswith(PREFIX)})):
        return ()
    message = f"columns whose names begin with {PREFIX}, which a rewrite uses itself: {', '.join(found)}"
    return (Diagnostic("ZL260", message, "refused", "rename them by ALTER TABLE ... RENAME COLUMN"),)
