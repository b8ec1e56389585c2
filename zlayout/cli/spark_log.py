"""Where Spark's own log is, for those who need it."""

from __future__ import annotations

from zlayout.backends.spark import SparkRuntime
from zlayout.cli.console import Console


def tell_log(runtime: SparkRuntime, console: Console) -> None:
    """Say where the log of a runtime is that has one and kept it."""
    if runtime.log_path is not None:
        console.say(f"Spark's log: {runtime.log_path}")
