"""All interleavings of a few processes, each of which stops at every step that others can notice.

A process is ordinary code, the product's own included, running in a greenlet: wherever the stand-in for a log or a
catalog is asked something, it calls `step`, and the explorer decides who goes on and what goes wrong there.

Exhaustive without running every schedule from the start to the end: what a process does next is determined by what
it has seen, so two schedules that leave every process with the same past and the table with the same log have the
same futures (partial-order reduction by remembered states). Futures are counted, not assumed: a state's number of
complete schedules is the sum over its choices. Steps that touch nothing shared are never interleaved, so no two
counted schedules differ in the order of such steps only.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from greenlet import getcurrent, greenlet

OK, CRASH = "ok", "crash"
Intern = dict[Hashable, int]


class Killed(BaseException):
    """The process is dead; not an Exception, so that no handler of the product can go on."""


class Shared(Protocol):
    """What the processes share. `log_id` identifies all that has ever been committed to it."""

    @property
    def log_id(self) -> int: ...

    def missing(self) -> frozenset[str]:
        """Live files that are not in storage: damage that is in no log."""
        ...


@dataclass(frozen=True, slots=True)
class Stop:
    """Where a process waits. faults: what can go wrong here, each spends the schedule's budget; free ones do not."""

    label: str
    faults: tuple[str, ...]
    free: tuple[str, ...]
    visible: bool
    reads: bool


def step(
    label: str, faults: Sequence[str] = (), free: Sequence[str] = (), *, visible: bool = True, reads: bool = True
) -> str:
    """Let others go first, then learn what happens here: OK or one of the faults. Outside a process: OK at once.

    visible: whether what follows reads or writes what is shared; if not, there is nothing to interleave.
    reads: whether the process may then know all of it; if not, it reports by `learned` what little it knows.
    """
    process = getcurrent()
    if not isinstance(process, Process):
        return OK
    if process.killed:
        raise Killed
    chosen: str = process.parent.switch(Stop(label, tuple(faults), tuple(free), visible, visible and reads))
    return chosen


def learned(what: Hashable) -> None:
    """The present process knows this from now on, beside what it knew before."""
    process = getcurrent()
    if isinstance(process, Process):
        process.learn(what)


class Process(greenlet):
    """One writer or rewriter. history: the interned past; equal for two runs that saw and did the same.

    result: what remains of the process when it is over, killed or not.
    """

    def __init__(self, name: str, body: Callable[[], None], intern: Intern, result: Callable[[], Hashable]) -> None:
        super().__init__(body)
        self.name = name
        self.at: Stop | None = None
        self.history = 0
        self.killed = False
        self._intern = intern
        self._result = result

    def learn(self, what: Hashable) -> None:
        past = (self.history, what)
        self.history = self._intern.setdefault(past, len(self._intern) + 1)

    def advance(self, option: str | None) -> None:
        """Go on to the next stop; `at` is None when there is none. option: what happens at the present one."""
        stop = None
        if option == CRASH:
            self.killed = True
        else:
            try:
                stop = self.switch() if option is None else self.switch(option)
            except Killed:
                self.killed = True
        self.at = None if self.dead else stop
        if self.at is None:  # the past of what has no future is its result
            self.history = 0
            self.learn((self.name, "over", self._result()))


@dataclass(frozen=True, slots=True)
class Choice:
    """Process number `process` goes on, and `option` happens to it."""

    process: int
    option: str
    costs: int


@dataclass(slots=True)
class Run:
    """One schedule under way. twin: the number of a process that does the same as the one before it, -1 for none."""

    shared: Shared
    processes: tuple[Process, ...]
    budget: int
    twin: int = -1
    trace: list[str] = field(default_factory=list)

    def start(self) -> None:
        for process in self.processes:
            process.advance(None)

    def take(self, choice: Choice) -> None:
        process = self.processes[choice.process]
        stop = process.at
        process.learn((process.name, stop.label, choice.option, self.shared.log_id if stop.reads else -1))
        self.budget -= choice.costs
        self.trace.append(f"{process.name} {stop.label}" + ("" if choice.option == OK else f": {choice.option}"))
        process.advance(choice.option)

    def abandon(self) -> None:
        """Let go of what waiting and dead processes hold: the collector never finds a greenlet that waits."""
        for process in self.processes:
            process.killed = True
            with suppress(Killed, Violation, Exception):
                process.throw(Killed)

    def key(self) -> Hashable:
        return (self.budget, self.shared.log_id, self.shared.missing(), *(p.history for p in self.processes))

    def choices(self) -> list[Choice]:
        waiting = [(n, p.at) for n, p in enumerate(self.processes) if p.at is not None and self._may_go(n)]
        local = [(n, at) for n, at in waiting if not at.visible]
        return [choice for n, at in local[:1] or waiting for choice in self._at(n, at)]

    def _may_go(self, number: int) -> bool:
        """Of twins the first one goes first: the other order would be the same schedule with the names swapped."""
        return number != self.twin or self.processes[number].history != 0 or self.processes[number - 1].history != 0

    def _at(self, number: int, stop: Stop) -> Iterator[Choice]:
        for option in (OK, *stop.free):
            yield Choice(number, option, 0)
        if self.budget:
            for option in (CRASH, *stop.faults):
                yield Choice(number, option, 1)


class Violation(BaseException):
    """A promise was broken. kind: which, in two or three words. No handler of the product may swallow it."""

    def __init__(self, kind: str, detail: str) -> None:
        super().__init__(f"{kind}: {detail}")
        self.kind = kind
        self.trace: tuple[str, ...] = ()


@dataclass(slots=True)
class Explored:
    """schedules: complete ones. states: different ones. ends: states in which all is over. runs: actual executions."""

    schedules: int = 0
    states: int = 0
    ends: int = 0
    runs: int = 0


def explore(begin: Callable[[], Run], finish: Callable[[Run], None], *, remember: bool = True) -> Explored:
    """Try all schedules from `begin`, and check the end of each with `finish`. Raises the first Violation, traced.

    remember: go on only once from equal states; without it every schedule is executed to its end.
    """
    known: dict[Hashable, int] = {}
    result = Explored()
    path: list[Choice] = []

    def replay() -> Run:
        run = begin()
        result.runs += 1
        run.start()
        for choice in path:
            run.take(choice)
        return run

    def visit(run: Run) -> int:
        key = run.key()
        if remember and key in known:
            run.abandon()
            return known[key]
        choices = run.choices()
        if not choices:
            result.ends += 1
            finish(run)
            run.abandon()
            total = 1
        else:
            total = 0
            for number, choice in enumerate(choices):
                following = run if number == 0 else replay()
                path.append(choice)
                try:
                    following.take(choice)
                    total += visit(following)
                except Violation as violation:
                    violation.trace = violation.trace or tuple(following.trace)
                    raise
                path.pop()
        known[key] = total
        return total

    result.schedules = visit(replay())
    result.states = len(known)
    return result
