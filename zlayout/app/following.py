"""Follow the events of apply, and end it after Ctrl-C where that is safe."""

from __future__ import annotations

from collections.abc import Callable

from zlayout.app.events import ApplyEvent, TableEvent
from zlayout.app.interrupts import Interrupts, cancel_in_background
from zlayout.formats.base import Progress
from zlayout.spark.session import SparkRuntime


class Following:
    """Passes events on, and ends the run after Ctrl-C at a point where that is safe: never during a commit."""

    def __init__(self, runtime: SparkRuntime, on_event: Callable[[ApplyEvent], None]) -> None:
        self._on_event = on_event
        self.interrupts = Interrupts(lambda: cancel_in_background(runtime))

    def __call__(self, event: ApplyEvent) -> None:
        if isinstance(event, Progress):
            self.interrupts.arm()  # pyspark installs a handler of its own when a session starts
            self.interrupts.check()
        self._on_event(event)
        if isinstance(event, TableEvent):
            self.interrupts.check()
