"""`history:` of `zlayout.yaml`: where commands keep what they found and did."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

DEFAULT_PATH = ".zlayout/history.db"
DEFAULT_KEEP = "400d"


@dataclass(frozen=True, slots=True)
class HistoryConfig:
    """The history of a project, in a SQLite file or in a Delta or Iceberg table.

    path: the SQLite file; ignored if there is a table. table: the name of the table as declared; empty for the file.
    keep_days: records that are older are removed.
    """

    path: Path
    keep_days: int
    table: str = ""


def history_config(entry: Mapping[str, Any], root: Path) -> HistoryConfig | None:
    """Return the history that `history:` declares; None if its path is not below the root of the project."""
    written = PurePosixPath(entry.get("path", DEFAULT_PATH))
    path = root / written
    if written.is_absolute() or ".." in written.parts or not path.resolve().is_relative_to(root.resolve()):
        return None
    return HistoryConfig(path, int(entry.get("keep", DEFAULT_KEEP).removesuffix("d")), entry.get("table", ""))
