"""Validate: load a project and name the layouts in some of its files. Reads no table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from zlayout.app.project import load_project
from zlayout.app.select import select_layouts
from zlayout.errors import SpecError
from zlayout.spec.model import LayoutSpec


def validate(project: Path, paths: Sequence[Path] = ()) -> tuple[LayoutSpec, ...]:
    """Check a project and return its layouts, or those in the given files and folders.

    Args:
        project: The project's folder; with `paths`, the project is the one of the first path.
        paths: Layout files and folders. Default: all layouts.

    Raises:
        SpecError: All problems of all files, or ZL044 (a path does not exist), ZL045 (no layout there).
    """
    for path in paths:
        if not path.exists():
            raise SpecError.of("ZL044", f"{path} does not exist", hint="name a layout file or a folder")
    start = (paths[0] if paths[0].is_dir() else paths[0].parent) if paths else project
    layouts = select_layouts(load_project(start).layouts, (), ())
    for path in paths:
        if not any(_is_in(spec, path) for spec in layouts):
            hint = "`layouts:` in zlayout.yaml matches no file there"
            raise SpecError.of("ZL045", f"there is no layout in {path}", hint=hint)
    return tuple(spec for spec in layouts if not paths or any(_is_in(spec, path) for path in paths))


def _is_in(spec: LayoutSpec, path: Path) -> bool:
    file = Path(spec.location.path).resolve()
    return path.resolve() in (file, *file.parents)
