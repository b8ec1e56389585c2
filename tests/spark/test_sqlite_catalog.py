"""Spark's driver for SQLite opens the file that pyiceberg opens, whatever its path contains."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from zlayout.spark.jvm import jvm_of
from zlayout.spec.client_options import spark_catalog_conf, sqlite_file
from zlayout.spec.load import load_project


@pytest.mark.parametrize("folder", ["a%41", "100% b#c", "a?b=c %3F"])
@pytest.mark.parametrize("query", ["", "?timeout=9"])
def test_spark_opens_the_file_of_any_path(spark: SparkSession, tmp_path: Path, folder: str, query: str) -> None:
    root = tmp_path / folder
    root.mkdir()
    ice = f'{{format: iceberg, type: sql, uri: "sqlite:///my%20c%2541.db{query}", warehouse: w}}'
    (root / "zlayout.yaml").write_text(f"version: 1\ncatalogs: {{ice: {ice}}}\n")
    catalog = load_project(root, {}).catalogs["ice"]
    java = jvm_of(spark)
    connection = java.org.sqlite.JDBC().connect(
        spark_catalog_conf(catalog)["spark.sql.catalog.ice.uri"], java.java.util.Properties()
    )
    connection.createStatement().execute("create table t (a int)")
    connection.close()
    assert {path.name for path in root.iterdir()} == {"zlayout.yaml", "my c%41.db"}
    with closing(sqlite3.connect(sqlite_file(catalog))) as database:
        assert database.execute("select name from sqlite_master").fetchall() == [("t",)]
