"""Read many tables at the same time, with a time limit for tables whose catalog or storage does not answer.

The threads are daemon threads, and each catalog has its own. A library that waits for an answer of one catalog delays
neither the tables of other catalogs nor Ctrl-C. The file system of deltalake is an exception: while it waits, for at
most half a minute (`_LIMITS` in `zlayout.spec.client_options`), no other thread runs. S3 is read through it only if a
property is set that Arrow does not have: see `zlayout.formats.delta.read.log`.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Generic, TypeVar

from zlayout.errors import Location, TableError, ZlayoutError
from zlayout.session.project import require_count, require_number

if TYPE_CHECKING:
    from zlayout.spec.model import TableName

_READER = "zlayout-reader"
PARALLELISM = 8
TIMEOUT = 60.0  # seconds
# Several threads take a third more CPU time than one for tables that are read without waiting, for example from local
# files. So the number of threads of a catalog grows only after none has answered for so long, in seconds, while this
# process used the CPU for less than half of that time.
SLOW = 0.02

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Reading:
    """How tables are read. Its constructor raises SpecError ZL084 for an invalid limit.

    Attributes:
        parallelism: The number of tables of one catalog to read at the same time.
        timeout: The limit for one table, in seconds.
        on_progress: Called with the number of tables that were read or are late, and the number of all tables.
    """

    parallelism: int = PARALLELISM
    timeout: float = TIMEOUT
    on_progress: Callable[[int, int], None] | None = None

    def __post_init__(self) -> None:
        require_count("parallelism", self.parallelism)
        require_number("timeout", self.timeout)


def read_tables(
    items: Sequence[Item],
    table_of: Callable[[Item], TableName],
    read: Callable[[Item], Result],
    reading: Reading,
) -> list[Result | ZlayoutError]:
    """Read the table of each item in threads.

    Args:
        items: What to read.
        table_of: The table of an item.
        read: Reads the table of an item, in a thread. Its exceptions other than ZlayoutError are raised in the calling
            thread.
        reading: The limits.

    Returns:
        The result of each item, or the error that `read` raised: ZL105 if the table could not be read within the time
        limit. If no table of the same catalog was read since the start or the previous late table, its tables that wait
        for a thread are late too.
    """
    tables = [table_of(item) for item in items]
    return _Run(tables, lambda n: read(items[n]), reading).results()


def read_each(
    items: Sequence[Item], table_of: Callable[[Item], TableName], read: Callable[[Item], Result], reading: Reading
) -> list[Result | ZlayoutError]:
    """Read the table of each item as `read_tables` does. An unexpected exception of `read` is the result ZL104."""
    return read_tables(items, table_of, lambda item: read_here(lambda: read(item), table_of(item)), reading)


def read_one(read: Callable[[], Result], table: TableName, timeout: float = TIMEOUT) -> Result:
    """Return the result of `read`.

    Raises:
        SpecError: ZL084, the timeout is invalid.
        TableError: ZL105, `read` did not return within `timeout` seconds.
        BaseException: The exception of `read`.
    """
    return begin_read(read, table, timeout)()


def read_table(read: Callable[[], Result], table: TableName, timeout: float = TIMEOUT) -> Result:
    """Return the result of `read`, which reads a table.

    Raises:
        SpecError: ZL084, the timeout is invalid.
        TableError: ZL105, `read` did not return within `timeout` seconds; ZL104, it raised an exception of a library.
        ZlayoutError, OSError: The exception of `read`.
    """
    return read_here(begin_read(read, table, timeout), table)


def read_here(read: Callable[[], Result], table: TableName) -> Result:
    """Return the result of `read` as `read_table` does, but in this thread and without a timeout."""
    try:
        return read()
    except (ZlayoutError, OSError, KeyboardInterrupt):
        raise
    except BaseException as error:  # libraries in Rust raise PanicException, which is not an Exception
        raise cannot_read(table, error) from error


def cannot_read(table: TableName, error: BaseException, location: Location | None = None) -> TableError:
    """Return ZL104. error: an exception of the library of a format. location: of the layout."""
    message = f"{table} cannot be read: {type(error).__name__}: {error}"
    hint = "check the access to the table; if it is correct, report this error"
    return TableError.of("ZL104", message, hint=hint, location=location)


def begin_read(read: Callable[[], Result], table: TableName, timeout: float = TIMEOUT) -> Callable[[], Result]:
    """Begin `read` in a thread, and return a function that waits for its result.

    The function has the results and exceptions of `read_one`. The time limit begins now.

    Raises:
        SpecError: ZL084, the timeout is invalid.
    """
    require_number("timeout", timeout)
    begun, until = Future[Result](), time.monotonic() + timeout

    def result() -> Result:
        wait([begun], min(max(until - time.monotonic(), 0.0), threading.TIMEOUT_MAX))
        if not begun.done():
            raise no_answer(table, timeout)
        return begun.result()

    Thread(target=_read_into, args=(begun, read), name=_READER, daemon=True).start()
    return result


def _read_into(future: Future[Result], read: Callable[[], Result]) -> None:
    try:
        future.set_result(read())
    except BaseException as error:  # libraries in Rust raise PanicException, which is not an Exception
        future.set_exception(error)


def is_waiting() -> bool:
    """Return whether a thread still reads a table that is late.

    The library that reads may have started threads of its own, for which Python would wait at the end of the process.
    """
    return any(thread.name == _READER for thread in threading.enumerate())


def no_answer(table: TableName, timeout: float, location: Location | None = None) -> TableError:
    """Return the error for a table that could not be read within the time limit."""
    name = table.catalog
    message = f"{table} could not be read within {timeout:g} s: catalog {name} or its storage does not answer"
    hint = f"check that the services of catalogs.{name} answer; if they are slow, use a larger --timeout"
    return TableError.of("ZL105", message, hint=hint, location=location)


@dataclass(slots=True)
class _Lane:
    waiting: deque[int]  # no thread has begun these tables
    running: dict[int, float] = field(default_factory=dict)  # when each table will be late, by `time.monotonic`
    answered: bool = False  # whether a table was read since the last one that was late
    threads: int = 1  # the number of tables to read at the same time
    since: float = 0.0  # when a thread was last begun or ended, or their number was considered, by `time.monotonic`
    cpu: float = 0.0  # the CPU time of the process then

    def mark(self) -> None:
        self.since, self.cpu = time.monotonic(), time.process_time()


class _Run(Generic[Result]):
    def __init__(self, tables: Sequence[TableName], read: Callable[[int], Result], reading: Reading) -> None:
        self._tables, self._read, self._reading = tables, read, reading
        self._done: SimpleQueue[tuple[int, Future[Result]]] = SimpleQueue()
        self._found: dict[int, Result | ZlayoutError] = {}
        self._count = len(tables)
        numbers: dict[str, deque[int]] = {}
        for number, table in enumerate(tables):
            numbers.setdefault(table.catalog, deque()).append(number)
        self._lanes = [_Lane(waiting) for waiting in numbers.values()]

    def results(self) -> list[Result | ZlayoutError]:
        while len(self._found) < self._count:
            if self._reading.on_progress is not None:
                self._reading.on_progress(len(self._found), self._count)
            for lane in self._lanes:
                self._start(lane)
            until = min(at for lane in self._lanes for at in lane.running.values())
            self._take(min([until, *(lane.since + SLOW for lane in self._lanes if self._may_grow(lane))]))
            for lane in self._lanes:
                self._give_up(lane)
        return [self._found[number] for number in range(self._count)]

    def _may_grow(self, lane: _Lane) -> bool:
        return bool(lane.waiting) and lane.threads < self._reading.parallelism

    def _start(self, lane: _Lane) -> None:
        waited = time.monotonic() - lane.since
        if self._may_grow(lane) and lane.running and waited >= SLOW:
            if time.process_time() - lane.cpu < waited / 2:
                lane.threads = min(2 * lane.threads, self._reading.parallelism)
            lane.mark()
        while lane.waiting and len(lane.running) < lane.threads:
            lane.mark()
            number = lane.waiting.popleft()
            lane.running[number] = time.monotonic() + self._reading.timeout
            Thread(target=self._work, args=(number,), name=_READER, daemon=True).start()

    def _work(self, number: int) -> None:
        done = Future[Result]()
        _read_into(done, lambda: self._read(number))
        self._done.put((number, done))

    def _take(self, until: float) -> None:
        try:
            number, done = self._done.get(timeout=min(max(until - time.monotonic(), 0.0), threading.TIMEOUT_MAX))
        except Empty:
            return
        if number in self._found:
            return  # it was late
        try:
            self._found[number] = done.result()
        except ZlayoutError as error:
            self._found[number] = error
        lane = next(lane for lane in self._lanes if number in lane.running)
        del lane.running[number]
        lane.answered = True
        lane.mark()

    def _give_up(self, lane: _Lane) -> None:
        now = time.monotonic()
        late = [number for number, at in lane.running.items() if at <= now]
        if late and not lane.answered:
            late += lane.waiting
            lane.waiting.clear()
        if late:
            lane.answered = False  # if no table is read before the next late one, all that wait then are late too
        for number in late:
            lane.running.pop(number, None)
            self._found[number] = no_answer(self._tables[number], self._reading.timeout)
