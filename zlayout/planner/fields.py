"""Types for the fields of the plan document, with the limits that a document from a file must keep.

The limits are metadata: `zlayout.planner.document` enforces them when it reads a file, and the JSON Schema states them.
"""

from __future__ import annotations

from typing import Annotated, Any

from annotated_types import Ge, Len


class _ByKind:
    """Marks a union whose members are told apart by their field `kind`."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic import Field  # here, because most commands read no plan file

        return handler(Annotated[source, Field(discriminator="kind")])


BY_KIND = _ByKind()
Count = Annotated[int, Ge(0)]
# Labels and numbers of files, in the order of the labels.
Histogram = Annotated[tuple[tuple[str, Count], ...], Len(0, 100)]
