"""Compares the sizes of files on storage with those that a table records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

MAX_CONCURRENT_REQUESTS = 16  # a request to an object store takes about 20 ms


def missing_files(sizes: Mapping[str, int], stored: Callable[[str], int | None]) -> Iterator[tuple[str, int | None]]:
    """Yield each file that is missing or has another size on storage: its path, and its size there (None if missing).

    Args:
        sizes: The recorded sizes in bytes, by path.
        stored: Returns the size in bytes on storage, given the path; None if there is no file. It is called by several
            threads.
    """
    if not sizes:
        return
    with ThreadPoolExecutor(min(len(sizes), MAX_CONCURRENT_REQUESTS)) as pool:
        for (path, size), found in zip(sizes.items(), pool.map(stored, sizes), strict=True):
            if found != size:
                yield path, found
