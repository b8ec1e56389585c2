"""Check step by step whether the services of a catalog can be reached, and report the step that fails."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from itertools import chain
from typing import NoReturn

import numpy as np

from zlayout.errors import ZlayoutError, first_line
from zlayout.formats.access import (
    DENIED,
    NotChecked,
    addresses,
    cause_of,
    denied_action,
    require_commits,
    require_writable,
)
from zlayout.formats.registry import backend_for
from zlayout.report.words import version_word
from zlayout.session.concurrent_reads import read_one
from zlayout.session.iam import commit_table
from zlayout.session.project import known_catalog
from zlayout.spark import versions
from zlayout.spark.session import SparkRuntime
from zlayout.spec.client_options import Store, stores
from zlayout.spec.model import CatalogConfig, Project
from zlayout.table.state import TableState

TIMEOUT = 20.0  # seconds for each step
SAMPLE_BYTES = 1  # one row group, the smallest sample


class Step(StrEnum):
    """The steps of the check of a catalog, in their order."""

    RESOLVE = "resolve"
    CONNECT = "connect"
    ASK_CATALOG = "ask the catalog"
    LIST_STORAGE = "list the storage"
    READ_METADATA = "read metadata"
    READ_DATA_FILE = "read a data file"
    WRITE = "permission to write"
    COMMIT = "permission to commit"
    START_SPARK = "start Spark"
    READ_IN_SPARK = "read in Spark"


class CheckStatus(StrEnum):
    """The result of a step. A step is skipped if there is nothing to check."""

    OK = "ok"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one step for one catalog.

    Attributes:
        detail: What was checked, or why it failed or was skipped.
        hint: What to do; empty unless the step failed.
    """

    catalog: str
    step: Step
    status: CheckStatus
    detail: str
    hint: str = ""


def doctor(
    project: Project, catalogs: Sequence[str] = (), *, spark: bool = False, timeout: float = TIMEOUT
) -> Iterator[Check]:
    """Check catalogs, one step after the other, and stop at the first step of a catalog that fails. Writes nothing.

    Args:
        project: The project.
        catalogs: The names of the catalogs. Empty: all catalogs of the project.
        spark: Whether to start Spark too, with the configuration of the project, and to read the same tables in it.
        timeout: The limit for each step, in seconds. The step `resolve` and those in Spark have none.

    Yields:
        Each check as soon as it is made.

    Raises:
        SpecError: ZL021, a catalog is not in the project.
    """
    for catalog in [known_catalog(project, name) for name in catalogs or sorted(project.catalogs)]:
        steps = _addresses(catalog, timeout), _table(project, catalog, spark, timeout)
        on_aws = Store.S3 in stores(catalog)
        for step, detail, action in chain.from_iterable(steps):
            status, found, hint = _attempt(step, detail, action, _ACTIONS.get(step, "") if on_aws else "")
            yield Check(catalog.name, step, status, found, hint)
            if status is CheckStatus.FAILED:
                break


# The actions that a step on S3 needs. S3 does not always name the one that is denied, and pyarrow does not always
# return the message of a denied request.
_ENCRYPTED = "for objects that a key of KMS encrypts"
_ACTIONS = {
    Step.LIST_STORAGE: "s3:ListBucket and s3:GetObject",
    Step.READ_METADATA: f"s3:ListBucket and s3:GetObject, and kms:Decrypt {_ENCRYPTED}",
    Step.READ_DATA_FILE: f"s3:GetObject, and kms:Decrypt {_ENCRYPTED}",
    Step.WRITE: f"s3:PutObject, and kms:GenerateDataKey {_ENCRYPTED}",
}
WRITE_DENIED = "allow these credentials to write to the location"
READ_ONLY = "make the folder writable for the user who runs apply"  # a folder of this machine needs no credentials
# A step, what it checks, and a function that carries it out. The function raises an exception if the step fails, and
# may return a string that replaces the second item.
_Attempt = tuple[Step, str, Callable[[], object]]


def _attempt(step: Step, detail: str, action: Callable[[], object], actions: str) -> tuple[CheckStatus, str, str]:
    """actions: those of S3 that the step needs; '' if the catalog is not on S3."""
    try:
        found = action()
    except NotChecked as skipped:
        return CheckStatus.SKIPPED, str(skipped), ""
    except ZlayoutError as error:
        first = error.diagnostics[0]
        return CheckStatus.FAILED, f"{first.code} {first.message}", _with_actions(first.hint, error, actions)
    except Exception as error:
        cause = cause_of(error)
        reason = cause.reason if cause else f"{type(error).__name__}: {first_line(error)}"
        hint = cause.hint if cause else ""
        if step in (Step.WRITE, Step.COMMIT) and cause == DENIED:
            hint = READ_ONLY if isinstance(error, PermissionError) else WRITE_DENIED
        return CheckStatus.FAILED, f"{detail}: {reason}", _with_actions(hint, error, actions)
    return CheckStatus.OK, found if isinstance(found, str) else detail, ""


def _with_actions(hint: str, error: Exception, actions: str) -> str:
    denied = denied_action(error)
    missing = denied or (actions if denied is not None else "")
    if not missing or "s3:" in hint:
        return hint
    return f"{hint}: {missing}; `zlayout doctor --iam` prints the policies"


def spark_detail(spark: str) -> str:
    """Describe a version of Spark: whether zlayout was tested with it, and what that means."""
    if spark in versions.TESTED_SPARK:
        return f"Spark {spark}, with which zlayout was tested"
    untested = f"Spark {spark}, with which zlayout was not tested"
    return f"{untested}: before a rewrite, a self-test decides whether engine zlayout is used"


def _skip(reason: str) -> NoReturn:
    raise NotChecked(reason)


def _addresses(catalog: CatalogConfig, timeout: float) -> Iterator[_Attempt]:
    found = addresses(catalog)
    if not found:
        yield Step.RESOLVE, "", partial(_skip, "the catalog and its tables are on this machine")
    for address in found:
        host, port = address.host, address.port
        yield Step.RESOLVE, f"{address.service}: {host}", partial(socket.getaddrinfo, host, port)
        yield Step.CONNECT, f"{address.service}: {address}", partial(_connect, host, port, timeout)


def _connect(host: str, port: int, timeout: float) -> None:
    socket.create_connection((host, port), timeout).close()


def _table(project: Project, catalog: CatalogConfig, spark: bool, timeout: float) -> Iterator[_Attempt]:
    spec = next((spec for spec in project.layouts if spec.table.catalog == catalog.name), None)
    if spec is None:
        yield Step.READ_METADATA, "", partial(_skip, "no layout of the project names a table of this catalog")
        return
    table, columns = spec.table, spec.column_names
    runtime = SparkRuntime(project)
    backend = backend_for(catalog, runtime)
    states: list[TableState] = []

    def list_catalog() -> str:
        found = any(listed.table == table.on("") for listed in backend.list_tables(table))
        return f"it {'lists' if found else 'does not list'} {table}"

    def list_storage() -> str:
        return backend.list_storage(table) or _skip("the location is known only from the metadata of a table")

    def observe() -> str:
        states.append(backend.observe(table, columns))
        version = states[0].version
        return f"{table}: {version_word(catalog.format)} {version}" if version >= 0 else f"{table}: no data yet"

    def sample() -> None:
        if not len(states[0].files):
            _skip(f"{table} has no data files")
        backend.sample_keys(table, states[0], np.zeros(1, np.int64), columns, SAMPLE_BYTES, 0)

    def write() -> str:
        require_writable(catalog, states[0].location)
        return f"{states[0].location}: nothing was written"

    steps: list[_Attempt] = [
        (Step.ASK_CATALOG, f"type {catalog.type}", list_catalog),
        (Step.LIST_STORAGE, "its storage", list_storage),
        (Step.READ_METADATA, str(table), observe),
        (Step.READ_DATA_FILE, f"{table}: one row group of one file", sample),
        (Step.WRITE, str(table), write),
    ]
    log = commit_table(project)
    if catalog.format == "delta" and Store.S3 in stores(catalog) and log is not None:
        detail = f"DynamoDB: {log[0]}: nothing was written"
        steps.append((Step.COMMIT, detail, partial(require_commits, *log)))
    if catalog.format == "iceberg" and catalog.type == "glue":
        reason = "not checked, because that would change the table; apply needs glue:UpdateTable"
        steps.append((Step.COMMIT, str(table), partial(_skip, reason)))
    for step, detail, action in steps[catalog.type == "path" :]:
        yield step, detail, partial(read_one, action, table, timeout)
    if spark:
        with runtime:
            detail = "with the configuration of the project"
            yield Step.START_SPARK, detail, lambda: spark_detail(runtime.session.version)
            detail = f"{table}: the same version"
            yield (
                Step.READ_IN_SPARK,
                detail,
                lambda: backend.sample_source(table, states[0], 0).frame.limit(1).collect(),
            )
