"""The permissions of AWS that `plan` and `apply` need for the tables of a project, as IAM policies.

Without them, a new user has to find each permission by an error. The resources are the tables of the layouts: where a
table is, its metadata states, or the project if it cannot be read yet.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from zlayout.errors import Diagnostic, ZlayoutError
from zlayout.formats.access import client_of
from zlayout.formats.registry import backend_for
from zlayout.session.concurrent_reads import Reading, read_each
from zlayout.session.project import known_catalog
from zlayout.session.rules import selected_layouts
from zlayout.spark.session import SparkRuntime
from zlayout.spec.client_options import kms_key, properties, s3_access
from zlayout.spec.model import CatalogConfig, LayoutSpec, Project
from zlayout.table.location import S3_SCHEMES

Policy = dict[str, Any]  # an IAM policy document

MAX_CHARACTERS = 6144  # of a managed policy, without spaces
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
