"""What Iceberg's Java REST catalog makes of a server that answers it differently from pyiceberg."""

from collections.abc import Iterator

import pytest
from support.fake_rest import Canary, Responses, canary, fake_rest

from zlayout.errors import EngineError, Location
from zlayout.formats.iceberg.write.jvm import IcebergJvm
from zlayout.spark import jvm
from zlayout.spark.jvm import add_own_classes
from zlayout.spark.session import SparkRuntime
from zlayout.spec.client_options import spark_catalog_conf
from zlayout.spec.model import CatalogConfig, TableName

TOKEN = "the-token-of-the-catalog"


@pytest.fixture
def foreign() -> Iterator[Canary]:
    with canary() as found:
        yield found


@pytest.mark.parametrize(
    ("key", "accepted"),
    [
        ("uri", False),
        ("oauth2-server-uri", False),
        ("rest.client.proxy.hostname", False),
        ("rest.auth.type", False),
        ("io-impl", False),
        ("own uri", True),
    ],
)
def test_a_server_chooses_no_address_for_the_token(
    key: str, accepted: bool, foreign: Canary, runtime: SparkRuntime
) -> None:
    host, _, port = foreign.url.removeprefix("http://").rpartition(":")
    values = {"uri": foreign.url, "oauth2-server-uri": f"{foreign.url}/tokens", "rest.client.proxy.hostname": host}
    responses, name = Responses({}, ""), "rest_server_" + "".join(filter(str.isalnum, key))
    with fake_rest(responses) as url:
        sent = {key: values.get(key, "java.lang.String")} if not accepted else {"uri": f"{url}/"}
        responses.overrides = sent | {"rest.client.proxy.port": port} if "proxy" in key else sent
        options = {"uri": url, "properties": {"token": TOKEN}}
        catalog = CatalogConfig(name, "iceberg", "rest", options, Location("zlayout.yaml"))
        for setting, value in spark_catalog_conf(catalog).items():
            runtime.session.conf.set(setting, value)
        add_own_classes(runtime.session, [catalog])
        with pytest.raises(EngineError) as caught:
            IcebergJvm(runtime.session).load(TableName(name, ("db",), "none"))
    assert foreign.requests == []
    assert (f"the server of the catalog sets {key}" in str(caught.value)) is not accepted
    assert ("GET /v1/namespaces/db/tables/none" in responses.requests) is accepted


def test_without_icebergs_jar_other_catalogs_work(runtime: SparkRuntime, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jvm, "_REST_CATALOG", "org.apache.iceberg.rest.NoSuchCatalog")
    catalog = CatalogConfig("without_jar", "iceberg", "rest", {"uri": "http://localhost:1"}, Location("zlayout.yaml"))
    add_own_classes(runtime.session, [catalog])
    assert runtime.session.conf.get("spark.sql.catalog.without_jar.catalog-impl", None) is None
