"""Check step by step whether the services of a catalog can be reached, and which permissions of AWS the project needs.

`doctor` reports the step that fails. `iam_policies` returns IAM policies with the permissions that `plan` and `apply`
need for the tables of a project. Without them, a new user has to find each permission by an error. The resources are
the tables of the layouts: where a table is, its metadata states, or the project if it cannot be read yet.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

import numpy as np

from zlayout.errors import Diagnostic, ZlayoutError, first_line
from zlayout.formats.access import (
    DENIED,
    NotChecked,
    addresses,
    cause_of,
    client_of,
    denied_action,
    require_commits,
    require_writable,
)
from zlayout.formats.registry import backend_for
from zlayout.report.words import version_word
from zlayout.session.concurrent_reads import Reading, read_each, read_one
from zlayout.session.project import known_catalog
from zlayout.session.rules import selected_layouts
from zlayout.spark import versions
from zlayout.spark.session import SparkRuntime
from zlayout.spec.client_options import Store, kms_key, properties, s3_access, stores
from zlayout.spec.model import CatalogConfig, LayoutSpec, Project
from zlayout.table.location import S3_SCHEMES
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


# The permissions of AWS, as IAM policies.


Policy = dict[str, Any]  # an IAM policy document

MAX_POLICY_LENGTH = 6144  # of a managed policy, without spaces
# Iceberg tables may have files at these locations besides their own.
_FURTHER_LOCATIONS = ("write.data.path", "write.metadata.path", "write.object-storage.path")
_KMS_SETTING = re.compile(r"(?:server-side-)?encryption\.key$")  # settings of S3A
_LOG_STORE = "S3DynamoDBLogStore"
_DEFAULT = re.compile(r"^[ \t]*(spark\.\S*?)[ \t]*[ \t=:][ \t]*(.*)$", re.M)


@dataclass(frozen=True, slots=True)
class Policies:
    """The IAM policies of a project.

    Attributes:
        plan: For commands that only read: `plan`, `drift`, `inspect`, `import`, `doctor`.
        apply: For `apply`.
        problems: Why the location of a table is not known exactly.
    """

    plan: Policy
    apply: Policy
    problems: tuple[Diagnostic, ...]


@dataclass(slots=True)
class _Needs:
    """The resources of all tables; each is an ordered set."""

    folders: dict[tuple[str, str], dict[str, None]] = field(default_factory=dict)  # (partition, bucket) to prefixes
    listed: dict[tuple[str, str], dict[str, None]] = field(default_factory=dict)  # prefixes that `doctor` lists
    readable: dict[str, None] = field(default_factory=dict)  # tables of Glue
    committed: dict[str, None] = field(default_factory=dict)  # tables of Glue whose entry a commit changes
    databases: dict[str, None] = field(default_factory=dict)  # what the list of tables needs
    keys: dict[str, None] = field(default_factory=dict)  # of KMS
    log: dict[str, None] = field(default_factory=dict)  # tables of DynamoDB


def iam_policies(project: Project, catalogs: Collection[str] = (), reading: Reading = Reading()) -> Policies:
    """Return the IAM policies for the tables of all layouts and rules. Reads metadata only.

    Args:
        project: The project.
        catalogs: The catalogs whose tables are considered. Empty: all.
        reading: The limits on reading the tables.

    Raises:
        SpecError: ZL021, a catalog is not in the project; ZL045, the project has no layout.
    """
    for name in catalogs:
        known_catalog(project, name)
    found = selected_layouts(project, (), (), reading).layouts
    layouts = [spec for spec in found if not catalogs or spec.table.catalog in catalogs]
    needs, problems = _Needs(), list[Diagnostic]()
    account = _account(project)
    for spec, where in zip(layouts, _locations(project, layouts, reading), strict=True):
        catalog = project.catalogs[spec.table.catalog]
        locations: Iterable[str]
        if isinstance(where, ZlayoutError):
            locations = _declared_locations(catalog, spec)
            problems += [] if locations and catalog.type == "path" else where.diagnostics
        else:
            locations = where
        _add(needs, catalog, spec, locations, account)
    _add_settings(needs, project, account)
    return Policies(_policy(needs, writes=False), _policy(needs, writes=True), tuple(problems))


def _locations(
    project: Project, layouts: Sequence[LayoutSpec], reading: Reading
) -> list[tuple[str, ...] | ZlayoutError]:
    runtime = SparkRuntime(project)
    backends = {name: backend_for(project.catalogs[name], runtime) for name in {spec.table.catalog for spec in layouts}}

    def read(spec: LayoutSpec) -> tuple[str, ...]:
        state = backends[spec.table.catalog].observe(spec.table, ())
        return (state.location, *filter(None, (state.properties.get(name) for name in _FURTHER_LOCATIONS)))

    return read_each(layouts, lambda spec: spec.table, read, reading)


def _declared_locations(catalog: CatalogConfig, spec: LayoutSpec) -> tuple[str, ...]:
    """Return where the project says that a table is: its own folder only if its name determines it."""
    own = catalog.options.get("tables", {}).get(".".join(spec.table.identifier))
    warehouse = str(catalog.options.get("warehouse", "")).rstrip("/")
    if catalog.type == "path" and (own or warehouse):
        return (str(own or "/".join((warehouse, *spec.table.identifier))),)
    return (warehouse,) if urlsplit(warehouse).scheme in S3_SCHEMES else ()


def _partition(region: str) -> str:
    start = region.partition("-")[0]
    return {"cn": "aws-cn"}.get(start, "aws-us-gov" if region.startswith("us-gov-") else "aws")


def _account(project: Project) -> str:
    try:
        catalog = next(iter(project.catalogs.values()))
        client = client_of("sts", s3_access(catalog).region or "us-east-1")
        return str(client.get_caller_identity()["Account"])
    except Exception:  # boto3 is missing, or there are no credentials yet
        return "*"


def _key_arn(catalog: CatalogConfig, key: str, account: str) -> str:
    region = s3_access(catalog).region or "*"
    if key.startswith("arn:"):
        return key
    return f"arn:{_partition(region)}:kms:{region}:{account}:{key if '/' in key else f'key/{key}'}"


def _add(needs: _Needs, catalog: CatalogConfig, spec: LayoutSpec, locations: Iterable[str], account: str) -> None:
    region = s3_access(catalog).region or "*"
    partition = _partition(region)
    permitted = catalog.options.get("file_locations", {}).get(".".join(spec.table.identifier), ())
    for location in (*locations, *permitted):
        url = urlsplit(location)
        if url.scheme in S3_SCHEMES:
            at = needs.folders.setdefault((partition, url.netloc), {})
            at[url.path.strip("/")] = None
    warehouse = urlsplit(str(catalog.options.get("warehouse", "")))
    if catalog.format == "iceberg" and warehouse.scheme in S3_SCHEMES:
        at = needs.listed.setdefault((partition, warehouse.netloc), {})
        at[f"{warehouse.path.strip('/')}/".lstrip("/")] = None
    if key := kms_key(catalog):
        needs.keys[_key_arn(catalog, key, account)] = None
    if catalog.type == "glue":
        owner = properties(catalog).get("glue.id") or account
        start = f"arn:{partition}:glue:{region}:{owner}"
        database, name = ".".join(spec.table.namespace), spec.table.name
        table = dict.fromkeys((f"{start}:catalog", f"{start}:database/{database}", f"{start}:table/{database}/{name}"))
        needs.readable |= table
        needs.databases |= dict.fromkeys((f"{start}:catalog", f"{start}:database/*", f"{start}:table/{database}/*"))
        if catalog.format == "iceberg":
            needs.committed |= table


def _add_settings(needs: _Needs, project: Project, account: str) -> None:
    """Add what Spark's settings name: KMS keys of S3A, and the table of DynamoDB in which Delta decides commits."""
    conf = _settings(project)
    catalog = next(iter(project.catalogs.values()))
    used = [value for name, value in conf.items() if _KMS_SETTING.search(name)]
    needs.keys |= dict.fromkeys(_key_arn(catalog, key, account) for key in used)
    if log := commit_table(project):
        table, region = log
        needs.log[f"arn:{_partition(region)}:dynamodb:{region}:{account}:table/{table}"] = None


def commit_table(project: Project) -> tuple[str, str] | None:
    """Return the name and the region of the table of DynamoDB in which Delta decides who commits; None without one."""
    conf, start = _settings(project), f"spark.io.delta.storage.{_LOG_STORE}.ddb."
    if not any(value.endswith(_LOG_STORE) for value in conf.values()):
        return None
    return conf.get(f"{start}tableName", "delta_log"), conf.get(f"{start}region", "us-east-1")


def _settings(project: Project) -> dict[str, str]:
    return _spark_defaults() | dict(project.spark.conf)


def _spark_defaults() -> dict[str, str]:
    folder = os.environ.get("SPARK_CONF_DIR", "")
    try:
        text = Path(folder, "spark-defaults.conf").read_text("utf-8", "replace") if folder else ""
    except OSError:
        return {}
    return {name: value.strip() for name, value in _DEFAULT.findall(text)}


def _policy(needs: _Needs, *, writes: bool) -> Policy:
    statements: list[dict[str, Any]] = []

    def allow(sid: str, actions: Sequence[str], resources: Iterable[str], **more: Any) -> None:
        if found := list(dict.fromkeys(resources)):
            statements.append({"Sid": sid, "Effect": "Allow", "Action": list(actions), "Resource": found} | more)

    allow("ReadCatalog", ["glue:GetTable"], needs.readable)
    allow("ListCatalog", ["glue:GetDatabases", "glue:GetTables"], needs.databases)
    for number, ((partition, bucket), folders) in enumerate(needs.folders.items(), 1):
        prefixes = [*needs.listed.get((partition, bucket), ())]
        for folder in folders:
            prefixes += [folder, f"{folder}/*"] if folder else ["*"]
        condition = {"StringLike": {"s3:prefix": list(dict.fromkeys(prefixes))}}
        resources = [f"arn:{partition}:s3:::{bucket}"]
        allow(f"ListBucket{number}", ["s3:ListBucket"], resources, Condition=condition)
    files = [
        f"arn:{partition}:s3:::{bucket}/{folder and f'{folder}/'}*"
        for (partition, bucket), folders in needs.folders.items()
        for folder in folders
    ]
    allow("ReadFiles", ["s3:GetObject"], files)
    allow("Decrypt", ["kms:Decrypt"], needs.keys)
    if writes:
        allow("WriteFiles", ["s3:PutObject", "s3:AbortMultipartUpload"], files)
        allow("Encrypt", ["kms:GenerateDataKey"], needs.keys)
        allow("CommitToCatalog", ["glue:UpdateTable"], needs.committed)
        log = ["dynamodb:DescribeTable", "dynamodb:GetItem", "dynamodb:PutItem", "dynamodb:Query"]
        allow("CommitInDynamoDB", log, needs.log)
    return {"Version": "2012-10-17", "Statement": statements}
