"""New files, looked up on storage right before a commit names them: whatever cleans up storage may have come by."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from zlayout.errors import EngineError

AT_ONCE = 16  # looks at an object store, each of which takes some 20 ms


def require_files(sizes: Mapping[str, int], stored: Callable[[str], int | None]) -> None:
    """Raise EngineError ZL316 unless each new file is on storage with its size.

    sizes: bytes that the commit will say, by path. stored: bytes on storage, None for no file; called from threads.
    """
    if not sizes:
        return
    with ThreadPoolExecutor(min(len(sizes), AT_ONCE)) as pool:
        for (path, size), found in zip(sizes.items(), pool.map(stored, sizes), strict=True):
            if found != size:
                raise EngineError.of(
                    "ZL316",
                    "a new file is not on storage as it was written",
                    detail=f"{path}: expected {size} bytes, "
                    + ("found no file" if found is None else f"found {found}"),
                    hint="nothing was committed; something removes files of this table (VACUUM without retention, "
                    "orphan removal): stop it, then run again",
                )
