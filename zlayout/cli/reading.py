"""Show on stderr how many tables have been read: in one line that is replaced on a terminal, else now and then."""

from __future__ import annotations

import time
from types import TracebackType

from zlayout.cli.console import Console
from zlayout.report.words import plural

MIN_TABLES = 50  # fewer are read soon
SECONDS_BETWEEN_UPDATES = 0.1
SECONDS_BETWEEN_LINES = 30.0


class ReadingShown:
    """A context manager whose call shows the number of tables that have been read, and the number of all."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown = float("-inf")

    def __enter__(self) -> ReadingShown:
        if self._console.live:
            self._console.status("reading the layouts ...")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
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
