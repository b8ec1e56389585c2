"""The process that pyspark starts as the JVM. Here it is a shell."""

import signal
from subprocess import PIPE
from typing import Any

import pytest
from pyspark import SparkContext, java_gateway

from zlayout.spark.session import jvm_process

pytestmark = pytest.mark.skipif(SparkContext._gateway is not None, reason="a JVM runs in this process")
module: Any = java_gateway


def test_it_ignores_the_signals_that_end_a_process_group() -> None:
    with jvm_process():
        shell = module.Popen(["sh", "-c", "kill -TERM $$; kill -HUP $$; echo alive"], stdout=PIPE)
    assert shell.communicate(timeout=30)[0] == b"alive\n"


def test_it_is_killed_if_its_start_is_interrupted() -> None:
    before = module.Popen
    started = []

    def interrupted() -> None:
        with jvm_process():
            started.append(module.Popen(["sleep", "60"]))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert started[0].wait(timeout=30) == -signal.SIGKILL
    assert module.Popen is before
