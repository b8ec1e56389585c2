"""One catalog for three readers: what pyiceberg is told of a database, Spark is told too."""

from __future__ import annotations

import re
import sqlite3
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from sqlalchemy.engine import make_url

from zlayout.errors import Location, TableError
from zlayout.formats.iceberg.read.catalog import list_tables
from zlayout.spark.session import project_conf
from zlayout.spec.client_options import pyiceberg_properties, spark_catalog_conf, sqlite_file
from zlayout.spec.load import load_project
from zlayout.spec.model import CatalogConfig, Project, SparkConfig, TableName

PROJECT = """version: 1
catalogs:
  ice: {format: iceberg, type: sql, uri: "sqlite:///my%20catalog%2541.dbQUERY", warehouse: "s3://b/w"}
"""


def jdbc(uri: str) -> dict[str, str]:
    conf = spark_catalog_conf(CatalogConfig("ice", "iceberg", "sql", {"uri": uri}, Location("zlayout.yaml")))
    prefix = "spark.sql.catalog.ice."
    return {key.removeprefix(prefix): conf[key] for key in conf if key.removeprefix(prefix) in KEYS}


KEYS = ("uri", "jdbc.user", "jdbc.password")
EVERY = TableName("ice", ("*",), "*")


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("sqlite:////a/c.db", {"uri": "jdbc:sqlite:/a/c.db"}),
        ("sqlite:////a%2541/b#c d.db", {"uri": "jdbc:sqlite:/a%41/b#c d.db"}),
        ("sqlite:////a%2541/c#d.db?timeout=9", {"uri": "jdbc:sqlite:file:/a%2541/c%23d.db?timeout=9"}),
        ("sqlite:////a%3Fb%20c/d.db", {"uri": "jdbc:sqlite:file:/a%3Fb%20c/d.db"}),
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


@pytest.mark.parametrize("query", ["", "?timeout=9"])
@pytest.mark.parametrize("folder", ["a%41", "100% b#c", "a?b=c %3F"])
def test_a_database_in_any_folder_is_the_same_for_each_reader(tmp_path: Path, folder: str, query: str) -> None:
    root = tmp_path / folder
    root.mkdir()
    (root / "zlayout.yaml").write_text(PROJECT.replace("QUERY", query))
    config, every = load_project(root, {}).catalogs["ice"], TableName("ice", ("*",), "*")
    with pytest.raises(TableError, match=r"ZL121 .*no database at"):
        list(list_tables(config, every))
    created = load_catalog("ice", **pyiceberg_properties(config))
    created.create_namespace("db")
    created.create_table("db.t", pa.schema([("a", pa.int64())]), location=f"file://{tmp_path}/t")
    created.close()
    assert {path.name for path in root.iterdir()} == {"zlayout.yaml", "my catalog%41.db"}
    assert [str(each.table) for each in list_tables(config, every)] == ["ice.db.t"]
    of_spark = jdbc(config.options["uri"])["uri"].removeprefix("jdbc:sqlite:")
    with closing(sqlite3.connect(of_spark, uri=True)) as database:  # SQLite decodes escapes after `file:` only
        assert database.execute("select table_name from iceberg_tables").fetchall() == [("t",)]


def test_an_older_sqlalchemy_is_refused_with_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Airflow before version 3.1 needs SQLAlchemy 1.4, so that the extra `sql` cannot be installed beside it."""
    (tmp_path / "c.db").touch()
    options = {"uri": f"sqlite:///{tmp_path}/c.db", "warehouse": str(tmp_path)}
    monkeypatch.setitem(sys.modules, "sqlalchemy", ModuleType("sqlalchemy"))
    with pytest.raises(TableError, match=r"ZL121 .* the Python package SQLAlchemy 2 is missing .*'zlayout\[sql\]'"):
        list(list_tables(CatalogConfig("ice", "iceberg", "sql", options, Location("zlayout.yaml")), EVERY))


def test_a_file_that_sqlalchemy_cannot_name_is_refused(config: CatalogConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLAlchemy 2.0 decodes no escapes in the path of a database."""
    Path(sqlite_file(config)).with_name("a%41.db").touch()
    every = TableName("ice", ("*",), "*")
    escaped = replace(config, options={**config.options, "uri": config.options["uri"].replace("ice.db", "a%2541.db")})
    with pytest.raises(TableError, match="no such table: iceberg_namespace_properties"):
        list(list_tables(escaped, every))
    raw = SimpleNamespace(database=escaped.options["uri"].removeprefix("sqlite:///"))
    monkeypatch.setattr("sqlalchemy.make_url", lambda _: raw)
    with pytest.raises(TableError, match=r"ZL121 SQLAlchemy .* cannot open .*a%41.db: it would open .*a%2541.db"):
        list(list_tables(escaped, every))


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("postgresql://h/db", "postgresql+psycopg2://h/db"),
        ("mysql://h/db", "mysql+pymysql://h/db"),
        ("postgresql+psycopg://h/db", "postgresql+psycopg://h/db"),
        ("sqlite:////a/c.db", "sqlite:////a/c.db"),
    ],
)
def test_pyiceberg_gets_the_driver_of_the_extra_if_the_address_names_none(uri: str, expected: str) -> None:
    catalog = CatalogConfig("lake", "iceberg", "sql", {"uri": uri, "warehouse": "/w"}, Location("zlayout.yaml"))
    assert pyiceberg_properties(catalog)["uri"] == expected


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
