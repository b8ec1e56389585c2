"""Finds the AddFiles of pinned files, and converts their paths to the form of `_metadata.file_path`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from zlayout.formats.base import Group
from zlayout.formats.kernel.commits import positions_among
from zlayout.formats.kernel.requirements import changed_files, split_groups
from zlayout.spark.arrow import from_arrow
from zlayout.table.state import FileTable, Int64, identities

if TYPE_CHECKING:
    from zlayout.formats.delta.write.jvm import DeltaJvm

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
    from pyspark.sql import functions as f

    live = delta.all_files(snapshot)
    if len(wanted) <= _MAX_PATH_LITERALS:
        return delta.add_files(live.where(f.col("path").isin(wanted.to_pylist())))
    chosen = from_arrow(delta.spark, pa.table({"path": wanted}))
    return delta.add_files(live.join(f.broadcast(chosen), "path").select(live.columns))


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
