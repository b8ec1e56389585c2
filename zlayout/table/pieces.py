"""A long range in pieces, so that the arrays computed for one piece stay small."""

from __future__ import annotations

from itertools import pairwise


def pieces(start: int, stop: int, size: int) -> list[tuple[int, int]]:
    """Start and end of each piece of `size`, in order; the last may be shorter. An empty range has no pieces."""
    return list(pairwise([*range(start, stop, size), stop]))
