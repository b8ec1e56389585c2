"""Checks that new files are on storage right before a commit names them, since a clean-up may have removed them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from zlayout.errors import EngineError

AT_ONCE = 16  # requests to an object store, each of which takes some 20 ms


def require_files(sizes: Mapping[str, int], stored: Callable[[str], int | None]) -> None:
    """Check that each new file is on storage with its size.

    Args:
        sizes: Bytes that the commit will record, by path.
        stored: Returns the bytes on storage, None if there is no file. It is called from several threads.

    Raises:
        EngineError: ZL316.
    """
    if not sizes:
        return
    with ThreadPoolExecutor(min(len(sizes), AT_ONCE)) as pool:
        for (path, size), found in zip(sizes.items(), pool.map(stored, sizes), strict=True):
            if found != size:
                raise EngineError.of(
                    "ZL316",
                    "a new file is missing on storage, or has another size",
                    detail=f"{path}: expected {size} bytes, "
                    + ("found no file" if found is None else f"found {found}"),
                    hint="nothing was committed; something removes files of this table (VACUUM without retention, "
                    "orphan removal): stop it, then run again",
                )
