"""What libraries log (a retry, a deprecation) as one line of ours: without secrets, nothing a terminal acts on."""

from __future__ import annotations

import logging

from zlayout.cli.console import Console
from zlayout.errors import first_line
from zlayout.report.words import printable
from zlayout.secrets import without_secrets


class _Said(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        Console().say(
            f"warning: {record.name}: {printable(first_line(without_secrets(record.getMessage())))}", "warning"
        )


def take_logs() -> None:
    """Take warnings and worse of all libraries, unless somebody takes them already."""
    logging.basicConfig(level=logging.WARNING, handlers=[_Said()])
