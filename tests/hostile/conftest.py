"""A project on a real Delta table, and Spark out of reach."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from hostile.asking import NoEngine
from support.projects import memory, root

from zlayout import secrets

__all__ = ["memory", "root"]


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> NoEngine:
    return NoEngine(monkeypatch)


@pytest.fixture
def project(root: Path) -> Path:
    """`lake.db.orders`, two files that are not laid out yet, as the current folder."""
    return root


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    """What one test's project held as secret is none in the next."""
    before = set(secrets._known)
    yield
    secrets._known.intersection_update(before)
