"""Print log messages of libraries, such as retries, on one line without secrets and control characters."""

from __future__ import annotations

import logging
import os

from zlayout.cli.console import Console
from zlayout.errors import first_line
from zlayout.report.words import printable
from zlayout.secrets import without_secrets


class _LogLines(logging.Handler):
    def filter(self, record: logging.LogRecord) -> bool:
        """Leave out what the exporter of OpenTelemetry reports of each attempt: ZL452 states the result."""
        return not record.name.startswith("opentelemetry.") and bool(super().filter(record))

    def emit(self, record: logging.LogRecord) -> None:
        Console().say(
            f"warning: {record.name}: {printable(first_line(without_secrets(record.getMessage())))}", "warning"
        )


def print_logs() -> None:
    """Print warnings and errors of all libraries, unless another handler is installed already.

    Rust libraries print errors alone, unless RUST_LOG asks for more: their warnings have hundreds of characters, and
    the error that follows has the same cause.
    """
    os.environ.setdefault("RUST_LOG", "error")
    logging.basicConfig(level=logging.WARNING, handlers=[_LogLines()])
