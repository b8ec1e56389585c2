"""Delta tables that are found by name in Glue (moto)."""

from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest
from moto import mock_aws
from support.metastore_tables import glue_table
from support.names import catalog, code, code_of, found, table
from support.servers import CREDENTIALS

from zlayout.formats.delta.names import Names
from zlayout.spec.model import TableName


@pytest.fixture(scope="module")
def glue() -> Iterator[None]:
    """A Glue with two databases, of which `sales` has tables of several kinds."""
    with pytest.MonkeyPatch.context() as patch, mock_aws():
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        client = boto3.client("glue", region_name="us-east-1")
        client.create_database(DatabaseInput={"Name": "sales"})
        client.create_database(DatabaseInput={"Name": "other"})
        for entry in (
            glue_table("orders", "s3://lake/raw/orders"),
            glue_table("own", "s3://lake/sales.db/own", managed=True),
            glue_table("old_orders", "s3://lake/old", provider="iceberg"),
            {"Name": "orders_view", "TableType": "VIRTUAL_VIEW"},
        ):
            client.create_table(DatabaseName="sales", TableInput=entry)
        client.create_table(DatabaseName="other", TableInput=glue_table("orders", "s3://lake/other"))
        yield


@pytest.mark.usefixtures("glue")
def test_managed_and_external_tables_are_found() -> None:
    assert found(catalog("glue")) == "s3://lake/raw/orders"
    assert found(catalog("glue"), "own") == "s3://lake/sales.db/own"


@pytest.mark.usefixtures("glue")
def test_a_missing_table_and_one_without_a_namespace() -> None:
    assert code(catalog("glue"), table("gone"))[0] == "ZL134"
    assert code(catalog("glue"), table("orders", "a", "b"))[0] == "ZL134"
    assert code(catalog("glue"), TableName("lake", (), "orders"))[0] == "ZL134"


@pytest.mark.usefixtures("glue")
def test_a_listing_has_the_reason_for_each_entry_that_is_no_table() -> None:
    listed = list(Names(catalog("glue")).listed(table("*orders*")))
    assert [(str(one.table), code_of(one)) for one in listed] == [
        ("lake.sales.old_orders", "ZL135"),
        ("lake.sales.orders", ""),
        ("lake.sales.orders_view", "ZL135"),
    ]
    everywhere = list(Names(catalog("glue")).listed(table("orders", "*")))
    assert [str(one.table) for one in everywhere] == ["lake.other.orders", "lake.sales.orders"]


def test_a_service_that_refuses_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    assert code(catalog("glue", uri="http://127.0.0.1:1"), table()) == (
        "ZL133",
        "catalog lake (type glue) cannot be reached: the connection was refused",
    )


def test_missing_credentials_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in (*CREDENTIALS, "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    assert code(catalog("glue"), table())[1].endswith("no region is known")
    assert code(catalog("glue", storage={"region": "us-east-1"}), table())[1].endswith("no credentials were found")
