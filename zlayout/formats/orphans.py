"""Files in a table's folder that no retained version names: what a killed writer leaves. Found, never deleted."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime

import pyarrow.fs as pa_fs

from zlayout.spec.model import CatalogConfig, TableName


@dataclass(frozen=True, slots=True)
class Orphan:
    """path: below the table's folder. bytes: on storage. modified: when it was written, in UTC; None where unknown."""

    path: str
    bytes: int
    modified: datetime | None


@dataclass(frozen=True, slots=True)
class Orphans:
    """Oldest first, and the statement by which the format itself removes such files."""

    files: tuple[Orphan, ...]
    remedy: str


def find_orphans(catalog: CatalogConfig, table: TableName) -> Orphans:
    """List the table's folder beside its metadata. A file that another writer has not committed yet is found too.

    Raises TableError where the table, its log or its folder cannot be read.
    """
    if catalog.format == "delta":
        from zlayout.formats.delta.read.orphans import delta_orphans

        return delta_orphans(catalog, table)
    from zlayout.formats.iceberg.read.orphans import iceberg_orphans

    return iceberg_orphans(catalog, table)


def unnamed(storage: pa_fs.FileSystem, folder: str, named: Collection[str], remedy: str) -> Orphans:
    """The files below `folder` whose path from there is not `named`, without hidden ones (`_` or `.`)."""
    found = [
        Orphan(path, info.size, info.mtime)
        for path, info in _listed(storage, folder)
        if path not in named and not any(_hidden(part) for part in path.split("/"))
    ]
    return Orphans(tuple(sorted(found, key=lambda o: (o.modified is None, o.modified, o.path))), remedy)


def _listed(storage: pa_fs.FileSystem, folder: str) -> Iterator[tuple[str, pa_fs.FileInfo]]:
    root = folder.strip("/")
    for info in storage.get_file_info(pa_fs.FileSelector(folder, recursive=True, allow_not_found=True)):
        if info.type == pa_fs.FileType.File:
            yield info.path.strip("/").removeprefix(root).lstrip("/"), info


def _hidden(part: str) -> bool:
    """As VACUUM has it: a log, a marker, a checksum; but change data, and partition columns that begin with _."""
    return part.startswith(("_", ".")) and part != "_change_data" and "=" not in part
