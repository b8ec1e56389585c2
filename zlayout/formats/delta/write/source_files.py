"""The pinned files of a work as AddFiles of Delta, and their paths as Spark shows them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc

from zlayout.formats.base import Group
from zlayout.formats.kernel.requirements import changed_files, split_groups
from zlayout.table.state import FileTable, identities

if TYPE_CHECKING:
    from zlayout.formats.delta.write.jvm import DeltaJvm

# Up to so many paths are sent as literals, one by one.
_FEW = 1000
# The complement of what java.net.URI leaves unquoted in a path; `_metadata.file_path` is such a URI as text.
_QUOTED_IN_URI = re.compile(r"[^A-Za-z0-9_\-!.~'()*/@&=+$,;:\u00a1-\U0010ffff]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass(frozen=True, slots=True)
class PinnedFiles:
    """AddFiles of one snapshot, by their path in the log; py4j references."""

    adds: Any
    by_path: dict[str, Any]

    def of(self, group: Group) -> list[Any]:
        return [self.by_path[path] for path in group.files.path.to_pylist()]


def still_live(groups: Sequence[Group], live: FileTable) -> tuple[list[Group], list[tuple[Group, int]]]:
    """Separate the groups whose files are all live with the deletion vectors that they were planned with.

    Returns:
        These groups, and the others with the number of their changed files.
    """
    found = pc.is_in(identities([group.files for group in groups]), value_set=live.identity())
    return split_groups(groups, found.to_numpy(zero_copy_only=False))


def pinned_files(delta: DeltaJvm, snapshot: Any, table: str, groups: Sequence[Group], live: int) -> PinnedFiles:
    """Return the groups' files as the snapshot has them. live: the number of all its files.

    Raises CommitConflict ZL320 unless it has all of them unchanged.
    """
    pins = {
        path: vector
        for group in groups
        for path, vector in zip(group.files.path.to_pylist(), group.files.version_key.to_pylist(), strict=True)
    }
    adds = delta.whole(snapshot) if len(pins) == live else _adds(delta, snapshot, list(pins))
    by_path = {file.path(): file for file in adds}
    unchanged = all(_vector(file) == pins.get(path) for path, file in by_path.items())
    if not unchanged or len(by_path) != adds.size() or adds.size() != sum(len(group.files) for group in groups):
        files = sum(len(group.files) for group in groups)
        raise changed_files(table, "some", files)
    return PinnedFiles(delta.seq(adds), by_path)


def _adds(delta: DeltaJvm, snapshot: Any, paths: Sequence[str]) -> Any:
    """The live AddFiles at these paths as a java.util.List: by a filter, or by a join if there are many paths."""
    from pyspark.sql import functions as f

    live, wanted = delta.all_files(snapshot), pa.array(paths, pa.string())
    if len(wanted) <= _FEW:
        return delta.add_files(live.where(f.col("path").isin(wanted.to_pylist())))
    chosen = delta.spark.createDataFrame(pa.table({"path": wanted}))
    return delta.add_files(live.join(f.broadcast(chosen), "path").select(live.columns))


def _vector(file: Any) -> str:
    """The unique id of an AddFile's deletion vector as in `FileTable.version_key`, empty for none."""
    unique_id = file.getDeletionVectorUniqueId()
    return str(unique_id.get()) if unique_id.isDefined() else ""


def file_uris(base: str, paths: Iterable[str]) -> pa.Array:
    """Return paths of the log as `_metadata.file_path` has them. base: the table's folder as a URI, from Hadoop.

    The log has URL-encoded paths relative to the table, or absolute URIs in a shallow clone.
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
