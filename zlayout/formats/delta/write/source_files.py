"""What rewrites and rollbacks of Delta tables share: finding the pinned AddFiles, and beginning a transaction.

`require_no_silent_change` checks a transaction directly before its commit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from zlayout.errors import CommitConflict
from zlayout.formats.base import Group
from zlayout.formats.delta.write.jvm import DeltaJvm
from zlayout.formats.kernel.commits import Rewritten, new_files, positions_among
from zlayout.formats.kernel.requirements import changed_files, split_groups
from zlayout.spark.arrow import from_arrow
from zlayout.table.state import FileTable, Int64, identities

# The AddFiles of pinned files, and their paths in the form of `_metadata.file_path`.


# Up to this number, paths are sent to the JVM as literals in a filter. More paths are sent as a table for a join.
_MAX_PATH_LITERALS = 1000
# Characters that java.net.URI escapes in a path. `_metadata.file_path` is such a URI as a string. Of the characters
# after U+00A0, these are the spaces.
_QUOTED_IN_URI = re.compile(
    r"[^A-Za-z0-9_\-!.~'()*/@&=+$,;:\u00a1-\U0010ffff]|[\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass(frozen=True, slots=True)
class PinnedFiles:
    """The pinned AddFiles of one snapshot.

    Attributes:
        adds: A java.util.List (py4j).
        path: string[files], their paths in the log.
    """

    adds: Any
    path: pa.Array

    def of(self, group: Group) -> Int64:
        """Return the positions of a group's files in `adds`."""
        return positions_among(self.path, group.files.path.cast(pa.string()))


def still_live(groups: Sequence[Group], live: FileTable) -> tuple[list[Group], list[tuple[Group, int]]]:
    """Separate the groups whose files are unchanged from the other groups: see `split_groups`.

    A file is unchanged if it is live and has the planned deletion vector.
    """
    found = pc.is_in(identities([group.files for group in groups]), value_set=live.identity())
    return split_groups(groups, found.to_numpy(zero_copy_only=False))


def pinned_files(delta: DeltaJvm, snapshot: Any, table: str, groups: Sequence[Group], live: int) -> PinnedFiles:
    """Return the AddFiles of the groups' files in a snapshot.

    Args:
        snapshot: The snapshot (py4j).
        table: The name of the table, for messages.
        live: The number of live files in the snapshot.

    Raises:
        CommitConflict: ZL320, if a file is not in the snapshot or has another deletion vector than planned.
    """
    paths, vectors = (
        pa.concat_arrays([getattr(group.files, name).cast(pa.string()) for group in groups])
        for name in ("path", "version_key")
    )
    adds = delta.live_files(snapshot) if len(paths) == live else add_files_at(delta, snapshot, paths)
    return require_pinned(delta, adds, table, paths, vectors)


def require_pinned(delta: DeltaJvm, adds: Any, table: str, paths: pa.Array, vectors: pa.Array) -> PinnedFiles:
    """Check that AddFiles are exactly those with these paths and deletion vectors.

    Args:
        adds: The AddFiles, a java.util.List.
        table: The name of the table, for messages.
        paths: string[files], the paths in the log.
        vectors: string[files], the unique ids of the deletion vectors, '' for none.

    Raises:
        CommitConflict: ZL320, if a file is missing, additional, duplicate, or has another deletion vector.
    """
    found = delta.files.paths(adds)
    at = pc.index_in(paths, value_set=found)
    if (
        len(found) != len(paths)
        or pc.count_distinct(paths).as_py() != len(paths)
        or at.null_count
        or not delta.files.vectors(adds).take(at).equals(vectors)
    ):
        raise changed_files(table, "some", len(paths))
    return PinnedFiles(adds, found)


def add_files_at(delta: DeltaJvm, snapshot: Any, wanted: pa.Array) -> Any:
    """Return the live AddFiles with these paths, with complete statistics, as a java.util.List. wanted: string."""
    live = delta.all_files(snapshot)
    if len(wanted) <= _MAX_PATH_LITERALS:
        return delta.add_files(live.where(F.col("path").isin(wanted.to_pylist())))
    chosen = from_arrow(delta.spark, pa.table({"path": wanted}))
    return delta.add_files(live.join(F.broadcast(chosen), "path").select(live.columns))


def file_uris(base: str, paths: Iterable[str]) -> pa.Array:
    """Convert paths of the log to the form of `_metadata.file_path`.

    Args:
        base: The table's location as a URI in Hadoop's form.
        paths: URL-encoded paths relative to the table, or absolute URIs, as in a shallow clone.
    """
    return pa.array([_uri(base, path) for path in paths], pa.string())


def _uri(base: str, path: str) -> str:
    scheme = _SCHEME.match(path)
    if scheme:
        return scheme[0] + _quoted(unquote(path[scheme.end() :]))
    if path.startswith("/"):
        return (_SCHEME.match(base) or [""])[0] + _quoted(unquote(path))
    return f"{base.rstrip('/')}/{_quoted(unquote(path))}"


def _quoted(path: str) -> str:
    return _QUOTED_IN_URI.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), path)


# The transaction: its begin, the check before its commit, and its metrics.


def begin(delta: DeltaJvm, snapshot: Any, adds: Any) -> Any:
    """Begin a transaction that has read exactly these AddFiles, a java.util.List.

    For this transaction, a concurrent change of one of the files is a conflict, and a concurrent append is not.
    """
    transaction = delta.begin(snapshot)
    transaction.trackFilesRead(delta.seq(adds))
    transaction.trackReadPredicates(delta.seq([]), False, True)
    return transaction


def require_no_silent_change(delta: DeltaJvm, transaction: Any, table: str, hint: str) -> None:
    """Check for changes since the transaction's snapshot that must prevent the commit, but are no conflicts for Delta.

    Call this directly before the commit. It checks three changes:

    - Row tracking was enabled. Delta would give the rows new ids, although they have ids since that change.
    - The clustering columns were changed. Delta's conflict check ignores the domain metadata that contains them. (If a
      table is clustered for the first time, it gets a table feature, which is a conflict in the commit itself:
      `outcome.Log`.)
    - The catalog of the table has taken over its commits. Delta 4.4 would write the commit to the log without the
      catalog. Reading the newest snapshot is the check, because Delta refuses to read it in this case.

    Args:
        transaction: The transaction that will be committed (py4j).
        table: The name of the table, for messages.
        hint: What to do after a conflict.

    Raises:
        CommitConflict: ZL321.
        Py4JJavaError: If the catalog owns the commits now, or the log cannot be read.
    """
    before, now = transaction.snapshot(), delta.snapshot()
    if not delta.tracks_rows(before) and delta.tracks_rows(now):
        raise CommitConflict.of("ZL321", f"{table}: row tracking was enabled before the commit", hint=hint)
    clustering = delta.clustering(before)
    if clustering is not None and delta.clustering(now) != clustering:
        raise CommitConflict.of("ZL321", f"{table}: the clustering columns were changed before the commit", hint=hint)


def operation_metrics(rewritten: Sequence[Rewritten]) -> dict[str, int]:
    """Return the metrics of the commit that replaces the files of these groups, which DESCRIBE HISTORY shows.

    Names and meaning are those of Delta's own OPTIMIZE: `DeltaOperationMetrics.OPTIMIZE` and `createMetrics` in Delta's
    `commands/OptimizeTableCommand.scala`.
    """
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
    """Return the quartiles of sorted sizes as Delta computes them: the elements at a quarter, a half and so on."""
    count = len(sizes)
    if not count:  # all rows of the groups were deleted, so no file was written
        return {}
    at = {"min": 0, "p25": count // 4, "p50": count // 2, "p75": count * 3 // 4, "max": count - 1}
    return {f"{name}FileSize": int(sizes[index]) for name, index in at.items()}
