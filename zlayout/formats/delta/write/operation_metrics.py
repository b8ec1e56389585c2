"""The operation metrics of a rewrite, as Delta's own OPTIMIZE stores them. DESCRIBE HISTORY shows them.

Names and meaning are those of `DeltaOperationMetrics.OPTIMIZE` and of `createMetrics` in Delta's
`commands/OptimizeTableCommand.scala`.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow.compute as pc

from zlayout.formats.kernel.commits import Rewritten, new_files


def operation_metrics(rewritten: Sequence[Rewritten]) -> dict[str, int]:
    """Return the metrics of the commit that replaces the files of these groups, by Delta's names."""
    removed = [each.group.files for each in rewritten]
    vectors = sum(pc.sum(pc.not_equal(f.version_key, "")).as_py() or 0 for f in removed)
    sizes = [int(size) for files in removed for size in files.bytes]
    return replacement_metrics(sizes, [file.bytes for file in new_files(rewritten)], vectors)


def replacement_metrics(removed: Sequence[int], added: Sequence[int], vectors: int) -> dict[str, int]:
    """Return the metrics of a replacement of files, given their sizes and the number of removed deletion vectors."""
    return {
        "numRemovedFiles": len(removed),
        "numRemovedBytes": sum(removed),
        "numAddedFiles": len(added),
        "numAddedBytes": sum(added),
        **_quartiles(sorted(added)),
        "numDeletionVectorsRemoved": vectors,
    }


def _quartiles(sizes: Sequence[int]) -> dict[str, int]:
    """Return the quartiles of sorted sizes. Delta takes the element at a quarter of the number, rounded down."""
    count = len(sizes)
    if not count:  # every row of the groups was deleted
        return {}
    at = {"min": 0, "p25": count // 4, "p50": count // 2, "p75": count * 3 // 4, "max": count - 1}
    return {f"{name}FileSize": sizes[index] for name, index in at.items()}
