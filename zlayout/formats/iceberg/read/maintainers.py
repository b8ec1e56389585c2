"""Recognises services that compact an Iceberg table by themselves, as warnings (ZL433).

Amazon S3 Tables and Snowflake are recognised by what is known of the table already. AWS Glue and Apache Polaris answer
a request of its own. Such a request is optional: it is sent once, waits for SECONDS at most, and an answer other than
the expected ones means that there is no warning. A service that refuses it is not asked again for some minutes, for no
table.

Sources:

- Snowflake compacts the tables that it manages unless ENABLE_DATA_COMPACTION is FALSE
  (https://docs.snowflake.com/en/release-notes/2025/other/2025-09-22-enable-data-compaction-parameter). Other engines
  write to them through its Horizon Catalog, an Iceberg REST catalog on the host of the account, with a scope
  `session:role:ROLE`
  (https://docs.snowflake.com/en/user-guide/tables-iceberg-access-using-external-query-engine-snowflake-horizon). Tables
  of Snowflake Open Catalog, which Snowflake does not manage, are on such hosts too, with a scope `PRINCIPAL_ROLE:ROLE`.
- Polaris lists among the endpoints of `/v1/config` whether it has policies, and states those that apply to a table
  (spec/polaris-catalog-apis/policy-apis.yaml of apache/polaris, `getApplicablePolicies`).
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from zlayout import reading
from zlayout.errors import Diagnostic
from zlayout.formats.access import limit_session
from zlayout.table.external import maintained_by
from zlayout.text import quote_value

if TYPE_CHECKING:
    from pyiceberg.table import Table

SECONDS = 5.0  # for the connection, and for each part of the response
SECONDS_OF_REFUSAL = 600.0  # for which a service is not asked again
GLUE_OWNER = "_zlayout_owner"  # attribute of a catalog in AWS Glue: the account that its tables belong to
_S3_TABLES = re.compile(r"s3a?://[^/]+--table-s3(/|$)")  # the bucket of one table of Amazon S3 Tables
_SNOWFLAKE = ".snowflakecomputing.com"
_POLICY = "system.data-compaction"
_POLICIES = "/polaris/v1/{prefix}/applicable-policies"
# The services that have refused a request, with the time until which they are not asked.
_refused: dict[str, float] = {}


class Refused(Exception):
    """A service does not support a request, does not permit it, or gives no answer."""


def maintainers(table: Table) -> tuple[Diagnostic, ...]:
    """Return a warning for each service that compacts a table. Sends at most one request, and raises nothing."""
    known = (*of_location(table.metadata.location), *_of_snowflake(table))
    if known:
        return known
    for asked in (_of_glue, _of_polaris):
        with suppress(Exception):  # the warning is not worth an error
            if found := asked(table):
                return found
    return ()


def of_location(location: str) -> tuple[Diagnostic, ...]:
    """Return a warning if the location of a table is in Amazon S3 Tables, which compacts tables."""
    off = "disable icebergCompaction with `aws s3tables put-table-maintenance-configuration`"
    return (maintained_by("the compaction of Amazon S3 Tables", off),) if _S3_TABLES.match(location) else ()


def _of_snowflake(table: Table) -> tuple[Diagnostic, ...]:
    properties = table.catalog.properties
    host = urlsplit(str(properties.get("uri", ""))).hostname or ""
    if not host.endswith(_SNOWFLAKE) or not str(properties.get("scope", "")).startswith("session:role:"):
        return ()
    off = "run ALTER ICEBERG TABLE ... SET ENABLE_DATA_COMPACTION = FALSE in Snowflake, unless it is off already"
    return (maintained_by("the compaction of Snowflake", off),)


def _of_glue(table: Table) -> tuple[Diagnostic, ...]:
    client, owner = getattr(table.catalog, "glue", None), getattr(table.catalog, GLUE_OWNER, None)
    if client is None or owner is None:
        return ()
    namespace, name = table.name()
    with _asking(f"glue {client.meta.endpoint_url}"), suppress(client.exceptions.EntityNotFoundException):
        found = client.get_table_optimizer(CatalogId=owner, DatabaseName=namespace, TableName=name, Type="compaction")
        if found["TableOptimizer"]["configuration"]["enabled"] is True:
            off = f"run `aws glue delete-table-optimizer --catalog-id {owner} --type compaction ...` for the table"
            return (maintained_by("the compaction optimizer of AWS Glue", off),)
    return ()


def ask_once(client: Any) -> None:
    """Let a Glue client of boto3 send GetTableOptimizer once, and wait for SECONDS. It repeats other requests."""
    from botocore.httpsession import URLLib3Session

    session = URLLib3Session(verify=os.environ.get("AWS_CA_BUNDLE", True), timeout=SECONDS)
    limit_session(session)

    def send(request: Any, **_: Any) -> Any:
        return session.send(request)

    def refuse(parsed_response: Any = None, exception: Exception | None = None, **_: Any) -> None:
        error = (parsed_response or {}).get("Error", {}).get("Code")
        if exception is not None or error not in (None, "EntityNotFoundException"):
            raise Refused(error) from exception  # boto3 would repeat the request only after this event

    client.meta.events.register("before-send.glue.GetTableOptimizer", send)
    client.meta.events.register("response-received.glue.GetTableOptimizer", refuse)


def _of_polaris(table: Table) -> tuple[Diagnostic, ...]:
    catalog: Any = table.catalog
    if not any(str(one) == f"GET {_POLICIES}" for one in getattr(catalog, "_supported_endpoints", ())):
        return ()
    *namespace, name = table.name()
    path = _POLICIES.format(prefix=catalog.properties.get("prefix", "")).replace("//", "/")
    url = catalog.uri.rstrip("/") + path
    wanted = {"namespace": "\x1f".join(namespace), "target-name": name, "policyType": _POLICY}
    with _asking(f"polaris {url}"):
        response = catalog._session.get(url, params=wanted, timeout=SECONDS)
        if not response.ok:
            raise Refused(response.status_code)
    for policy in response.json()["applicable-policies"]:
        if policy["policy-type"] == _POLICY and reading.parse_json(policy["content"]).get("enable") is True:
            service = f"a service that follows the policy {quote_value(policy['name'])} ({_POLICY}) of Apache Polaris"
            return (maintained_by(service, 'detach the policy, or attach one with "enable": false to the table'),)
    return ()


@contextmanager
def _asking(service: str) -> Iterator[None]:
    """Raise Refused at once if the service has refused a request lately, and remember that it does so now."""
    if time.monotonic() < _refused.get(service, 0):
        raise Refused(service)
    try:
        yield
    except (Refused, OSError):  # errors of requests are errors of the system
        _refused[service] = time.monotonic() + SECONDS_OF_REFUSAL
        raise
