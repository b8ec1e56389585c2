"""A table of one format, rewriters and writers: what one exploration is about, and what must hold at its end.

The models satisfy the same Protocol as the product's backends, and more: they are the product's Delta and Iceberg
backends, with stand-ins for the JVM, the log or catalog, and the Spark job. So what the schedules try is the code that
commits to real tables, not a copy of it. That is why they live beside the tests and not in
`support.memory_format`, which has a protocol of its own and would ship with the product.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations_with_replacement
from typing import Any, Protocol

from model import delta_backend, delta_writers, iceberg_backend, iceberg_writers, rebases
from model.delta_log import DeltaTable
from model.delta_writers import MANAGE
from model.iceberg_catalog import IcebergTable
from model.reports import Planner, Report, RunCommit
from model.schedule import Explored, Intern, Process, Run, Violation, explore

from zlayout.formats.base import PlannedTable
from zlayout.formats.delta.read.log import LAYOUT_ID
from zlayout.table.state import TableState

KEYS = (1, 2)  # writer 0 touches one file, writer 1 two


@dataclass(frozen=True, slots=True)
class Scenario:
    """format: delta or iceberg. lineage: row tracking, or Iceberg version 3. faults: how many in a schedule.

    jobs_fail: among them those of the Spark job itself. long: not for every run of the tests. branch: of an Iceberg
    table. unclustered: a Delta table after CLUSTER BY NONE.
    """

    format: str
    writers: tuple[str, ...]
    lineage: bool = True
    rewriters: int = 2
    faults: int = 0
    jobs_fail: bool = False
    long: bool = field(default=False, compare=False)
    branch: str = ""
    unclustered: bool = False

    def __str__(self) -> str:
        lineage = "lineage" if self.lineage else "plain"
        kind = self.branch or ("unclustered" if self.unclustered else "")
        names = (self.format, *filter(None, (kind,)), lineage, *self.writers, f"{self.faults}faults")
        return "-".join((*names, f"{self.rewriters}rewriters"))


class World(Protocol):
    """The seam between a format's model and what is the same for both."""

    log_id: int
    table: Any

    def write(self, operation: str, key: int, name: str) -> None: ...
    def client(self) -> Planner: ...
    def commits(self, report: Report) -> list[RunCommit]: ...
    def missing(self) -> frozenset[str]:
        """Live files that are not in storage."""
        ...

    def recorded(self) -> set[str]:
        """Live files that the table says zlayout laid out."""
        ...

    @property
    def gone(self) -> bool:
        """Whether nothing is left that zlayout may lay out."""
        ...


class Delta:
    def __init__(self, scenario: Scenario, memory: Memory) -> None:
        if memory.table is None:
            memory.table = DeltaTable(memory.intern, memory.known, lineage=scenario.lineage)
            memory.table.jobs_fail = scenario.jobs_fail
            delta_writers.fill(memory.table, unclustered=scenario.unclustered)
        self.table: DeltaTable = memory.table.copy()
        self._memory = memory

    @property
    def log_id(self) -> int:
        return self.table.log_id

    def write(self, operation: str, key: int, name: str) -> None:
        delta_writers.write(self.table, operation, key, name)

    def client(self) -> Planner:
        return delta_backend.ModelDelta(self.table, self._memory.works, self._memory.states)

    def commits(self, report: Report) -> list[RunCommit]:
        return delta_backend.commits_of(self.table, report.run_id)

    def missing(self) -> frozenset[str]:
        needed = (name for file in self.table.current.files.values() for name in file.stored)
        return frozenset(needed) - self.table.storage

    def recorded(self) -> set[str]:
        return {file.name for file in self.table.current.files.values() if LAYOUT_ID in file.tags}

    @property
    def gone(self) -> bool:
        return self.table.current.owned or bool(self.table.current.clustering)


class Iceberg:
    def __init__(self, scenario: Scenario, memory: Memory) -> None:
        if memory.table is None:
            memory.table = IcebergTable(memory.intern, memory.known, lineage=scenario.lineage)
            memory.table.jobs_fail = scenario.jobs_fail
            iceberg_writers.fill(memory.table)
            memory.table.branch, memory.table.fork = scenario.branch, memory.table.current.current.number
        self.table: IcebergTable = memory.table.copy()
        self._memory = memory

    @property
    def log_id(self) -> int:
        return self.table.log_id

    def write(self, operation: str, key: int, name: str) -> None:
        iceberg_writers.write(self.table, operation, key, name)

    def client(self) -> Planner:
        return iceberg_backend.ModelIceberg(self.table, self._memory.works, self._memory.states)

    def commits(self, report: Report) -> list[RunCommit]:
        return iceberg_backend.commits_of(self.table, report.run_id, report.work)

    def missing(self) -> frozenset[str]:
        own = (name for name in self.table.current.deletes if name.startswith(("run-", "again-")))
        return frozenset([*self.table.current.files, *own]) - self.table.storage

    def recorded(self) -> set[str]:
        return iceberg_backend.laid_out(self.table.current)

    @property
    def gone(self) -> bool:
        return self.table.dropped


WORLDS = {"delta": Delta, "iceberg": Iceberg}


# What two writers do beside two rewriters, and what one does where anything may fail, in every run of the tests.
PAIRS = {
    "delta": (("append", "delete"),),
    "iceberg": (("append", "equality"),),
}
WITH_FAULTS = {"delta": (), "iceberg": ("equality",)}  # on Delta a takeover by a catalog, below
OPERATIONS = {"delta": tuple(delta_writers.WRITERS), "iceberg": tuple(iceberg_writers.WRITERS)}


def _scenarios() -> Iterator[Scenario]:
    for format, operations in OPERATIONS.items():
        for pair in combinations_with_replacement(operations, 2):
            yield Scenario(format, pair, long=pair not in PAIRS[format])
            yield Scenario(format, pair, faults=1, long=True)
        for name in operations:
            yield Scenario(format, (name,), faults=1, long=name not in WITH_FAULTS[format])
            yield Scenario(format, (name,), rewriters=1, faults=2, jobs_fail=True)
            yield Scenario(format, (name,), rewriters=1, faults=1, jobs_fail=True, lineage=False)


def _on_branches() -> Iterator[Scenario]:
    yield Scenario("iceberg", ("elsewhere", "delete"), rewriters=1, branch="audit")
    yield Scenario("iceberg", ("elsewhere",), branch="audit", long=True)
    yield Scenario("iceberg", ("drop", "append"), rewriters=1, branch="audit")
    yield Scenario("iceberg", ("drop", "append"), rewriters=1, faults=1, branch="audit", long=True)
    yield Scenario("iceberg", ("update",), faults=1, branch="audit", long=True)


def _dropped_deletes() -> Iterator[Scenario]:
    """A concurrent equality delete becomes older than all files that Iceberg counts when it drops delete files."""
    yield Scenario("iceberg", ("equality+update_outside",), rewriters=1, lineage=False)
    yield Scenario("iceberg", ("equality+update_outside",), rewriters=1, faults=1)
    yield Scenario("iceberg", ("equality+update_outside", "append"), lineage=False, long=True)
    yield Scenario("iceberg", ("delete", "equality+update_outside"), rewriters=1, lineage=False, long=True)


def _catalog_managed() -> Iterator[Scenario]:
    yield Scenario("delta", (MANAGE, "append"), rewriters=1, faults=1)
    yield Scenario("delta", (MANAGE,), faults=1)
    yield Scenario("delta", (MANAGE, "update"), long=True)


def _clustered() -> Iterator[Scenario]:
    yield Scenario("delta", ("cluster+optimize", "append"), rewriters=1)
    yield Scenario("delta", ("cluster+optimize", "append"), rewriters=1, faults=1, long=True)
    yield Scenario("delta", ("cluster+optimize+uncluster",), rewriters=1, faults=1, unclustered=True)
    yield Scenario("delta", ("cluster", "delete"), rewriters=1, faults=1, unclustered=True, lineage=False)
    yield Scenario("delta", ("cluster", "uncluster"), unclustered=True, long=True)
    yield Scenario("delta", ("cluster+optimize",), faults=1, unclustered=True, long=True)
    yield Scenario("delta", ("cluster", MANAGE), rewriters=1, faults=1, unclustered=True, long=True)


def _rebased() -> Iterator[Scenario]:
    yield Scenario("delta", ("delete_pair", "update"), rewriters=1, lineage=False)
    yield Scenario("delta", ("delete_one+delete_one",), rewriters=1, faults=1, lineage=False)
    yield Scenario("delta", ("restore", "delete"), rewriters=1)
    yield Scenario("delta", ("update_last+delete_one", "append"), rewriters=1)
    yield Scenario("delta", ("delete_pair+update_last",), rewriters=1, faults=1, lineage=False)
    yield Scenario("delta", ("update_last", "delete_last"), rewriters=1, faults=1, jobs_fail=True, long=True)
    yield Scenario("delta", ("update_last", "compact"), rewriters=1, lineage=False, long=True)
    yield Scenario("delta", ("delete", "delete_one"), lineage=False, long=True)
    yield Scenario("delta", ("delete_one+delete_one", "append"), rewriters=1, faults=1, lineage=False, long=True)
    yield Scenario("delta", ("restore", "delete"), rewriters=1, faults=1, long=True)
    yield Scenario("delta", ("delete", "delete"), rewriters=1, faults=2, jobs_fail=True, long=True)
    for lineage in (False, True):
        yield Scenario("iceberg", ("delete_pair", "update"), rewriters=1, lineage=lineage, long=lineage)
        yield Scenario("iceberg", ("delete_one+delete_one",), rewriters=1, faults=1, lineage=lineage)
        yield Scenario("iceberg", ("delete", "delete"), rewriters=1, faults=1, lineage=lineage, long=True)
        yield Scenario("iceberg", ("delete", "equality"), rewriters=1, lineage=lineage, long=not lineage)
        yield Scenario("iceberg", ("delete_one", "equality"), rewriters=1, lineage=lineage, long=True)
        yield Scenario("iceberg", ("delete", "compact"), rewriters=1, lineage=lineage, long=True)
        yield Scenario("iceberg", ("restore", "delete"), rewriters=1, lineage=lineage, long=not lineage)
    yield Scenario("iceberg", ("delete_one+delete", "elsewhere"), rewriters=1, branch="audit")
    yield Scenario("iceberg", ("delete", "delete"), rewriters=1, faults=2, jobs_fail=True, long=True)


SCENARIOS = (*_scenarios(), *_on_branches(), *_dropped_deletes(), *_catalog_managed(), *_clustered(), *_rebased())


@contextmanager
def stand_ins() -> Iterator[None]:
    """No JVM for either format. For as short as a test module, since the product is patched meanwhile."""
    with delta_backend.stand_in(), iceberg_backend.stand_in(), rebases.stand_in():
        yield


@dataclass(slots=True)
class Memory:
    """What all runs of one exploration share: pure functions of logs that need not be computed again."""

    intern: Intern = field(default_factory=dict)
    table: Any = None
    known: dict[int, Any] = field(default_factory=dict)
    states: dict[int, TableState] = field(default_factory=dict)
    works: dict[int, PlannedTable] = field(default_factory=dict)
    converging: set[int] = field(default_factory=set)


@dataclass(slots=True)
class WorldRun(Run):
    world: Any = None
    reports: tuple[Report, ...] = ()
    memory: Memory = field(default_factory=Memory)


def search(scenario: Scenario, *, remember: bool = True) -> Explored:
    """Try all schedules of a scenario (see `explore`). Raises Violation."""
    memory = Memory()

    def begin() -> WorldRun:
        world = WORLDS[scenario.format](scenario, memory)
        reports = tuple(Report(f"run-{n}") for n in range(scenario.rewriters))
        rewriters = [Process(r.run_id, lambda r=r: r.run(world.client()), memory.intern, r.content) for r in reports]
        writers = [
            Process(f"{what}-{n}", partial(world.write, what, KEYS[n], f"{what}-{n}"), memory.intern, lambda: None)
            for n, what in enumerate(scenario.writers)
        ]
        twin = 1 if scenario.rewriters == 2 else -1
        return WorldRun(
            world, (*rewriters, *writers), scenario.faults, twin, world=world, reports=reports, memory=memory
        )

    return explore(begin, finish, remember=remember)


def finish(run: Run) -> None:
    """What must hold when all is over, and that one more apply, alone, brings the table to what was declared."""
    assert isinstance(run, WorldRun)
    world = run.world
    for report in run.reports:
        report.check(world.commits(report))
        if report.refused and not world.table.jobs_fail:
            raise Violation("gate refused", f"{report.error}, although no job has failed")
    check_table(world)
    if world.log_id in run.memory.converging:
        return
    run.memory.converging.add(world.log_id)
    again = Report("again")
    again.run(world.client())
    again.check(world.commits(again))
    if world.gone:
        if world.commits(again):
            raise Violation("not refused", "the next run has nothing that it may lay out")
        return
    if again.error is not None or again.failures or world.client().plan("never").groups:
        raise Violation("does not converge", f"{again.error or again.failures or 'there is still something to do'}")
    check_table(world)


def check_table(world: World) -> None:
    if missing := world.missing():
        raise Violation("missing file", f"live, but not in storage: {sorted(missing)}")
    if false := {path for path in world.recorded() if not path.startswith(("run-", "again-"))}:
        raise Violation("false record", f"said to be laid out, and never rewritten: {sorted(false)}")
