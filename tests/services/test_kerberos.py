"""A Hive metastore that accepts only clients with a ticket of Kerberos, from a KDC on this machine.

Skipped without the Debian packages krb5-kdc, krb5-admin-server and krb5-user, and without `zlayout[hive-kerberos]`.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog.hive import HiveCatalog
from support.hive import hive_metastore
from support.kerberos import REALM, kdc
from support.metastore_tables import hive_table
from support.servers import free_port

from zlayout.errors import TableError
from zlayout.formats.registry import backend_for
from zlayout.spark.session import SparkRuntime
from zlayout.spec.load import load_project
from zlayout.spec.model import TableName

ON = {"hive.kerberos-authentication": "true"}
PROJECT = """version: 1
catalogs:
  hms:
    format: {format}
    type: hive
    uri: {uri}
    properties: {{hive.kerberos-authentication: {kerberos}}}
"""


@pytest.fixture
def metastore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URI of the metastore. The user has a ticket."""
    pytest.importorskip("kerberos")
    pytest.importorskip("puresasl")
    (folder := tmp_path / "metastore").mkdir()
    with kdc(free_port(), tmp_path, "hive/localhost", "planner") as environ:
        for variable, value in environ.items():
            monkeypatch.setenv(variable, value)
        subprocess.run(["kinit", "-kt", tmp_path / "planner.keytab", "planner"], check=True)
        conf = {
            "hive.metastore.sasl.enabled": "true",
            "hive.metastore.kerberos.principal": f"hive/localhost@{REALM}",
            "hive.metastore.kerberos.keytab.file": str(tmp_path / "hive.keytab"),
        }
        core = "<property><name>hadoop.security.authentication</name><value>kerberos</value></property>"
        (folder / "core-site.xml").write_text(f"<configuration>{core}</configuration>")
        options = [f"-Djava.security.krb5.conf={environ['KRB5_CONFIG']}"]
        with hive_metastore(free_port(), folder, conf=conf, options=options) as uri:
            yield uri.replace("127.0.0.1", "localhost")


@pytest.mark.parametrize(("format", "code"), [("iceberg", "ZL121"), ("delta", "ZL133")])
def test_a_table_is_read_with_a_ticket(
    metastore: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str, code: str
) -> None:
    rows = pa.table({"a": pa.array(range(10), pa.int64())})
    catalog = HiveCatalog("hms", uri=metastore, warehouse=f"file://{tmp_path}/tables", **ON)
    catalog.create_namespace("sales")
    if format == "delta":
        write_deltalake(tmp_path / "orders", rows)
        with catalog._client as client:
            client.create_table(hive_table("sales", "orders", f"file:{tmp_path}/orders"))
    else:
        catalog.create_table("sales.orders", rows.schema, location=f"file://{tmp_path}/orders").append(rows)

    def read(kerberos: str) -> int:
        (tmp_path / "zlayout.yaml").write_text(PROJECT.format(uri=metastore, format=format, kerberos=kerberos))
        project = load_project(tmp_path, os.environ)
        backend = backend_for(project.catalogs["hms"], SparkRuntime(project))
        return len(backend.observe(TableName("hms", ("sales",), "orders"), ("a",)).files)

    assert read("true") == 1
    with pytest.raises(TableError, match=rf"{code} .* cannot be reached"):
        read("false")
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{tmp_path}/none")
    with pytest.raises(TableError, match=rf"{code} .* no ticket of Kerberos") as refused:
        read("true")
    assert "kinit" in str(refused.value)
