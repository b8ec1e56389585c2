"""Files in a table's folder that no retained version names, as a killed writer leaves them. They are never deleted."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import datetime

import pyarrow.fs as pa_fs


@dataclass(frozen=True, slots=True)
class Orphan:
    """One file.

    path: below the table's folder. bytes: on storage. modified: the time of the last write in UTC, None if unknown.
    """

    path: str
    bytes: int
    modified: datetime | None


@dataclass(frozen=True, slots=True)
class Orphans:
    """The files, oldest first, and the statement by which the format itself removes such files."""

    files: tuple[Orphan, ...]
    remedy: str


def unnamed(storage: pa_fs.FileSystem, folder: str, named: Collection[str], remedy: str) -> Orphans:
    """Return the files below a folder that nothing names, oldest first, without hidden ones (`_` or `.`).

    Args:
        storage: The file system of `folder`.
        folder: The table's folder.
        named: Paths below `folder` that some version names.
        remedy: The statement by which the format removes such files.
    """
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
    """As in VACUUM: logs, markers and checksums are hidden; change data and partition columns with _ are not."""
    return part.startswith(("_", ".")) and part != "_change_data" and "=" not in part
