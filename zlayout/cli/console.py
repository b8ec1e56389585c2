"""Writes results to stdout, and everything else to stderr: messages, logs, progress and questions for approval."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from types import TracebackType
from typing import Any, TextIO

from zlayout.errors import Diagnostic, first_line
from zlayout.report.text import TextOptions
from zlayout.report.words import printable, wrapped
from zlayout.secrets import without_secrets
from zlayout.text import json_text, plural

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
    """The streams of one command, and how it writes to them."""

    def __init__(
        self, color: Color = Color.AUTO, *, verbose: bool = False, summary: bool = False, as_json: bool = False
    ) -> None:
        self.color = color
        self.verbose = verbose
        self.summary = summary
        self.as_json = as_json  # whether stdout gets one JSON document, and stderr the text
        self._out_color = wants_color(color, sys.stdout, os.environ)
        self._err_color = wants_color(color, sys.stderr, os.environ)

    @property
    def live(self) -> bool:
        """Whether progress bars can be drawn on stderr."""
        return sys.stderr.isatty() and "CI" not in os.environ and os.environ.get("TERM") != "dumb"

    @property
    def interactive(self) -> bool:
        """Whether questions can be asked on stdin."""
        return sys.stdin is not None and sys.stdin.isatty()

    def text_options(self) -> TextOptions:
        """Return the width (80 to 120 columns) and the style of plans on stdout."""
        width = min(max(shutil.get_terminal_size((100, 24)).columns, 80), 120)
        style = _style if self._out_color else _plain
        return TextOptions(width=width, verbose=self.verbose, style=style, summary=self.summary)

    def result(self, text: str) -> None:
        """Write a part of the result to stdout."""
        sys.stdout.write(text)
        sys.stdout.flush()

    def text(self, text: str) -> None:
        """Write a part of the result as text: to stdout, or to stderr if stdout gets the result as JSON."""
        self.say(text.rstrip("\n")) if self.as_json else self.result(text)

    def document(self, document: Mapping[str, Any]) -> None:
        """Write the result as JSON to stdout, if the command prints JSON."""
        if self.as_json:
            self.result(json_text(document) + "\n")

    def say(self, line: str, style: str = "") -> None:
        """Write a line to stderr, without control characters. style: its name, as in `TextOptions`."""
        line = "\n".join(map(printable, line.split("\n")))
        sys.stderr.write((_style(style, line) if self._err_color else line) + "\n")
        sys.stderr.flush()

    def status(self, line: str) -> None:
        """Replace the current line of the terminal on stderr; with an empty text, remove it."""
        sys.stderr.write(f"\r\x1b[2K{printable(line)}")
        sys.stderr.flush()

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Show on a terminal that the command starts, during a block that imports its modules."""
        if self.live:
            self.status("starting ...")
        try:
            yield
        finally:
            if self.live:
                self.status("")

    def diagnose(self, diagnostic: Diagnostic) -> None:
        """Write a diagnostic to stderr, wrapped if stderr is a terminal."""
        start = f"{diagnostic.severity}: "
        line = f"{start}{printable(str(diagnostic))}"
        width = shutil.get_terminal_size().columns if sys.stderr.isatty() else len(line)
        for piece in wrapped(line, max(width, 40), len(start)):
            self.say(piece, diagnostic.severity)

    def ask(self, question: str) -> str:
        """Write a question to stderr and return the answer; empty at the end of input."""
        sys.stderr.write(question)
        sys.stderr.flush()
        return sys.stdin.readline().strip()


def wants_color(color: Color, stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Return whether to use colour: as --color, NO_COLOR or FORCE_COLOR state, or else if the stream is a terminal."""
    if color is not Color.AUTO:
        return color is Color.ALWAYS
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and environ.get("TERM") != "dumb"


def _style(name: str, text: str) -> str:
    code = _ANSI.get(name)
    return f"\x1b[{code}m{text}\x1b[0m" if code else text


def _plain(_name: str, text: str) -> str:
    return text


MIN_TABLES = 50  # the read of fewer tables is not shown, because it takes a short time
SECONDS_BETWEEN_UPDATES = 0.1
SECONDS_BETWEEN_LINES = 30.0


class ReadingShown:
    """A context manager that shows on stderr how many tables were read. Call it with this number and the total."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown = float("-inf")

    def __enter__(self) -> ReadingShown:
        if self._console.live:
            self._console.status("reading the layouts ...")
        return self

    def __exit__(
        self, type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._console.live:
            self._console.status("")

    def __call__(self, done: int, total: int) -> None:
        now, live = time.monotonic(), self._console.live
        wait = SECONDS_BETWEEN_UPDATES if live else SECONDS_BETWEEN_LINES
        if total < MIN_TABLES or now - self._shown < wait:
            return
        self._shown = now
        text = f"reading {plural(total, 'table')}" + (f": {done:,} done" if done else "")
        self._console.status(f"{text} ...") if live else self._console.say(text)


class _LogLines(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        Console().say(
            f"warning: {record.name}: {printable(first_line(without_secrets(record.getMessage())))}", "warning"
        )


def print_logs() -> None:
    """Print warnings and errors of all libraries, unless a handler for logs is already installed.

    Libraries in Rust print only errors, unless the user has set RUST_LOG. Their warnings have hundreds of characters,
    and the error that follows has the same cause.
    """
    os.environ.setdefault("RUST_LOG", "error")
    logging.basicConfig(level=logging.WARNING, handlers=[_LogLines()])
