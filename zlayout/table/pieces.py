"""A long range in pieces, so that what is computed of one at a time stays small."""

from __future__ import annotations

from itertools import pairwise


def pieces(start: int, stop: int, size: int) -> list[tuple[int, int]]:
    """Start and end of each piece of `size`, in order; the last one may be shorter. None of an empty range."""
    return list(pairwise([*range(start, stop, size), stop]))
