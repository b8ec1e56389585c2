"""Work on several tables at the same time.

Each thread has a Spark session of its own, and the functions for events are called in the thread of the caller.
"""

from __future__ import annotations

import os
import threading
import uuid
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from zlayout.app.proposing import Planned
from zlayout.errors import Refused
from zlayout.planner.model import TablePlan
from zlayout.spark.session import SparkRuntime
from zlayout.spark.workers import WorkerRuntime
from zlayout.spec.model import Project

E = TypeVar("E")
_POLL_SECONDS = 0.2


def by_gain(tables: Iterable[Planned]) -> list[Planned]:
    """Sort tables by what `apply` may gain per rewritten byte, the largest gain first."""
    return sorted(tables, key=lambda planned: (-gain(planned.decision.plan), planned.decision.plan.table))


def gain(plan: TablePlan) -> float:
    """Return by how much `apply` may lower touched per rewritten byte, summed over the columns."""
    decrease = sum(max(column.touched - column.low, 0.0) for column in plan.columns if column.low is not None)
    return decrease / max(plan.rewrite_bytes, 1)


def at_the_same_time(
    work: Callable[[SparkRuntime, Callable[[E], None]], None],
    threads: int,
    project: Project,
    runtime: SparkRuntime,
    on_event: Callable[[E], None],
) -> None:
    """Call `work` in several threads and wait for all of them.

    Args:
        work: Called with the runtime of its thread, and with a function that calls `on_event` in the calling thread.
        threads: The number of threads.
        project: The project.
        runtime: The runtime whose session the runtimes of the threads clone. It is started by the first thread.
        on_event: Its exceptions are raised in the thread that made the event.

    Raises:
        Refused: ZL210, pyspark does not give each thread its own thread of the JVM, so that all share one session.
        KeyboardInterrupt: A thread ended with it and no thread with another exception; or it was raised in the calling
            thread, which then does not wait for the other threads.
        BaseException: A thread ended with this exception.
    """
    if os.environ.get("PYSPARK_PIN_THREAD", "true").lower() != "true":
        raise Refused.of(
            "ZL210",
            "several tables cannot be rewritten at the same time while PYSPARK_PIN_THREAD is not true",
            hint="unset PYSPARK_PIN_THREAD, or rewrite one table after the other",
        )
    run, starting = uuid.uuid4().hex, threading.Lock()
    workers = [WorkerRuntime(project, runtime, f"zlayout-{run}-{number}", starting) for number in range(threads)]
    relay = _Relay(on_event)
    ended: list[BaseException] = []

    def work_alone(worker: WorkerRuntime) -> None:
        try:
            with worker:
                work(worker, relay)
        except BaseException as error:
            ended.append(error)

    running = [threading.Thread(target=work_alone, args=(worker,), daemon=True) for worker in workers]
    runtime.workers = tuple(workers)
    try:
        for thread in running:
            thread.start()
        while any(thread.is_alive() for thread in running):
            relay.serve(_POLL_SECONDS)
    finally:
        runtime.workers = ()
    for error in sorted(ended, key=lambda error: isinstance(error, KeyboardInterrupt)):
        raise error


class _Relay(Generic[E]):
    """Calls a function in the thread that calls `serve`. Other threads call the relay, and wait for the function."""

    def __init__(self, function: Callable[[E], None]) -> None:
        self._function = function
        self._asked: SimpleQueue[tuple[E, Future[None]]] = SimpleQueue()

    def __call__(self, event: E) -> None:
        answer: Future[None] = Future()
        self._asked.put((event, answer))
        answer.result()

    def serve(self, seconds: float) -> None:
        """Call the function for the next event. seconds: How long to wait for an event."""
        try:
            event, answer = self._asked.get(timeout=seconds)
        except Empty:
            return
        try:
            self._function(event)
        except BaseException as error:
            answer.set_exception(error)
        else:
            answer.set_result(None)
