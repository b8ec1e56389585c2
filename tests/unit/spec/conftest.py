"""Projects that are written into an empty folder and loaded there."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from zlayout.spec.load import load_project
from zlayout.spec.model import Project

PROJECT = """version: 1
catalogs:
  lake: {format: delta, warehouse: data/delta}
  ice: {format: iceberg, type: sql, uri: "sqlite:///cat.db", warehouse: data/ice}
"""
LAYOUT = """version: 1
table: ice.db.t
zorder:
  columns: [a, b]
"""
Files = Mapping[str, str]
Load = Callable[..., Project]


@pytest.fixture
def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Load:
    """Writes files below an empty working directory and loads the project there."""
    monkeypatch.chdir(tmp_path)

    def load(files: Files, environ: Mapping[str, str] | None = None) -> Project:
        for name, content in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(content)
        return load_project(tmp_path, environ or {})

    return load
