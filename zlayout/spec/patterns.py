"""Search for the files that match a pattern of `layouts:` or `workload:`.

Each folder is listed at most once for each part of the pattern, and wildcards do not follow links to folders. Therefore
neither a pattern nor a link can make the search long.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath

WILDCARDS = "*?["


def matching(root: Path, pattern: str) -> Iterator[Path]:
    """Yield the matching paths below `root`.

    Args:
        root: The folder to search.
        pattern: A relative path. `*`, `?` and `[...]` match characters of one name, `**` matches any number of folders.

    Raises:
        ValueError: `**` is only a part of a name.
    """
    parts = PurePosixPath(pattern).parts
    if any("**" in part and part != "**" for part in parts):
        raise ValueError("Invalid pattern: '**' can only be an entire path component")
    todo, seen = [(root, 0)], set()
    while todo:
        at = path, index = todo.pop()
        if at in seen:
            continue
        seen.add(at)
        if index == len(parts):
            yield path
        elif parts[index] == "**":
            todo.append((path, index + 1))
            todo += [(Path(e.path), index) for e in _entries(path) if e.is_dir(follow_symlinks=False)]
        elif any(c in parts[index] for c in WILDCARDS):
            last = index + 1 == len(parts)
            found = (e for e in _entries(path) if fnmatchcase(e.name, parts[index]))
            todo += [(Path(e.path), index + 1) for e in found if last or e.is_dir(follow_symlinks=False)]
        elif os.path.lexists(path / parts[index]):
            todo.append((path / parts[index], index + 1))


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []
