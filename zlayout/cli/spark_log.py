"""Where Spark's own log is, for those who need it."""

from __future__ import annotations

from zlayout.cli.console import Console
from zlayout.spark.session import SparkRuntime


def tell_log(runtime: SparkRuntime, console: Console) -> None:
    """Say where the log of a runtime is that has one and kept it."""
    if runtime.log_path is not None:
        console.say(f"Spark's log: {runtime.log_path}")
