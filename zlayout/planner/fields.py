"""Types of fields of the plan document, with their limits.

`zlayout.planner.document` checks the limits when it reads a file, and the JSON Schema states them.
"""

from __future__ import annotations

from typing import Annotated, Any

from annotated_types import Ge, Le, Len

from zlayout.table.external import MAX_MILLISECONDS


class _ByKind:
    """Declares to pydantic that the field `kind` is the tag of a tagged union."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic import Field  # imported here because most commands read no plan file

        return handler(Annotated[source, Field(discriminator="kind")])


BY_KIND = _ByKind()
Count = Annotated[int, Ge(0)]
# A time as milliseconds since 1970, up to the end of the year 9999: reports write it as a date.
Milliseconds = Annotated[int, Ge(0), Le(MAX_MILLISECONDS)]
# The label of each class with its number of files, in the order of the classes.
Histogram = Annotated[tuple[tuple[str, Count], ...], Len(0, 100)]
