"""The project that a command is about: of the folder it was given, or the nearest one above."""

from __future__ import annotations

import os
from pathlib import Path

from zlayout.spec.load import find_project, load_project
from zlayout.spec.model import Project


def open_project(start: Path) -> Project:
    """The project of a zlayout.yaml, or of the nearest one at or above a folder. Raises SpecError."""
    return load_project(find_project(start) if start.is_dir() else start, os.environ)
