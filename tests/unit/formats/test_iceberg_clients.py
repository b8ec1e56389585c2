"""Which properties the clients of Iceberg's FileIO have: S3FileIO has one client for each prefix, and a root client."""

import pytest

from zlayout.errors import TableError
from zlayout.formats.iceberg.read.server import Declared, require_hosts
from zlayout.formats.iceberg.write.jvm import of_clients

EVIL = {"s3.endpoint": "https://evil.example.com"}
KEYS = {"s3.access-key-id": "vended", "s3.secret-access-key": "vended"}
LOCATION = "s3://bucket/t"


@pytest.mark.parametrize("prefix", ["gs", "s3x", "s", "abfss", "s3://other", ""])
def test_a_credential_for_other_locations_does_not_cover_the_client_without_credentials(prefix: str) -> None:
    clients = of_clients(EVIL, [(prefix, KEYS)], LOCATION)
    assert EVIL in clients
    with pytest.raises(TableError, match="ZL138"):
        [require_hosts(Declared("ice", {}), each) for each in clients]


def test_a_credential_for_all_locations_of_the_store_replaces_it() -> None:
    assert of_clients(EVIL, [("s3", KEYS)], LOCATION) == [EVIL | KEYS]
    assert of_clients(EVIL, [("s3", KEYS)], "s3a://bucket/t") == [EVIL | KEYS]


def test_each_of_several_credentials_for_one_prefix_counts() -> None:
    assert of_clients({}, [("s3", EVIL), ("s3", KEYS)], LOCATION) == [EVIL, KEYS]
