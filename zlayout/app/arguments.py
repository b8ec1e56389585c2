"""Check the arguments of the public API, and parse those that options of the command line have too."""

from __future__ import annotations

import os
from datetime import timedelta

from zlayout.errors import SpecError
from zlayout.message_text import quote_value
from zlayout.spec.layouts import size_in_bytes
from zlayout.spec.maintenance import duration_of
from zlayout.spec.model import Project


def require(argument: object, expected: type, hint: str) -> None:
    """Raise SpecError ZL084 for an argument of the public API that is not of the expected class."""
    if not isinstance(argument, expected):
        found = quote_value(str(argument)) if isinstance(argument, str | os.PathLike) else type(argument).__name__
        raise SpecError.of("ZL084", f"expected a {expected.__name__}, found {found}", hint=hint)


def require_project(project: object) -> None:
    """Raise SpecError ZL084 for anything but a project."""
    require(project, Project, "use zlayout.load_project(PATH)")


def parse_budget(size: int | str | None) -> int | None:
    """Return a number of bytes, also of a text such as `100GiB`. Raises SpecError ZL050."""
    try:
        if isinstance(size, str):
            size = int(size) if size.isdecimal() else size_in_bytes(size)
        if size is None or (type(size) is int and size >= 0):
            return size
    except (KeyError, ArithmeticError):
        pass
    message = f"expected a size for --max-rewrite-bytes, found {size!r}"
    raise SpecError.of("ZL050", message, hint="use for example 100GiB")


def parse_duration(duration: timedelta | str | None) -> timedelta | None:
    """Return a duration, also of a text such as `90m`, `1h` or `2d`. Raises SpecError ZL056."""
    try:
        if duration is None or isinstance(duration, timedelta):
            return duration
        return duration_of(duration)
    except (TypeError, ValueError) as error:
        message = f"expected a duration for --avoid-hot, found {duration!r}"
        raise SpecError.of("ZL056", message, hint="use for example 30m, 1h or 2d") from error
