"""The names of columns that engine zlayout adds to rows during a rewrite. A table cannot have columns of such names."""

from __future__ import annotations

from collections.abc import Iterable

from zlayout.errors import Diagnostic

PREFIX = "__zlayout_"


def reserved_refusals(names: Iterable[str]) -> tuple[Diagnostic, ...]:
    """Return ZL260 for columns with reserved names, in any letter case; Spark would mix them up with those of zlayout.

    names: of columns, as of `TableState.columns` or of a Spark frame.
    """
    if not (found := sorted({name for name in names if name.lower().startswith(PREFIX)})):
        return ()
    message = f"columns whose names begin with {PREFIX}, which a rewrite uses itself: {', '.join(found)}"
    return (Diagnostic("ZL260", message, "refused", "rename them by ALTER TABLE ... RENAME COLUMN"),)
