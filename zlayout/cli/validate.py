"""`validate`: the project and its layouts, without a table in sight."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from zlayout.cli.console import Console
from zlayout.cli.project import open_project
from zlayout.cli.select import select_layouts
from zlayout.errors import SpecError
from zlayout.report.words import plural
from zlayout.spec.model import LayoutSpec


def validate_project(project: Path, paths: Sequence[Path], console: Console) -> int:
    """Raises SpecError with everything that is wrong; prints one line when nothing is."""
    for path in paths:
        if not path.exists():
            raise SpecError.of("ZL044", f"{path} does not exist", hint="name a layout file, a folder, or nothing")
    start = _folder(paths[0]) if paths else project
    layouts = select_layouts(open_project(start).layouts, (), ())
    for path in paths:
        if not any(_is_in(spec, path) for spec in layouts):
            hint = "`layouts:` of zlayout.yaml leads to no file there"
            raise SpecError.of("ZL045", f"there is no layout in {path}", hint=hint)
    chosen = [spec for spec in layouts if not paths or any(_is_in(spec, path) for path in paths)]
    console.result(f"{plural(len(chosen), 'layout')} valid\n")
    return 0


def _folder(path: Path) -> Path:
    return path if path.is_dir() else path.parent


def _is_in(spec: LayoutSpec, path: Path) -> bool:
    file = Path(spec.location.path).resolve()
    return path.resolve() in (file, *file.parents)
