"""Keeps signals from the process of the JVM, and ends it if its start is interrupted."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from subprocess import Popen
from typing import Any

from zlayout.signals import BESIDE_SIGINT
from zlayout.spark.versions import spark_home


@contextmanager
def jvm_process() -> Iterator[None]:
    """Let the JVM that pyspark starts in the block ignore SIGTERM and SIGHUP, as pyspark does for SIGINT.

    A signal that is sent to the process group reaches the JVM too, which would end in the middle of a commit. The JVM
    reads a pipe from this process, and ends when this process ends. If the block is interrupted before pyspark is
    connected to the JVM, the JVM would not end, so it is killed.

    `SPARK_HOME` is set in the block, because pyspark would search the folder above the working directory first.
    """
    from pyspark import SparkContext, java_gateway

    module: Any = java_gateway
    home = os.environ.get("SPARK_HOME")
    given, started = module.Popen, list[Popen[bytes]]()

    def start(command: list[str], preexec_fn: Callable[[], None] | None = None, **options: Any) -> Popen[bytes]:
        def ignore_signals() -> None:
            if preexec_fn is not None:
                preexec_fn()
            for number in BESIDE_SIGINT:
                signal.signal(number, signal.SIG_IGN)

        started.append(Popen(command, preexec_fn=ignore_signals, **options))
        return started[-1]

    module.Popen = start
    os.environ["SPARK_HOME"] = str(spark_home())
    try:
        yield
    except BaseException:
        if SparkContext._gateway is None:
            for process in started:
                process.kill()
        raise
    finally:
        module.Popen = given
        if home is None:
            del os.environ["SPARK_HOME"]
        else:
            os.environ["SPARK_HOME"] = home
