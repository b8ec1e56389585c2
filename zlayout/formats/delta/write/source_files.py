"""The pinned files of a work order inside Delta: as AddFiles, and as the rows they hold."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zlayout.errors import CommitConflict, Diagnostic
from zlayout.formats.base import Group
from zlayout.table.state import FileTable, identities

if TYPE_CHECKING:
    from zlayout.formats.delta.write.jvm import DeltaJvm

# So many paths are still quick to send as literals, one by one.
_FEW = 1000
# What java.net.URI leaves as it is in a path; `_metadata.file_path` is such a URI as text.
_QUOTED_IN_URI = re.compile(r"[^A-Za-z0-9_\-!.~'()*/@&=+$,;:\u00a1-\U0010ffff]")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass(frozen=True, slots=True)
class PinnedFiles:
    """AddFiles of one snapshot, by their path in the log; py4j references."""

    adds: Any
    by_path: dict[str, Any]

    def of(self, group: Group) -> list[Any]:
        return [self.by_path[path] for path in group.files.path.to_pylist()]


def still_live(groups: Sequence[Group], live: FileTable) -> tuple[list[Group], list[Group]]:
    """Groups whose files are all live with the deletion vectors they were planned with, and the other groups."""
    found = pc.is_in(identities([group.files for group in groups]), value_set=live.identity())
    gone = np.flatnonzero(~found.to_numpy(zero_copy_only=False))
    ends = np.cumsum([len(group.files) for group in groups])
    hit = set(np.searchsorted(ends, gone, side="right").tolist())
    kept = [group for at, group in enumerate(groups) if at not in hit]
    return kept, [groups[at] for at in sorted(hit)]


def changed_meanwhile(table: str, groups: Sequence[Group]) -> CommitConflict:
    files = sum(len(group.files) for group in groups)
    return CommitConflict(
        Diagnostic(
            "ZL320",
            f"{table}: some of {files} planned files were removed or changed since the plan",
            hint="the other change stands; plan and apply again",
        )
    )


def pinned_files(delta: DeltaJvm, snapshot: Any, table: str, groups: Sequence[Group], live: int) -> PinnedFiles:
    """The groups' files as the snapshot has them. live: how many files it has in all.

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
        raise changed_meanwhile(table, groups)
    return PinnedFiles(delta.seq(adds), by_path)


def _adds(delta: DeltaJvm, snapshot: Any, paths: Sequence[str]) -> Any:
    """The live AddFiles at these paths as a java.util.List: by a filter, or by a join where the paths are many."""
    from pyspark.sql import functions as f

    live, wanted = delta.all_files(snapshot), pa.array(paths, pa.string())
    if len(wanted) <= _FEW:
        return delta.add_files(live.where(f.col("path").isin(wanted.to_pylist())))
    chosen = delta.spark.createDataFrame(pa.table({"path": wanted}))
    return delta.add_files(live.join(f.broadcast(chosen), "path").select(live.columns))


def _vector(file: Any) -> str:
    """The unique id of an AddFile's deletion vector, empty for none: what `FileTable.version_key` has."""
    unique_id = file.getDeletionVectorUniqueId()
    return str(unique_id.get()) if unique_id.isDefined() else ""


def file_uris(base: str, paths: Iterable[str]) -> pa.Array:
    """Paths of the log as `_metadata.file_path` shows them. base: the table's folder as a URI, from Hadoop.

    The log has URL-encoded paths, relative to the table, or absolute URIs in a shallow clone.
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
