"""`validate`: the project and its layouts, without a table in sight."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from zlayout.cli.console import Console
from zlayout.cli.project import open_project
from zlayout.errors import SpecError
from zlayout.report.words import plural
from zlayout.spec.model import LayoutSpec


def validate_project(project: Path, paths: Sequence[Path], console: Console) -> int:
    """Raises SpecError with everything that is wrong; prints one line when nothing is."""
    start = project if not paths else _existing(paths[0])
    loaded = open_project(start)
    chosen = [spec for spec in loaded.layouts if not paths or _is_in(spec, paths)]
    if not chosen:
        where = f" in {', '.join(map(str, paths))}" if paths else ""
        hint = "`layouts:` of zlayout.yaml leads to no file there"
        raise SpecError.of("ZL045", f"there is no layout{where}", hint=hint)
    console.result(f"{plural(len(chosen), 'layout')} valid\n")
    return 0


def _existing(path: Path) -> Path:
    if not path.exists():
        raise SpecError.of("ZL044", f"{path} does not exist", hint="name a layout file, a folder, or nothing")
    return path if path.is_dir() else path.parent


def _is_in(spec: LayoutSpec, paths: Sequence[Path]) -> bool:
    file = Path(spec.location.path).resolve()
    return any(file == p.resolve() or p.resolve() in file.parents for p in paths)
