"""The operation metrics of a rewrite, as Delta's own OPTIMIZE stores them. DESCRIBE HISTORY shows them.

Names and meaning are those of `DeltaOperationMetrics.OPTIMIZE` and of `createMetrics` in Delta's
`commands/OptimizeTableCommand.scala`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow.compute as pc

from zlayout.formats.kernel.commits import Rewritten, new_files
from zlayout.table.state import Int64


def operation_metrics(rewritten: Sequence[Rewritten]) -> dict[str, int]:
    """Return the metrics of the commit that replaces the files of these groups, by Delta's names."""
    removed = [each.group.files for each in rewritten]
    vectors = sum(pc.sum(pc.not_equal(f.version_key, "")).as_py() or 0 for f in removed)
    return replacement_metrics(np.concatenate([f.bytes for f in removed]), new_files(rewritten).bytes, vectors)


def replacement_metrics(removed: Int64, added: Int64, vectors: int) -> dict[str, int]:
    """Return the metrics of a replacement of files, given their sizes and the number of removed deletion vectors."""
    return {
        "numRemovedFiles": len(removed),
        "numRemovedBytes": int(removed.sum()),
        "numAddedFiles": len(added),
        "numAddedBytes": int(added.sum()),
        **_quartiles(np.sort(added)),
        "numDeletionVectorsRemoved": vectors,
    }


def _quartiles(sizes: Int64) -> dict[str, int]:
    """Return the quartiles of sorted sizes. Delta takes the element at a quarter of the number, rounded down."""
    count = len(sizes)
    if not count:  # every row of the groups was deleted
        return {}
    at = {"min": 0, "p25": count // 4, "p50": count // 2, "p75": count * 3 // 4, "max": count - 1}
    return {f"{name}FileSize": int(sizes[index]) for name, index in at.items()}
