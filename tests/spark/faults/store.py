"""Tables in an S3 store behind a proxy that lets requests fail, and the catalogs that contain them."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore.exceptions import ClientError
from deltalake import DeltaTable
from pyiceberg.catalog import load_catalog
from spark.faults.tables import Delta, Iceberg
from support.rest import RestServer
from support.s3_proxy import Fault, Proxy
from support.servers import CREDENTIALS, free_port

from zlayout.errors import Location
from zlayout.formats.iceberg.read.catalog import load_table
from zlayout.spec.client_options import deltalake_options, pyiceberg_properties
from zlayout.spec.model import CatalogConfig, TableName

BUCKET = "zlayout-faults"
LAKE, ICE, REST = "faultlake", "faultice", "faultrest"
_PLACE = Location("zlayout.yaml")
# A client repeats a failed request a few times within a second, so that a test of a store that is away ends soon.
_S3A = {
    "attempts.maximum": "3",
    "retry.limit": "2",
    "retry.interval": "50ms",
    "retry.throttle.limit": "2",
    "retry.throttle.interval": "50ms",
    "connection.establish.timeout": "5s",
    "connection.timeout": "10s",
}
_S3_FILE_IO = {"s3.retry.num-retries": "2", "s3.retry.min-wait-ms": "50", "s3.retry.max-wait-ms": "200"}


def fault_catalogs(root: Path, endpoint: str) -> dict[str, CatalogConfig]:
    """A Delta and two Iceberg catalogs, in SQLite and by REST, whose store is at this endpoint."""
    storage = {"endpoint": endpoint, "region": "us-east-1"}
    lake = {"warehouse": f"s3://{BUCKET}/delta", "storage": storage}
    ice = {"uri": f"sqlite:///{root / 'faults.db'}", "warehouse": f"s3://{BUCKET}/iceberg", "storage": storage}
    rest = {"uri": f"http://127.0.0.1:{free_port()}", "storage": storage}
    return {
        LAKE: CatalogConfig(LAKE, "delta", "path", lake, _PLACE),
        ICE: CatalogConfig(ICE, "iceberg", "sql", ice, _PLACE),
        REST: CatalogConfig(REST, "iceberg", "rest", rest, _PLACE),
    }


def fault_conf() -> dict[str, str]:
    """The settings of Spark with which S3A and Iceberg's client of S3 soon give up."""
    s3a = {f"spark.hadoop.fs.s3a.bucket.{BUCKET}.{key}": value for key, value in _S3A.items()}
    return s3a | {f"spark.sql.catalog.{c}.{key}": value for c in (ICE, REST) for key, value in _S3_FILE_IO.items()}


@dataclass
class Store:
    """The store without the proxy, and the proxy.

    Attributes:
        url: The URL of the store, which tests use to look at what is stored.
        proxy: The proxy, which zlayout and Spark use.
        made: The newest metadata file of an Iceberg table that nobody writes to, by variant.
    """

    url: str
    proxy: Proxy
    made: dict[str, str] = field(default_factory=dict)

    @property
    def client(self) -> Any:
        return boto3.client(
            "s3",
            endpoint_url=self.url,
            region_name="us-east-1",
            aws_access_key_id=CREDENTIALS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=CREDENTIALS["AWS_SECRET_ACCESS_KEY"],
        )

    @contextmanager
    def failing(self, fault: Fault) -> Iterator[Fault]:
        with self.proxy.failing(fault):
            yield fault

    def size(self, place: str) -> int | None:
        url = urlsplit(place)
        try:
            return int(self.client.head_object(Bucket=url.netloc, Key=url.path.lstrip("/"))["ContentLength"])
        except ClientError:
            return None

    def upload(self, folder: Path, prefix: str) -> None:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.name.endswith(".crc"):
                self.client.upload_file(str(path), BUCKET, f"{prefix}/{path.relative_to(folder)}")


@dataclass
class RestStore:
    """A REST catalog of tables in the store, and the proxy in front of it, which zlayout and Spark use."""

    server: RestServer
    proxy: Proxy
    store: Store


@dataclass
class S3Delta(Delta):
    """A Delta table in the store."""

    store: Store | None = None

    @property
    def location(self) -> str:
        return f"s3://{BUCKET}/delta/db/{self.name.name}"

    def create(self) -> None:
        self.store.upload(self.template(), f"delta/db/{self.name.name}")

    def opened(self) -> DeltaTable:
        """Not through the proxy, because a query of deltalake lets no other thread of this process run."""
        options = {**deltalake_options(self.catalog), "aws_endpoint_url": self.store.url}
        return DeltaTable(self.location, storage_options=options)

    def stored_size(self, place: str) -> int | None:
        return self.store.size(place)


@dataclass
class S3Iceberg(Iceberg):
    """An Iceberg table in the store. Tables of one variant begin with the same files, which none of them changes."""

    store: Store | None = None

    def create(self) -> None:
        made = self.store.made.get(self.variant)
        if made is None:
            template = type(self)(
                self.spark,
                self.backend,
                self.catalog,
                TableName(self.name.catalog, ("db",), f"made_{self.variant}".replace("-", "_")),
                self.variant,
                self.folder,
                self.store,
            )
            Iceberg.create(template)
            made = self.store.made[self.variant] = load_table(self.catalog, template.name).metadata_location
        properties: Mapping[str, str] = pyiceberg_properties(self.catalog)
        load_catalog(self.catalog.name, **properties).register_table(self.name.identifier, made)

    def stored_size(self, place: str) -> int | None:
        return self.store.size(place)
