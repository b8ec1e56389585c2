"""Starts the JVM of one Spark distribution, keeps signals from its process, and ends it if its start is interrupted."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import Any

from zlayout.signals import BESIDE_SIGINT


@contextmanager
def jvm_process(home: Path) -> Iterator[None]:
    """Let the JVM that pyspark starts in the block ignore SIGTERM and SIGHUP, as pyspark does for SIGINT.

    Without SPARK_HOME, pyspark would run `bin/spark-submit` of the folder above the working directory, if there is one.
    This folder may be a checkout. Therefore the block names the Spark distribution.

    A signal that is sent to the process group reaches the JVM too, which would end in the middle of a commit. The JVM
    reads a pipe from this process, and ends when this process ends. If the block is interrupted before pyspark is
    connected to the JVM, the JVM would not end, so it is killed.

    Args:
        home: The folder of the Spark distribution.
    """
    from pyspark import SparkContext, java_gateway

    module: Any = java_gateway
    given, find_home, started = module.Popen, module._find_spark_home, list[Popen[bytes]]()

    def start(command: list[str], preexec_fn: Callable[[], None] | None = None, **options: Any) -> Popen[bytes]:
        def ignore_signals() -> None:
            if preexec_fn is not None:
                preexec_fn()
            for number in BESIDE_SIGINT:
                signal.signal(number, signal.SIG_IGN)

        started.append(Popen(command, preexec_fn=ignore_signals, **options))
        return started[-1]

    module.Popen, module._find_spark_home = start, lambda: str(home)
    try:
        yield
    except BaseException:
        if SparkContext._gateway is None:
            for process in started:
                process.kill()
        raise
    finally:
        module.Popen, module._find_spark_home = given, find_home
