"""Divide a long range into pieces, so that the arrays computed for one piece are small."""

from __future__ import annotations

from itertools import pairwise


def pieces(start: int, stop: int, size: int) -> list[tuple[int, int]]:
    """The start and end of each piece of length `size`, in order. The last one may be shorter."""
    return list(pairwise([*range(start, stop, size), stop]))
