"""New Python environments, and commands that run in them."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent


def run(command: Sequence[str | Path], folder: Path, **environ: str) -> str:
    """stdout of a command that must succeed, outside the checkout's own environment."""
    clean = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env=clean | environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def environment(folder: Path, *install: str | Path) -> Path:
    """The Python of a new environment in `folder` with these arguments of `uv pip install`."""
    uv = BIN / "uv"
    links = os.environ.get("PIP_FIND_LINKS", "")
    run([uv, "venv", "--quiet", "--python", sys.executable, folder], ROOT)
    python = folder / "bin/python"
    run(
        [uv, "pip", "install", "--quiet", "--python", python, *install],
        ROOT,
        **({"UV_FIND_LINKS": links} if links else {}),
    )
    return python
