"""Where output goes and how it looks: results to stdout, everything else to stderr, colour only where wanted."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from enum import StrEnum
from typing import TextIO

from zlayout.errors import Diagnostic
from zlayout.report.text import TextOptions, wrapped
from zlayout.report.words import printable

_ANSI = {
    "title": "1",
    "first": "32",
    "alter": "33",
    "rewrite": "36",
    "error": "31",
    "refused": "31",
    "warning": "33",
    "dim": "2",
}


class Color(StrEnum):
    AUTO = "auto"
    ALWAYS = "always"
    NEVER = "never"


class Console:
    """The terminal of one run."""

    def __init__(self, color: Color = Color.AUTO, *, verbose: bool = False) -> None:
        self.verbose = verbose
        self._out_color = wants_color(color, sys.stdout, os.environ)
        self._err_color = wants_color(color, sys.stderr, os.environ)

    @property
    def live(self) -> bool:
        """Whether moving bars may be drawn on stderr."""
        return sys.stderr.isatty() and "CI" not in os.environ and os.environ.get("TERM") != "dumb"

    @property
    def interactive(self) -> bool:
        return sys.stdin is not None and sys.stdin.isatty()

    def text_options(self) -> TextOptions:
        """How plans are to be drawn on stdout: 80 to 120 columns."""
        width = min(max(shutil.get_terminal_size((100, 24)).columns, 80), 120)
        return TextOptions(width=width, verbose=self.verbose, style=_style if self._out_color else _plain)

    def result(self, text: str) -> None:
        """The result of the command; the only thing that goes to stdout."""
        sys.stdout.write(text)
        sys.stdout.flush()

    def say(self, line: str, kind: str = "") -> None:
        """A line for the person watching, on stderr, safe for a terminal; a path may be called anything."""
        line = "\n".join(map(printable, line.split("\n")))
        sys.stderr.write((_style(kind, line) if self._err_color else line) + "\n")
        sys.stderr.flush()

    def diagnose(self, diagnostic: Diagnostic) -> None:
        """On a terminal broken between words, elsewhere one line."""
        start = f"{diagnostic.severity}: "
        line = f"{start}{printable(str(diagnostic))}"
        width = shutil.get_terminal_size().columns if sys.stderr.isatty() else len(line)
        for piece in wrapped(line, max(width, 40), len(start)):
            self.say(piece, diagnostic.severity)

    def ask(self, question: str) -> str:
        """The answer to a prompt on stderr; empty at end of input."""
        sys.stderr.write(question)
        sys.stderr.flush()
        return sys.stdin.readline().strip()


def wants_color(color: Color, stream: TextIO, environ: Mapping[str, str]) -> bool:
    """--color, then NO_COLOR, then FORCE_COLOR, then whether it is a terminal."""
    if color is not Color.AUTO:
        return color is Color.ALWAYS
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and environ.get("TERM") != "dumb"


def _style(kind: str, text: str) -> str:
    code = _ANSI.get(kind)
    return f"\x1b[{code}m{text}\x1b[0m" if code else text


def _plain(_kind: str, text: str) -> str:
    return text
