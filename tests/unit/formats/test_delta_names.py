"""Delta tables that are found by name in a Hive metastore (Thrift) and Unity Catalog (its REST API)."""

import re
import socketserver
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hive_metastore import ThriftHiveMetastore
from hive_metastore.ttypes import NoSuchObjectException
from support.metastore_tables import PLACEHOLDER, hive_table, spark_parameters
from support.names import catalog, code, code_of, found, table
from support.rest_proxy import CLIENT, SECRET, Vending
from support.servers import serving
from support.unity import API, UnityServer, unity_server
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TSocket import TSocket
from thrift.transport.TTransport import TBufferedTransport, TTransportException

from zlayout.errors import TableError
from zlayout.formats.access import addresses
from zlayout.formats.delta.names import PRINCIPAL, TOKENS, Entry, Names, delta_location_of, metastore_entry
from zlayout.formats.delta.read.log import delta_location
from zlayout.spec.client_options import Vended, vended_conf


class TestEntry:
    """Each entry is one that a program was seen to store, or that its documentation states."""

    def test_an_external_table_of_spark_is_at_its_path_and_not_at_the_placeholder(self) -> None:
        entry = metastore_entry(
            "t",
            "EXTERNAL_TABLE",
            spark_parameters(),
            f"file:/wh/sales.db/t{PLACEHOLDER}",
            {"serialization.format": "1", "path": "file:/data/t 1"},
        )
        assert delta_location_of(entry, catalog("hive"), table("t")) == "/data/t 1"

    def test_a_managed_table_of_spark_has_one_location_twice(self) -> None:
        entry = metastore_entry(
            "t", "MANAGED_TABLE", spark_parameters(), "s3://b/sales.db/t", {"PATH": "s3a://b/sales.db/t/"}
        )
        assert delta_location_of(entry, catalog("glue"), table("t")) == "s3a://b/sales.db/t/"

    @pytest.mark.parametrize(
        "parameters",
        [
            {"table_type": "DELTA"},  # Athena
            {"spark.sql.sources.provider": "DELTA"},  # Trino
            {"spark.sql.sources.provider": "delta", "table_type": "ICEBERG"},  # UniForm
        ],
        ids=["athena", "trino", "uniform"],
    )
    def test_what_others_than_spark_store(self, parameters: dict[str, str]) -> None:
        entry = metastore_entry("t", "EXTERNAL_TABLE", parameters, "s3://b/t", None)
        assert delta_location_of(entry, catalog("glue"), table("t")) == "s3://b/t"

    @pytest.mark.parametrize(
        ("entry", "expected"),
        [
            (Entry("t", "delta", True, ()), "found a view"),
            (Entry("t", "iceberg", False, ("s3://b/t",)), "found a table of format iceberg"),
            (Entry("t", "", False, ("s3://b/t",)), "found a table of format unknown"),
        ],
        ids=["view", "iceberg", "unknown"],
    )
    def test_what_is_no_delta_table_is_refused_by_name(self, entry: Entry, expected: str) -> None:
        with pytest.raises(TableError, match=f"ZL135.*for lake.sales.t in catalog lake, {expected}"):
            delta_location_of(entry, catalog("glue"), table("t"))

    @pytest.mark.parametrize(
        ("locations", "expected"),
        [
            ((), "states no location"),
            (("s3://b/one", "s3://b/two"), "several locations: s3://b/one and s3://b/two"),
            (("/data/t",), "expected a URL"),
            (("data/t",), "expected a URL"),
            (("s3://b/t%20x",), "readers differ in how they treat '%'"),
            (("s3://b/t?versionId=1",), "readers differ in how they treat '[?]'"),
            (("s3://b/t/../u",), "relative parts"),
            (("s3://key:canary@b/t",), "contains credentials$"),
            (("opendal+s3://b/t",), r"found opendal\+s3:$"),
            (("sftp://-oProxyCommand=x/t",), "found sftp:$"),
            (("webhdfs://host/t",), "found webhdfs:$"),
            (("memory:///t",), "found memory:$"),
        ],
    )
    def test_a_location_that_is_not_certain_is_refused(self, locations: tuple[str, ...], expected: str) -> None:
        with pytest.raises(TableError, match="ZL136") as caught:
            delta_location_of(Entry("t", "delta", False, locations), catalog("glue"), table("t"))
        assert "canary" not in str(caught.value)
        assert re.search(expected, caught.value.diagnostics[0].message)


class Metastore:
    """The handler of a Thrift server: the real protocol, with tables in memory."""

    def __init__(self) -> None:
        self.tables: dict[tuple[str, str], Any] = {}

    def get_table(self, dbname: str, tbl_name: str) -> Any:
        if (dbname, tbl_name) not in self.tables:
            raise NoSuchObjectException(f"{dbname}.{tbl_name} table not found")
        return self.tables[dbname, tbl_name]

    def get_all_databases(self) -> list[str]:
        return sorted({database for database, _ in self.tables})

    def get_all_tables(self, db_name: str) -> list[str]:
        return [name for database, name in self.tables if database == db_name]

    def get_table_objects_by_name(self, dbname: str, tbl_names: list[str]) -> list[Any]:
        return [self.tables[dbname, name] for name in tbl_names]


@pytest.fixture
def hive() -> Iterator[tuple[str, Metastore]]:
    """The address of a metastore, and its handler."""
    metastore = Metastore()
    processor = ThriftHiveMetastore.Processor(metastore)

    class Connection(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            transport = TSocket()
            transport.setHandle(self.request)
            protocol = TBinaryProtocol(TBufferedTransport(transport))
            with suppress(TTransportException):
                while True:
                    processor.process(protocol, protocol)

    with serving(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Connection)) as server:
        yield f"thrift://127.0.0.1:{server.server_address[1]}", metastore


@pytest.fixture
def unity() -> Iterator[UnityServer]:
    with unity_server() as server:
        yield server


class TestHive:
    def test_managed_and_external_tables_are_found(self, hive: tuple[str, Metastore], tmp_path: Path) -> None:
        uri, handler = hive
        handler.tables["sales", "orders"] = hive_table("sales", "orders", f"file:{tmp_path}/raw orders")
        handler.tables["sales", "own"] = hive_table("sales", "own", f"file:{tmp_path}/own", managed=True)
        assert found(catalog("hive", uri=uri)) == f"{tmp_path}/raw orders"
        assert found(catalog("hive", uri=uri), "own") == f"{tmp_path}/own"
        assert code(catalog("hive", uri=uri), table("missing"))[0] == "ZL134"

    def test_the_next_of_several_metastores_answers(self, hive: tuple[str, Metastore]) -> None:
        uri, handler = hive
        handler.tables["sales", "orders"] = hive_table("sales", "orders", "file:/data/orders")
        assert found(catalog("hive", uri=f"thrift://127.0.0.1:1,{uri}")) == "/data/orders"

    def test_doctor_checks_each_of_several_metastores(self) -> None:
        config = catalog("hive", uri="thrift://one:9083, thrift://two")
        assert [str(address) for address in addresses(config)] == ["one:9083", "two:9083"]

    def test_a_listing(self, hive: tuple[str, Metastore]) -> None:
        uri, handler = hive
        for number in range(120):
            name = f"t{number:03}"
            handler.tables["sales", name] = hive_table("sales", name, f"file:/data/{name}")
        handler.tables["sales", "ice"] = hive_table("sales", "ice", "file:/data/ice", provider="iceberg")
        listed = list(Names(catalog("hive", uri=uri)).listed(table("*")))
        assert [code_of(one) for one in listed] == ["ZL135", *[""] * 120]

    def test_a_table_on_s3_needs_a_store_in_the_definition(self, hive: tuple[str, Metastore]) -> None:
        uri, handler = hive
        handler.tables["sales", "orders"] = hive_table("sales", "orders", "s3a://lake/orders")
        broken = code(catalog("hive", uri=uri), table())
        assert broken[0] == "ZL136"
        assert "lake.sales.orders is at s3a://lake/orders, but catalogs.lake does not state" in broken[1]
        storage = {"region": "us-east-1"}
        config = Names(catalog("hive", uri=uri, storage=storage)).located(table())
        assert (config.type, config.options) == (
            "path",
            {"storage": storage, "tables": {"sales.orders": "s3a://lake/orders"}},
        )

    def test_connections_that_are_refused(self) -> None:
        assert code(catalog("hive", uri="thrift://127.0.0.1:1"), table()) == (
            "ZL133",
            "catalog lake (type hive) cannot be reached: the connection was refused",
        )


class TestUnity:
    def test_tables_are_found_and_the_uri_may_contain_the_path_of_the_api(self, unity: UnityServer) -> None:
        unity.add("main.sales.orders", "file:///data/orders/")
        for uri in (unity.url, f"{unity.url}/", f"{unity.url}{API}"):
            assert found(catalog("unity", uri=uri, warehouse="main")) == "/data/orders"
        assert set(unity.requests) == {f"{API}/tables/main.sales.orders"}

    def test_a_missing_table_and_another_service(self, unity: UnityServer) -> None:
        config = catalog("unity", uri=unity.url, warehouse="main")
        assert code(config, table())[0] == "ZL134"
        wrong = catalog("unity", uri=f"{unity.url}/somewhere", warehouse="main")
        assert code(wrong, table())[0] == "ZL133"

    @pytest.mark.parametrize("variable", ["UNITY_CATALOG_TOKEN", "DATABRICKS_TOKEN"])
    def test_the_token_comes_from_the_environment(
        self, monkeypatch: pytest.MonkeyPatch, variable: str, tmp_path: Path
    ) -> None:
        monkeypatch.delenv("UNITY_CATALOG_TOKEN", raising=False)
        netrc = tmp_path / "netrc"
        netrc.write_text("machine 127.0.0.1 login user password canary\n")
        monkeypatch.setenv("NETRC", str(netrc))
        with unity_server(token="canary-token") as server:
            server.add("main.sales.orders", "file:///data/orders")
            config = catalog("unity", uri=server.url, warehouse="main")
            refused = code(config, table())
            assert refused[0] == "ZL133"
            assert refused[1].endswith("the credentials are missing or not accepted")
            monkeypatch.setenv(variable, "canary-token")
            assert found(config) == "/data/orders"

    def test_a_service_principal_gets_one_token(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for variable in TOKENS:
            monkeypatch.delenv(variable, raising=False)
        for variable, value in zip(PRINCIPAL, (CLIENT, SECRET), strict=True):
            monkeypatch.setenv(variable, value)
        with unity_server(vending=Vending("")) as server:
            server.add("main.sales.orders", "file:///data/orders")
            names = Names(catalog("unity", uri=f"{server.url}{API}", warehouse="main", vended_credentials=True))
            for _ in range(2):
                assert delta_location(names.located(table()), table()) == "/data/orders"
            assert server.requests.count("/oidc/v1/token") == 1
            assert names.deltalake_options(table(), "/data/orders") == {}  # a table on this machine needs none
            assert "READ" not in server.requests
            monkeypatch.setenv(PRINCIPAL[1], "another-secret")
            refused = code(catalog("unity", uri=server.url, warehouse="main"), table())
            assert refused == (
                "ZL133",
                "catalog lake (type unity) cannot be reached: the credentials are missing or not accepted",
            )

    def test_credentials_for_another_store_than_s3_are_refused(self, unity: UnityServer) -> None:
        names = Names(catalog("unity", uri=unity.url, warehouse="main", vended_credentials=True))
        with pytest.raises(TableError, match=r"ZL141 .* at gs://b/t, and only those for S3 are supported"):
            names.deltalake_options(table(), "gs://b/t")

    @pytest.mark.parametrize(
        "answer",
        [
            {},
            {"aws_temp_credentials": None},
            {"aws_temp_credentials": {"access_key_id": "k", "secret_access_key": "s"}},
        ],
    )
    def test_incomplete_credentials_are_not_completed_from_the_environment(
        self, unity: UnityServer, monkeypatch: pytest.MonkeyPatch, answer: dict[str, Any]
    ) -> None:
        monkeypatch.setenv("AWS_SESSION_TOKEN", "canary")
        monkeypatch.setattr(UnityServer, "post", lambda *_: (200, answer))
        unity.add("main.sales.orders", "s3://b/t")
        names = Names(catalog("unity", uri=unity.url, warehouse="main", vended_credentials=True))
        with pytest.raises(TableError, match=r"ZL141 .*expected access_key_id, secret_access_key, session_token"):
            names.deltalake_options(table(), "s3://b/t")

    def test_spark_masks_the_secrets_of_its_configuration(self) -> None:
        login = {"token": "canary", "oauth.clientSecret": "canary"}
        conf = vended_conf("u", login, "c", "id", "b", Vended(("canary",) * 3, 0))
        masked = re.compile("(?i)secret|password|token|access[.]?key")  # the default of spark.redaction.regex
        assert sum(value == "canary" for value in conf.values()) == 5
        assert all(masked.search(key) for key, value in conf.items() if value == "canary")

    def test_a_listing_reads_every_page(self, unity: UnityServer) -> None:
        for name in ("a", "b", "c", "d", "e"):
            unity.add(f"main.sales.{name}", f"file:///data/{name}")
        unity.add("main.sales.f", None, None, "VIEW")
        unity.add("main.sales.g", "file:///data/g", "PARQUET")
        unity.add("other.sales.h", "file:///data/h")
        listed = list(Names(catalog("unity", uri=unity.url, warehouse="main")).listed(table("*")))
        assert [(one.table.name, code_of(one)) for one in listed] == [
            *((name, "") for name in "abcde"),
            ("f", "ZL135"),
            ("g", "ZL135"),
        ]

    def test_a_schema_to_which_access_is_denied_fails_alone(self, unity: UnityServer) -> None:
        for name in ("main.hr.people", "main.sales.orders", "main.web.clicks"):
            unity.add(name, f"file:///data/{name}")
        names = Names(catalog("unity", uri=unity.url, warehouse="main"))
        unity.forbidden = ("hr", "web")
        people, orders, clicks = names.listed(table("*", "*"))
        assert [str(one.table) for one in (people, orders, clicks)] == ["lake.hr.*", "lake.sales.orders", "lake.web.*"]
        assert [code_of(one) for one in (people, orders, clicks)] == ["ZL133", "", "ZL133"]
        assert "namespace hr of catalog lake (type unity) cannot be listed: access is denied" in str(people.problem)
        unity.forbidden = ("hr", "sales", "web")
        with pytest.raises(TableError, match=r"ZL133 catalog lake .* access is denied"):
            list(names.listed(table("*", "*")))
