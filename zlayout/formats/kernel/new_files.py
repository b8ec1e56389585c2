"""Determines the Spark partition that wrote a new file, and checks before a commit that new files are on storage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from re import Pattern

from zlayout.errors import EngineError
from zlayout.formats.stored_files import missing_files


@dataclass(frozen=True, slots=True)
class FileName:
    """How the writer of a format names a file.

    Attributes:
        pattern: A regular expression, whose first group is the number of the Spark partition.
        expected: The pattern in the error message.
        hint: The hint for a file with another name.
    """

    pattern: Pattern[str]
    expected: str
    hint: str


def spark_partition(path: str, name: FileName) -> int:
    """Return the number of the Spark partition that wrote a new file. Raises EngineError ZL318 for another name."""
    if found := name.pattern.search(path):
        return int(found[1])
    message = f"expected a new file named {name.expected}, found {path}"
    raise EngineError.of("ZL318", message, hint=f"{name.hint}; nothing was committed")


def require_files(sizes: Mapping[str, int], stored: Callable[[str], int | None]) -> None:
    """Check that each new file is on storage with its size, because a clean-up may have removed it.

    Args:
        sizes: The sizes in bytes that the commit will record, by path.
        stored: Returns the size in bytes on storage, None if there is no file. It is called from several threads.

    Raises:
        EngineError: ZL316, if a file is missing or has another size.
    """
    for path, found in missing_files(sizes, stored):
        raise EngineError.of(
            "ZL316",
            "a new file is missing on storage, or has another size",
            detail=f"{path}: expected {sizes[path]} bytes, " + ("found no file" if found is None else f"found {found}"),
            hint="stop what removes files of this table (VACUUM without retention, orphan removal), then run "
            "again; nothing was committed",
        )
