"""Determines the Spark partition that wrote a new file, and checks before a commit that new files are on storage."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zlayout.errors import EngineError
from zlayout.table.state import Int64


@dataclass(frozen=True, slots=True)
class FileName:
    """How the writer of a format names a file.

    Attributes:
        pattern: A regular expression (RE2), whose group `partition` is the number of the Spark partition.
        expected: The pattern in the error message.
        hint: The hint for a file with another name.
    """

    pattern: str
    expected: str
    hint: str


def spark_partitions(paths: pa.Array, name: FileName) -> Int64:
    """Return the number of the Spark partition that wrote each new file. Raises EngineError ZL318 for another name."""
    found = pc.extract_regex(paths, name.pattern)
    if found.null_count:
        path = paths[pc.index(found.is_null(), True).as_py()]
        message = f"expected a new file named {name.expected}, found {path}"
        raise EngineError.of("ZL318", message, hint=f"{name.hint}; nothing was committed")
    return np.asarray(found.field("partition").cast(pa.int64()), np.int64)


def require_sizes(paths: pa.Array, recorded: Int64, stored: Int64) -> None:
    """Check that each new file is on storage with its size, because a clean-up may have removed it.

    Args:
        paths: string[files].
        recorded: int64[files], the sizes in bytes that the commit will record.
        stored: int64[files], the sizes in bytes on storage, -1 for a missing file.

    Raises:
        EngineError: ZL316, if a file is missing or has another size.
    """
    for at in np.flatnonzero(recorded != stored)[:1].tolist():
        found = f"found {stored[at]}" if stored[at] >= 0 else "found no file"
        raise EngineError.of(
            "ZL316",
            "a new file is missing on storage, or has another size",
            detail=f"{paths[at].as_py()}: expected {recorded[at]} bytes, {found}",
            hint="stop what removes files of this table (VACUUM without retention, orphan removal), then run again; "
            "nothing was committed",
        )
