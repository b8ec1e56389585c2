"""Write results to stdout and everything else to stderr, in colour if requested or supported."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TextIO

from zlayout.errors import Diagnostic
from zlayout.report.lines import wrapped
from zlayout.report.text import TextOptions
from zlayout.report.words import printable

if TYPE_CHECKING:
    from zlayout.spark.session import SparkRuntime
    from zlayout.spec.model import Project

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
        """Width (80 to 120 columns) and style of plans on stdout."""
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
        """Write the result as JSON to stdout, if it is to be JSON."""
        if self.as_json:
            self.result(json.dumps(document, indent=2, allow_nan=False) + "\n")

    def say(self, line: str, kind: str = "") -> None:
        """Write a line to stderr, without the control characters that a path may contain."""
        line = "\n".join(map(printable, line.split("\n")))
        sys.stderr.write((_style(kind, line) if self._err_color else line) + "\n")
        sys.stderr.flush()

    def status(self, line: str) -> None:
        """Replace the current line of the terminal on stderr; with an empty text, remove it."""
        sys.stderr.write(f"\r\x1b[2K{printable(line)}")
        sys.stderr.flush()

    @contextmanager
    def starting(self) -> Iterator[None]:
        """Show on a terminal that the block, which imports the modules of a command, takes a moment."""
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


@contextmanager
def spark_of(project: Project, console: Console, *, brief: bool = False) -> Iterator[SparkRuntime]:
    """Give the block a runtime that is not started yet. After the block, name the log of Spark if it is kept."""
    from zlayout.spark.session import SparkRuntime

    runtime = SparkRuntime(project, brief=brief)
    try:
        yield runtime
    finally:
        name_log(runtime, console)


def name_log(runtime: SparkRuntime, console: Console) -> None:
    """Write the path of the log of Spark, if the runtime kept one."""
    if runtime.log_path is not None:
        console.say(f"Spark's log: {runtime.log_path}")


def wants_color(color: Color, stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Return whether to use colour: by --color, NO_COLOR, FORCE_COLOR, or whether the stream is a terminal."""
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
