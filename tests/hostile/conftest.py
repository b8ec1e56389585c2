"""A project on a real Delta table, and Spark out of reach."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hostile.asking import NoEngine
from unit.cli.conftest import LAYOUT, memory, write_project

from zlayout import secrets

__all__ = ["memory"]


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> NoEngine:
    return NoEngine(monkeypatch)


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`lake.db.orders`, two files that are not laid out yet, as the current folder."""
    write_project(tmp_path, monkeypatch, LAYOUT)
    rows = pa.table({"a": pa.array(range(100), pa.int64()), "b": pa.array(["x"] * 100)})
    for _ in range(2):
        write_deltalake(str(tmp_path / "tables" / "db" / "orders"), rows, mode="append")
    return tmp_path


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """What one test's project held as secret is none in the next."""
    before = set(secrets._known)
    yield
    secrets._known.intersection_update(before)
