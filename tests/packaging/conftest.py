"""The wheel and the sdist of this checkout, built once for all tests of packaging."""

from pathlib import Path

import pytest
from support.environments import BIN, ROOT, run


@pytest.fixture(scope="session")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel and the sdist, as `make dist` builds them."""
    folder = tmp_path_factory.mktemp("dist")
    run([BIN / "hatchling", "build", "-d", folder], ROOT)
    return folder


@pytest.fixture(scope="session")
def wheel(dist: Path) -> Path:
    (file,) = dist.glob("*.whl")
    return file
