"""Divides the groups of a plan into parts that are committed one after the other."""

from __future__ import annotations

from collections.abc import Iterable

from zlayout.planner.actions import RewriteGroup


def parts_of(rewrites: Iterable[RewriteGroup], most_bytes: int | None) -> list[list[RewriteGroup]]:
    """Divide groups, in their order, into parts that have at most `most_bytes` each, or one group.

    Args:
        rewrites: The groups. None is divided.
        most_bytes: In bytes, None for no limit.
    """
    parts: list[list[RewriteGroup]] = []
    room = 0
    for rewrite in rewrites:
        if not parts or (most_bytes is not None and rewrite.bytes > room):
            parts.append([])
            room = most_bytes or 0
        parts[-1].append(rewrite)
        room -= rewrite.bytes
    return parts
