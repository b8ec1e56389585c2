"""Check the arguments of the public API, and parse those that options of the command line have too."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from datetime import timedelta
from numbers import Integral, Real

from zlayout.errors import SpecError
from zlayout.message_text import quote_value
from zlayout.spec.maintenance import duration_of
from zlayout.spec.model import Project


def require(argument: object, expected: type, hint: str) -> None:
    """Raise SpecError ZL084 for an argument of the public API that is not of the expected class."""
    if not isinstance(argument, expected):
        raise SpecError.of("ZL084", f"expected a {expected.__name__}, found {_found(argument)}", hint=hint)


def require_project(project: object) -> None:
    """Raise SpecError ZL084 for anything but a project."""
    require(project, Project, "use zlayout.load_project(PATH)")


def require_number(name: str, value: object) -> None:
    """Raise SpecError ZL084 unless the argument `name` of the public API is a number of at least 0; infinity is one."""
    if not _as_float(value) >= 0:
        message = f"expected a number of at least 0 for {name}, found {_found(value)}"
        raise SpecError.of("ZL084", message, hint=f"use for example {name}=60")


def require_positive(name: str, value: object) -> None:
    """Raise SpecError ZL084 unless the argument `name` of the public API is a finite number above 0."""
    if not 0 < _as_float(value) < math.inf:
        message = f"expected a number above 0 for {name}, found {_found(value)}"
        raise SpecError.of("ZL084", message, hint=f"use for example {name}=7")


def require_count(name: str, value: object) -> None:
    """Raise SpecError ZL084 unless the argument `name` of the public API is an integer above 0."""
    if isinstance(value, bool) or not isinstance(value, Integral) or int(value) < 1:
        message = f"expected an integer above 0 for {name}, found {_found(value)}"
        raise SpecError.of("ZL084", message, hint=f"use for example {name}=8")


def require_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Raise SpecError ZL084 unless the argument `name` of the public API is one of the given strings."""
    if value not in (known := tuple(choices)):
        message = f"expected {' or '.join(known)} for {name}, found {_found(value)}"
        raise SpecError.of("ZL084", message, hint=f"use for example {name}={known[0]!r}")


def _as_float(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.nan


def _found(value: object) -> str:
    if isinstance(value, int | float):
        return repr(value)
    return quote_value(str(value)) if isinstance(value, str | os.PathLike) else type(value).__name__


def parse_budget(size: int | str | None) -> int | None:
    """Convert a budget to bytes; a string is a number or a size such as `100GiB`. Raises SpecError ZL050."""
    from zlayout.spec.layouts import size_in_bytes  # imported here so that `zlayout --help` does not import YAML

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
    """Return a duration; a string is of the form `90m`, `1h` or `2d`. Raises SpecError ZL056."""
    try:
        if duration is None or isinstance(duration, timedelta):
            return duration
        return duration_of(duration)
    except (TypeError, ValueError) as error:
        message = f"expected a duration for --avoid-hot, found {duration!r}"
        raise SpecError.of("ZL056", message, hint="use for example 30m, 1h or 2d") from error
