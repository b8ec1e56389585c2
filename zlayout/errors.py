"""The errors that zlayout raises, and the diagnostics that it prints.

    ZlayoutError            base: diagnostics with code, location and hint    exit 1
    |- SpecError            ZL0xx  invalid YAML, options, arguments, files    exit 1
    |- TableError           ZL1xx  a table cannot be found or read            exit 1
    |- Refused              ZL2xx  stale, unsupported; nothing was written    exit 3
    `- EngineError          ZL3xx  Java, Spark, a rewrite that failed         exit 1
       |- CommitConflict    ZL32x  another writer made a conflicting change   exit 1
       `- CommitUnknown     ZL331  the commit outcome is unknown              exit 1

ZL4xx are never raised: they are codes of notes and warnings, for example about a setting without effect.
`docs/errors.md` lists the codes. `zlayout.cli.main` converts the errors to exit codes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import takewhile
from typing import ClassVar, Literal, Self

from zlayout.secrets import without_secrets

_COLOR = re.compile(r"\x1b\[[0-9;]*m")
Severity = Literal["error", "refused", "warning", "note"]


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """A location in a file."""

    path: str
    """The path as the user wrote it."""
    line: int = 0
    """Line from 1; 0 for the whole file."""
    column: int = 0
    """Column from 1."""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}:{self.column}" if self.line else self.path


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """An error, a refusal, a warning or a note for the user. It contains no secrets."""

    code: str
    """ZLnnn; docs/errors.md lists the codes."""
    message: str
    """What is wrong or worth knowing."""
    severity: Severity = "error"
    """`error` and `refused` stop the work on a table; `warning` and `note` do not."""
    hint: str = ""
    """What to do."""
    location: Location | None = None
    """The location in a file, if the diagnostic concerns one."""
    detail: str = ""
    """What another program reported. It may contain values of rows, so reports omit it unless they show values."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "message", without_secrets(self.message))
        object.__setattr__(self, "detail", without_secrets(self.detail))
        object.__setattr__(self, "hint", without_secrets(self.hint))

    def __str__(self) -> str:
        location = f"{self.location}: " if self.location else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{location}{self.code} {self.text}{hint}"

    @property
    def text(self) -> str:
        """The message with its detail."""
        return f"{self.message}: {self.detail}" if self.detail else self.message


class ZlayoutError(Exception):
    """Base class of the errors of zlayout. It has one diagnostic for each problem that was found."""

    exit_code: ClassVar[int] = 1

    def __init__(self, *diagnostics: Diagnostic) -> None:
        super().__init__("\n".join(str(d) for d in diagnostics))
        self.diagnostics = diagnostics

    @classmethod
    def of(cls, code: str, message: str, *, hint: str = "", location: Location | None = None, detail: str = "") -> Self:
        """An error of this class with one diagnostic."""
        severity: Severity = "refused" if issubclass(cls, Refused) else "error"
        return cls(Diagnostic(code, message, severity, hint, location, detail))

    @classmethod
    def join(cls, errors: Iterable[ZlayoutError]) -> Self:
        """An error of this class with the diagnostics of many errors."""
        return cls(*(d for e in errors for d in e.diagnostics))


class SpecError(ZlayoutError):
    """A project, a layout spec, another input file, an option or an argument is invalid, or does not fit its table."""


class TableError(ZlayoutError):
    """A table, its catalog or its metadata cannot be found or read."""


class Refused(ZlayoutError):
    """zlayout refuses to change the table; nothing was written."""

    exit_code = 3


class EngineError(ZlayoutError):
    """Java, Spark or a rewrite failed. The earlier commits of the run remain."""


class CommitConflict(EngineError):
    """Another writer committed a change that this commit must not override. This commit was not made."""


class CommitUnknown(EngineError):
    """The commit outcome is unknown. The table's history shows whether a commit has the run id."""


class NotApproved(Exception):
    """Nothing is to be written, by the answer of the user. exit_code: of the command, 0 for a dry run."""

    def __init__(self, exit_code: int) -> None:
        super().__init__(exit_code)
        self.exit_code = exit_code


def first_line(error: object) -> str:
    """The first line of the error's message that is not blank, or else the name of its class.

    deltalake writes each cause of an error on a line of its own that begins with an arrow. Such lines are appended,
    separated by colons.
    """
    lines = [line.strip() for line in _COLOR.sub("", str(error)).splitlines() if line.strip()] or [type(error).__name__]
    causes = (
        line.removeprefix("\u21b3").strip() for line in takewhile(lambda line: line.startswith("\u21b3"), lines[1:])
    )
    return ": ".join((lines[0], *causes))
