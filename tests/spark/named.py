"""Delta tables that a metastore knows by name, for the contract suite. Their entries are those that Spark stores."""

from dataclasses import dataclass
from typing import Any, ClassVar

import boto3
import pyarrow as pa
from spark.arenas import DeltaArena
from support.metastore_tables import glue_table, hive_table

from zlayout.errors import Location
from zlayout.formats.delta.backend import DeltaBackend, session_at
from zlayout.formats.delta.names import Hive
from zlayout.spec.model import CatalogConfig


@dataclass
class NamedDeltaArena(DeltaArena):
    """A table whose location is below `root`, and in the catalog's service alone."""

    root: ClassVar[str] = ""

    def __post_init__(self) -> None:
        self.backend = DeltaBackend(self.project.catalogs[self.catalog], self.runtime)
        root = self.root or str(self.project.root / "named")
        self.path = f"{root}/{self.table.name}"

    def create(self, rows: pa.Table, files: int, partition_by: tuple[str, ...] = ()) -> None:
        if self.root:  # Spark knows the store of a looked-up location only from the backend
            session_at(self.project.catalogs[self.catalog], self.backend.runtime, self.table, self.path)
        super().create(rows, files, partition_by)
        self.register(self.path)

    def register(self, location: str) -> None:
        """Let the name lead to a location."""
        raise NotImplementedError


@dataclass
class GlueDeltaArena(NamedDeltaArena):
    catalog = "glake"
    services = ("s3",)

    def register(self, location: str) -> None:
        glue = glue_client(self.project.catalogs[self.catalog].options["uri"])
        url = location if "://" in location else f"file:{location}"
        entry = glue_table(self.table.name, url)
        names = {found["Name"] for found in glue.get_tables(DatabaseName="db")["TableList"]}
        change = glue.update_table if self.table.name in names else glue.create_table
        change(DatabaseName="db", TableInput=entry)


@dataclass
class S3GlueDeltaArena(GlueDeltaArena):
    root = "s3a://zlayout-named/tables"


@dataclass
class HiveDeltaArena(NamedDeltaArena):
    catalog = "hlake"
    services = ("metastore",)

    def register(self, location: str) -> None:
        url = location if "://" in location else f"file:{location}"
        entry = hive_table("db", self.table.name, url)
        client = metastore_client(self.project.catalogs[self.catalog].options["uri"])
        if self.table.name in client.get_all_tables("db"):
            client.alter_table("db", self.table.name, entry)
        else:
            client.create_table(entry)


@dataclass
class S3HiveDeltaArena(HiveDeltaArena):
    services = ("s3", "metastore")
    root = "s3a://zlayout-named/tables"


NAMED = {
    "delta-hive": HiveDeltaArena,
    "delta-hive-s3": S3HiveDeltaArena,
    "delta-glue": GlueDeltaArena,
    "delta-glue-s3": S3GlueDeltaArena,
}


def metastore_client(uri: str) -> Any:
    """A client of a Hive metastore, which opens a connection for each request."""
    hive = Hive(CatalogConfig("test", "delta", "hive", {"uri": uri}, Location("")))

    class Client:
        def __getattr__(self, name: str) -> Any:
            return lambda *arguments: hive._ask(lambda client: getattr(client, name)(*arguments))

    return Client()


def glue_client(endpoint: str) -> Any:
    return boto3.client(
        "glue",
        endpoint_url=endpoint,
        region_name="us-east-1",
        aws_access_key_id="test",
        aws_secret_access_key="test-secret",
    )
