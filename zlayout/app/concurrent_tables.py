"""Work on several tables at the same time: threads with a Spark session each, and events in the calling thread."""

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


def by_worth(tables: Iterable[Planned]) -> list[Planned]:
    """Sort tables by what apply may gain for each byte that it rewrites, the largest gain first."""
    return sorted(tables, key=lambda planned: (-worth(planned.decision.plan), planned.decision.plan.table))


def worth(plan: TablePlan) -> float:
    """Return by how much apply may lower touched, summed over the columns, for each byte that it rewrites."""
    gain = sum(max(column.touched - column.low, 0.0) for column in plan.columns if column.low is not None)
    return gain / max(plan.rewrite_bytes, 1)


def at_the_same_time(
    work: Callable[[SparkRuntime, Callable[[E], None]], None],
    threads: int,
    project: Project,
    runtime: SparkRuntime,
    on_event: Callable[[E], None],
) -> None:
    """Call `work` in several threads and wait for all of them.

    Args:
        work: Receives the runtime of its thread, and a function that calls `on_event` in the thread of the caller.
        runtime: The runtime whose session the runtimes of the threads clone. It is started by the first thread.
        on_event: Its exceptions are raised in the thread that the event comes from.

    Raises:
        Refused: ZL210, if pyspark does not give each thread a thread of the JVM, which has the session it works with.
        KeyboardInterrupt: Some thread ended with it, or it was raised in this thread, which then waits for no other.
        BaseException: What else a thread raised.
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
    """Calls a function in the thread that serves. The threads that ask for it wait until it has returned."""

    def __init__(self, function: Callable[[E], None]) -> None:
        self._function = function
        self._asked: SimpleQueue[tuple[E, Future[None]]] = SimpleQueue()

    def __call__(self, event: E) -> None:
        answer: Future[None] = Future()
        self._asked.put((event, answer))
        answer.result()

    def serve(self, seconds: float) -> None:
        """Call the function for the next event, if there is one within some seconds."""
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
