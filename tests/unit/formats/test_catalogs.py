"""One catalog for three readers: what pyiceberg is told of a database, Spark is told too."""

from __future__ import annotations

import pytest
from sqlalchemy.engine import make_url

from zlayout.errors import Location
from zlayout.formats.iceberg.catalog_conf import spark_catalog_conf
from zlayout.spec.model import CatalogConfig


def jdbc(uri: str) -> dict[str, str]:
    conf = spark_catalog_conf(CatalogConfig("ice", "iceberg", "sql", {"uri": uri}, Location("zlayout.yaml")))
    prefix = "spark.sql.catalog.ice."
    return {key.removeprefix(prefix): conf[key] for key in conf if key.removeprefix(prefix) in KEYS}


KEYS = ("uri", "jdbc.user", "jdbc.password")


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("sqlite:////a/c.db", {"uri": "jdbc:sqlite:/a/c.db"}),
        ("postgresql+psycopg2://h:5432/db", {"uri": "jdbc:postgresql://h:5432/db"}),
        (
            "postgresql://u%40corp:p%2Fw%25%C3%A9@h/db?sslmode=require&a=b",
            {
                "uri": "jdbc:postgresql://h/db?sslmode=require&a=b",
                "jdbc.user": "u@corp",
                "jdbc.password": "p/w%é",
            },
        ),
    ],
)
def test_a_database_is_the_same_for_spark(uri: str, expected: dict[str, str]) -> None:
    assert jdbc(uri) == expected
    read = make_url(uri)
    assert (read.username, read.password) == (expected.get("jdbc.user"), expected.get("jdbc.password"))
