"""One catalog for three readers: what pyiceberg is told of a database, Spark is told too."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from sqlalchemy.engine import make_url

from zlayout.errors import Location
from zlayout.formats.iceberg.catalog_conf import spark_catalog_conf
from zlayout.spark.configuration import project_conf
from zlayout.spec.model import CatalogConfig, Project, SparkConfig


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


@pytest.mark.parametrize(
    ("type_", "own", "expected"),
    [
        ("rest", {}, {"header.X-Iceberg-Access-Delegation": "vended-credentials"}),
        (
            "rest",
            {"header.x-iceberg-access-delegation": "vended-credentials,remote-signing"},
            {"header.x-iceberg-access-delegation": "vended-credentials,remote-signing"},
        ),
        ("hive", {}, {}),
    ],
)
def test_spark_asks_a_rest_catalog_for_credentials(type_: str, own: dict[str, str], expected: dict[str, str]) -> None:
    options = {"uri": "https://catalog.example.com", "properties": own}
    conf = spark_catalog_conf(CatalogConfig("ice", "iceberg", type_, options, Location("zlayout.yaml")))
    prefix = "spark.sql.catalog.ice."
    found = {key.removeprefix(prefix): value for key, value in conf.items() if "delegation" in key.lower()}
    assert found == expected


def test_spark_does_not_show_the_credential_of_a_catalog() -> None:
    conf = project_conf(Project(Path(), {}, SparkConfig(), ()), submitted=False)
    assert re.search(conf["spark.redaction.regex"], "spark.sql.catalog.ice.credential")
    assert not re.search(conf["spark.redaction.regex"], "spark.sql.catalog.ice.uri")
