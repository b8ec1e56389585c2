"""Check step by step whether the services of a catalog can be reached, and say which step fails. Writes nothing."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import numpy as np

from zlayout.app.concurrent_reads import read_one
from zlayout.app.project import known_catalog
from zlayout.errors import ZlayoutError, first_line
from zlayout.formats.access import DENIED, cause_of
from zlayout.formats.addresses import Address, addresses
from zlayout.formats.base import Backend
from zlayout.formats.registry import backend_for
from zlayout.formats.write_permission import NotChecked, require_writable
from zlayout.spark import versions
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import CatalogConfig, LayoutSpec, Project, TableName
from zlayout.table.state import TableState

TIMEOUT = 20.0  # seconds for each step
SAMPLE_BYTES = 1  # one row group, the smallest sample


class Step(StrEnum):
    """A step of the check, in this order."""

    RESOLVE = "resolve"
    CONNECT = "connect"
    ASK_CATALOG = "ask the catalog"
    LIST_STORAGE = "list the storage"
    READ_METADATA = "read metadata"
    READ_DATA_FILE = "read a data file"
    WRITE = "permission to write"
    START_SPARK = "start Spark"
    READ_IN_SPARK = "read in Spark"


class Outcome(StrEnum):
    """What a step found. A step is skipped if there is nothing to check, or if an earlier step failed."""

    OK = "ok"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Check:
    """One step of one catalog.

    Attributes:
        outcome: What it found.
        detail: What was checked, or why it failed or was skipped.
        hint: What to do; empty unless the step failed.
    """

    catalog: str
    step: Step
    outcome: Outcome
    detail: str
    hint: str = ""


def doctor(
    project: Project, catalogs: Sequence[str] = (), *, spark: bool = False, timeout: float = TIMEOUT
) -> Iterator[Check]:
    """Check catalogs, one step after the other.

    Args:
        catalogs: The names of the catalogs. Empty: all catalogs of the project.
        spark: Whether to start Spark with the configuration of the project, and to read the same tables in it.
        timeout: The limit for each step, in seconds.

    Yields:
        Each check as soon as it is made.

    Raises:
        SpecError: ZL021, a catalog is not in the project.
    """
    for catalog in [known_catalog(project, name) for name in catalogs or sorted(project.catalogs)]:
        spec = next((spec for spec in project.layouts if spec.table.catalog == catalog.name), None)
        yield from _catalog(_Checks(project, catalog, spec, timeout), spark)


WRITE_DENIED = "allow these credentials to write to the location"


@dataclass(frozen=True, slots=True)
class _Checks:
    project: Project
    catalog: CatalogConfig
    spec: LayoutSpec | None
    timeout: float

    def of(self, step: Step, outcome: Outcome, detail: str, hint: str = "") -> Check:
        return Check(self.catalog.name, step, outcome, detail, hint)

    def attempt(self, step: Step, detail: str, action: Callable[[], object]) -> Check:
        """Return the check of an action, which raises an exception if it fails, and may return a better detail."""
        try:
            found = action()
        except NotChecked as skipped:
            return self.skipped(step, str(skipped))
        except ZlayoutError as error:
            first = error.diagnostics[0]
            return self.of(step, Outcome.FAILED, f"{first.code} {first.message}", first.hint)
        except Exception as error:
            cause = cause_of(error)
            reason = cause.reason if cause else f"{type(error).__name__}: {first_line(error)}"
            hint = WRITE_DENIED if step is Step.WRITE and cause == DENIED else cause.hint if cause else ""
            return self.of(step, Outcome.FAILED, f"{detail}: {reason}", hint)
        return self.of(step, Outcome.OK, found if isinstance(found, str) else detail)

    def skipped(self, step: Step, reason: str) -> Check:
        return self.of(step, Outcome.SKIPPED, reason)


def spark_detail(spark: str) -> str:
    """Describe a version of Spark: whether `make matrix` ran with it, or what decides instead."""
    if spark in versions.TESTED_SPARK:
        return f"Spark {spark}, with which zlayout was tested"
    return (
        f"Spark {spark}, with which zlayout was not tested: before a rewrite, a self-test decides about engine zlayout"
    )


def _catalog(checks: _Checks, spark: bool) -> Iterator[Check]:
    found = addresses(checks.catalog)
    if not found:
        yield checks.skipped(Step.RESOLVE, "the catalog and its tables are on this machine")
    for address in found:
        resolved = checks.attempt(Step.RESOLVE, f"{address.service}: {address.host}", partial(_resolve, address))
        yield resolved
        if resolved.outcome is Outcome.FAILED:
            return
        connected = checks.attempt(Step.CONNECT, f"{address.service}: {address}", partial(_connect, address, checks))
        yield connected
        if connected.outcome is Outcome.FAILED:
            return
    yield from _table(checks, spark)


def _listed(backend: Backend, table: TableName) -> str:
    location = backend.list_storage(table)
    if location is None:
        raise NotChecked("the location is known only from the metadata of a table")
    return location


def _resolve(address: Address) -> None:
    socket.getaddrinfo(address.host, address.port)


def _connect(address: Address, checks: _Checks) -> None:
    with closing(socket.create_connection((address.host, address.port), checks.timeout)):
        pass


def _table(checks: _Checks, spark: bool) -> Iterator[Check]:
    """Check the first table of the catalog that has a layout. The first step that fails is the last one."""
    if checks.spec is None:
        yield checks.skipped(Step.READ_METADATA, "no layout of the project names a table of this catalog")
        return
    table, columns = checks.spec.table, checks.spec.column_names
    runtime = SparkRuntime(checks.project)
    backend = backend_for(checks.catalog, runtime)
    states: list[TableState] = []
    first = np.zeros(1, np.int64)

    def list_catalog() -> str:
        return f"{len(list(backend.list_tables(table)))} table with the name {table}"

    def observe() -> str:
        states.append(backend.observe(table, columns))
        return f"{table}: version {states[0].version}"

    def sample() -> str:
        if not len(states[0].files):
            raise NotChecked(f"{table} has no data files")
        backend.sample_keys(table, states[0], first, columns, SAMPLE_BYTES, 0)
        return f"{table}: one row group of one file"

    def write() -> str:
        require_writable(checks.catalog, states[0].location)
        return f"{states[0].location}: nothing was written"

    steps: list[tuple[Step, str, Callable[[], str]]] = [
        (Step.LIST_STORAGE, "its storage", lambda: _listed(backend, table)),
        (Step.READ_METADATA, str(table), observe),
        (Step.READ_DATA_FILE, f"{table}: one row group of one file", sample),
        (Step.WRITE, str(table), write),
    ]
    if checks.catalog.type != "path":
        steps.insert(0, (Step.ASK_CATALOG, f"type {checks.catalog.type}", list_catalog))
    for step, detail, action in steps:
        check = checks.attempt(step, detail, partial(read_one, action, table, checks.timeout))
        yield check
        if check.outcome is Outcome.FAILED:
            return
    (state,) = states
    if spark:
        with runtime:
            started = checks.attempt(
                Step.START_SPARK, "with the configuration of the project", lambda: spark_detail(runtime.session.version)
            )
            yield started
            if started.outcome is Outcome.OK:
                yield checks.attempt(
                    Step.READ_IN_SPARK,
                    f"{table}: the same version",
                    lambda: backend.sample_source(table, state, 0).frame.limit(1).collect(),
                )
