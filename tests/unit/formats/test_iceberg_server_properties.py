"""The forms of hosts and addresses that a server may send, one by one."""

import pytest

from zlayout.errors import TableError
from zlayout.formats.iceberg.read.server import Declared, of_catalog, of_storage, require_location

DECLARED = Declared("ice", {"uri": "https://catalog.example.com/api", "s3.endpoint": "http://minio:9000"}, {})
KEYS = {"s3.access-key-id": "a", "s3.secret-access-key": "b"}


@pytest.mark.parametrize(
    ("key", "host"),
    [
        ("s3.endpoint", "https://s3.amazonaws.com"),
        ("s3.endpoint", "https://s3.eu-central-1.amazonaws.com/"),
        ("s3.endpoint", "https://s3-fips.dualstack.us-gov-west-1.amazonaws.com:443"),
        ("s3.endpoint", "s3.cn-north-1.amazonaws.com.cn"),
        ("s3.endpoint", "https://bucket.vpce-1a2b-3c4d.s3.us-east-1.vpce.amazonaws.com"),
        ("s3.endpoint", "http://minio:9000"),
        ("s3.endpoint", "http://MINIO:9000/"),
        ("gcs.service.host", "https://storage.googleapis.com"),
        ("gcs.service.host", "https://storage.europe-west3.rep.googleapis.com"),
        ("adls.dfs-storage-authority", ".dfs.core.windows.net"),
        ("adls.account-host", "account.blob.core.windows.net"),
    ],
)
def test_hosts_of_providers_and_declared_hosts_are_accepted(key: str, host: str) -> None:
    assert of_storage(DECLARED, {key: host})[key] == host


@pytest.mark.parametrize(
    ("key", "host"),
    [
        # hosts of AWS that belong to its customers
        ("s3.endpoint", "https://s3-1234567890.us-east-1.elb.amazonaws.com"),
        ("s3.endpoint", "https://ec2-1-2-3-4.compute-1.amazonaws.com"),
        ("s3.endpoint", "https://id.execute-api.us-east-1.amazonaws.com"),
        ("s3.endpoint", "https://vpce-1.vpce-svc-2.us-east-1.vpce.amazonaws.com"),
        ("s3.endpoint", "https://s3.us-east-1.amazonaws.com.example.com"),
        ("s3.endpoint", "https://evils3.us-east-1.amazonaws.com"),
        # texts that programs divide differently
        ("s3.endpoint", "https://s3.amazonaws.com@example.com"),
        ("s3.endpoint", "https://example.com\\@s3.amazonaws.com"),
        ("s3.endpoint", "https://example.com#.s3.amazonaws.com"),
        ("s3.endpoint", "https://s3.amazonaws.com:443\n.example.com"),
        ("s3.endpoint", ""),
        ("s3.endpoint", "http://s3.amazonaws.com"),
        ("s3.endpoint", "https://s3.amazonaws.com:8443"),
        ("s3.endpoint", "https://minio:9000"),
        ("s3.endpoint", "http://minio:9001"),
        ("s3.endpoint", "http://minio"),
        ("gcs.service.host", "https://run.googleapis.com"),
        ("gcs.service.host", "http://minio:9000"),
        ("adls.dfs-storage-authority", ".dfs.example.com"),
        ("adls.account-host", "dfs.core.windows.net.example.com"),
        ("adls.connection-string.account", "https://example.com"),
    ],
)
def test_other_hosts_are_refused(key: str, host: str) -> None:
    with pytest.raises(TableError, match="ZL138"):
        of_storage(DECLARED, {key: host})


@pytest.mark.parametrize("value", ["a b", "us-east-1/x", "us.east", "x" * 64, "us-east-1\n"])
def test_values_have_the_form_of_their_key(value: str) -> None:
    with pytest.raises(TableError, match=r"ZL137 .*client\.region"):
        of_storage(DECLARED, {"client.region": value})


@pytest.mark.parametrize(
    ("address", "accepted"),
    [
        ("v1/credentials", True),
        ("/v1/credentials?a=b", True),
        ("https://catalog.example.com/v1", True),
        ("https://CATALOG.example.com:443", True),
        ("http://catalog.example.com/v1", False),
        ("https://catalog.example.com:8443/v1", False),
        ("//example.com/v1", False),
        ("https://catalog.example.com@example.com", False),
        ("file:/etc/passwd", False),
        ("", True),
    ],
)
def test_addresses_lead_to_the_service_of_the_catalog(address: str, accepted: bool) -> None:
    sent = {"client.refresh-credentials-endpoint": address}
    if accepted:
        assert of_catalog(DECLARED, sent) == {}
        return
    with pytest.raises(TableError, match=r"ZL137 .*refresh"):
        of_catalog(DECLARED, sent)


def test_own_credentials_are_not_mixed_with_those_of_a_server() -> None:
    own = Declared("ice", {"s3.session-token": "own", "client.role-arn": "own", "s3.region": "x"}, {})
    assert of_storage(own, KEYS) == {**KEYS, "s3.region": "x"}
    assert of_storage(own, {"s3.access-key-id": "a"})["s3.session-token"] == "own"


def test_the_environment_declares_a_store() -> None:
    with pytest.raises(TableError, match="ZL138"):
        of_storage(DECLARED, {"s3.endpoint": "https://store.example.com"})
    declared = Declared("ice", {}, {"AWS_ENDPOINT_URL_S3": "https://store.example.com"})
    assert of_storage(declared, {"s3.endpoint": "https://store.example.com/"})


def test_values_of_other_types_and_other_keys_are_ignored() -> None:
    assert of_storage(Declared("ice", {}, {}), {"client.region": 7, "x": "y", "token": "t", "s3.acl": "private"}) == {}


def test_a_location_on_azure_may_have_the_host_of_the_warehouse() -> None:
    declared = Declared("ice", {"warehouse": "abfss://c@store.example.com/w"}, {})
    require_location(declared, "abfss://d@STORE.example.com/t", "it has")
    with pytest.raises(TableError, match=r"ZL138 .*other\.example\.com"):
        require_location(declared, "ABFSS://c@other.example.com/w", "it has")
