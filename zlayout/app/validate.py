"""Validate a project: load it and return its layouts. Reads no table."""

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
        project: The folder of the project. Ignored if `paths` are given: the project of the first path is used.
        paths: Layout files and folders. Default: all layouts.

    Raises:
        SpecError: ZL044 (a path does not exist), ZL045 (a path has no layout), or all problems of all files.
    """
    for path in paths:
        if not path.exists():
            raise SpecError.of("ZL044", f"{path} does not exist", hint="use the path of a layout file or a folder")
    start = (paths[0] if paths[0].is_dir() else paths[0].parent) if paths else project
    loaded = load_project(start)
    declared = (*loaded.layouts, *(rule.spec for rule in loaded.rules))
    layouts = select_layouts(declared, (), ())
    for path in paths:
        if not any(_is_in(spec, path) for spec in layouts):
            hint = "check whether `layouts:` in zlayout.yaml matches a file there"
            raise SpecError.of("ZL045", f"expected a layout in {path}, found none", hint=hint)
    return tuple(spec for spec in layouts if not paths or any(_is_in(spec, path) for path in paths))


def _is_in(spec: LayoutSpec, path: Path) -> bool:
    file = Path(spec.location.path).resolve()
    return path.resolve() in (file, *file.parents)
