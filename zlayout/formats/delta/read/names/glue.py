"""Reads the AWS Glue Data Catalog through boto3."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from zlayout.formats.aws import limit_responses
from zlayout.formats.delta.read.names.entry import Entry, metastore_entry
from zlayout.formats.storage import s3_access
from zlayout.formats.time_limits import ATTEMPTS, CONNECT_SECONDS, READ_SECONDS
from zlayout.spec.model import CatalogConfig


class Glue:
    """See `zlayout.formats.delta.read.names.entry.NameService`. boto3 finds the credentials in its usual chain."""

    def __init__(self, catalog: CatalogConfig) -> None:
        import boto3
        from botocore.config import Config

        limits = Config(
            connect_timeout=CONNECT_SECONDS,
            read_timeout=READ_SECONDS,
            retries={"total_max_attempts": ATTEMPTS, "mode": "standard"},
        )
        self._client = boto3.Session().client(
            "glue", region_name=s3_access(catalog).region, endpoint_url=catalog.options.get("uri"), config=limits
        )
        limit_responses(self._client)

    def entry(self, namespace: str, name: str) -> Entry | None:
        try:
            return _entry(self._client.get_table(DatabaseName=namespace, Name=name)["Table"])
        except self._client.exceptions.EntityNotFoundException:
            return None

    def namespaces(self) -> Iterator[str]:
        for page in self._client.get_paginator("get_databases").paginate():
            yield from (database["Name"] for database in page["DatabaseList"])

    def entries(self, namespace: str) -> Iterator[Entry]:
        for page in self._client.get_paginator("get_tables").paginate(DatabaseName=namespace):
            yield from map(_entry, page["TableList"])


def _entry(table: Mapping[str, Any]) -> Entry:
    storage = table.get("StorageDescriptor", {})
    serde = storage.get("SerdeInfo", {}).get("Parameters")
    return metastore_entry(
        table["Name"], table.get("TableType"), table.get("Parameters"), storage.get("Location"), serde
    )
