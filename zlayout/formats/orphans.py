"""Finds orphans: files below a table's location that no version refers to, for example those of a killed writer.

zlayout lists orphans and never deletes them.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime

import pyarrow.fs as pa_fs


@dataclass(frozen=True, slots=True)
class Orphan:
    """One orphan.

    Attributes:
        path: The path relative to the table's location.
        bytes: The size on storage.
        modified: The time of the last write in UTC, None if unknown.
    """

    path: str
    bytes: int
    modified: datetime | None


@dataclass(frozen=True, slots=True)
class Orphans:
    """The orphans of a table.

    Attributes:
        files: The orphans, oldest first.
        remedy: The SQL statement of the format that removes orphans, as a dry run.
    """

    files: tuple[Orphan, ...]
    remedy: str


def find_orphans(
    storage: pa_fs.FileSystem, folder: str, referenced: Collection[str], remedy: str, hidden: Collection[str] = ()
) -> Orphans:
    """Return the files below a folder that no version refers to, except for hidden files.

    Args:
        storage: The file system of `folder`.
        folder: The table's location in `storage`.
        referenced: The paths that some version refers to, relative to `folder`.
        remedy: The SQL statement of the format that removes orphans, as a dry run.
        hidden: Names of files and folders that are hidden in this table, in addition to those of `_hidden`.
    """
    root, found = folder.strip("/"), []
    for info in storage.get_file_info(pa_fs.FileSelector(folder, recursive=True, allow_not_found=True)):
        path = info.path.strip("/").removeprefix(root).lstrip("/")
        is_hidden = any(_hidden(part) or part in hidden for part in path.split("/"))
        if info.type == pa_fs.FileType.File and path not in referenced and not is_hidden:
            found.append(Orphan(path, info.size, info.mtime))
    return Orphans(tuple(sorted(found, key=lambda o: (o.modified is None, o.modified, o.path))), remedy)


def _hidden(part: str) -> bool:
    """Return whether a file or folder of this name is hidden. VACUUM ignores hidden files.

    Logs, markers and checksums are hidden: their names begin with `_` or `.`. Folders of change data are not hidden,
    nor are folders of partitions, even if the name of the partition column begins with `_`.
    """
    return part.startswith(("_", ".")) and part != "_change_data" and "=" not in part
