"""One definition of a store for four readers and writers: deltalake, pyiceberg, Iceberg in Spark, and Hadoop."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from zlayout.errors import Location
from zlayout.formats.access import addresses
from zlayout.spark.session import configure_hadoop, packages, project_conf
from zlayout.spec.client_options import (
    Store,
    deltalake_options,
    hadoop_conf,
    iceberg_conf,
    pyiceberg_options,
    pyiceberg_properties,
    spark_catalog_conf,
    stores,
)
from zlayout.spec.model import CatalogConfig, Project, SparkConfig

ENDPOINT = "https://minio.example.com:9000"
STORAGE = {"endpoint": ENDPOINT, "region": "eu-central-1"}
LIMITS = {"connect_timeout": "10s", "retry_timeout": "30s", "backoff_config.init_backoff": "250ms"}
EVERYWHERE = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_REGION": "us-west-2"}


def delta(**options: Any) -> CatalogConfig:
    return CatalogConfig("lake", "delta", "path", {"warehouse": "s3://lake/delta", **options}, Location("zlayout.yaml"))


def iceberg(kind: str = "sql", **options: Any) -> CatalogConfig:
    return CatalogConfig(
        "ice", "iceberg", kind, {"warehouse": "s3://ice/wh", "uri": "x", **options}, Location("zlayout.yaml")
    )


def test_a_declared_store_reaches_every_library() -> None:
    assert deltalake_options(delta(storage=STORAGE), {}) == {
        **LIMITS,
        "aws_endpoint_url": ENDPOINT,
        "aws_region": "eu-central-1",
        "aws_virtual_hosted_style_request": "false",
        "aws_allow_http": "false",
    }
    assert pyiceberg_options(iceberg(storage=STORAGE), {}) == {
        "s3.endpoint": ENDPOINT,
        "client.region": "eu-central-1",
        "s3.force-virtual-addressing": "false",
    }
    assert iceberg_conf(iceberg(storage=STORAGE), {}) == {
        "s3.retry.num-retries": "14",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "s3.endpoint": ENDPOINT,
        "client.region": "eu-central-1",
        "s3.path-style-access": "true",
    }
    bucket = "spark.hadoop.fs.s3a.bucket.lake"
    assert hadoop_conf(delta(storage=STORAGE), {}) == {
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        f"{bucket}.endpoint": ENDPOINT,
        f"{bucket}.endpoint.region": "eu-central-1",
        f"{bucket}.path.style.access": "true",
    }


@pytest.mark.parametrize("own", [None, "com.amazon.ws.emr.hadoop.fs.EmrFileSystem"])
def test_the_client_of_a_cluster_for_s3_is_kept(own: str | None) -> None:
    class Hadoop(dict[str, str]):
        set = dict.__setitem__

    hadoop = Hadoop({} if own is None else {"fs.s3.impl": own})
    context = SimpleNamespace(_jsc=SimpleNamespace(hadoopConfiguration=lambda: hadoop))
    conf = hadoop_conf(delta(storage=STORAGE), {})
    configure_hadoop(context, conf)
    assert hadoop["fs.s3.impl"] == (own or conf["spark.hadoop.fs.s3.impl"])
    assert hadoop["fs.s3a.bucket.lake.endpoint"] == ENDPOINT
    project = Project(Path(), {"lake": delta(storage=STORAGE)}, SparkConfig(), ())
    assert "spark.hadoop.fs.s3.impl" not in project_conf(project, submitted=True)
    assert "spark.hadoop.fs.s3.impl" in project_conf(project, submitted=False)


def test_a_declared_gcs_store_reaches_every_library() -> None:
    storage = {"endpoint": "http://127.0.0.1:4443/"}
    lake, ice = delta(warehouse="gs://lake/x", storage=storage), iceberg(warehouse="gs://ice/x", storage=storage)
    assert stores(lake) == {Store.GCS}
    assert deltalake_options(lake, EVERYWHERE) == {
        **LIMITS,
        "google_base_url": "http://127.0.0.1:4443",
        "allow_http": "true",
    }
    assert pyiceberg_options(ice, EVERYWHERE) == {"gcs.service.host": "http://127.0.0.1:4443"}
    assert iceberg_conf(ice, EVERYWHERE) == {"gcs.service.host": "http://127.0.0.1:4443"}
    assert hadoop_conf(lake, EVERYWHERE)["spark.hadoop.fs.gs.storage.root.url"] == "http://127.0.0.1:4443"
    assert [str(address) for address in addresses(lake)] == ["127.0.0.1:4443"]


def test_gcs_itself_needs_no_definition() -> None:
    lake = delta(warehouse="gs://lake/x")
    assert deltalake_options(lake, EVERYWHERE) == LIMITS
    assert hadoop_conf(lake, EVERYWHERE) == {
        "spark.hadoop.fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
        "spark.hadoop.fs.AbstractFileSystem.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFS",
    }
    assert [str(address) for address in addresses(lake)] == ["storage.googleapis.com:443"]


def test_one_catalog_may_have_tables_in_two_stores() -> None:
    conf = hadoop_conf(delta(tables={"a.b": "gs://b/t"}), EVERYWHERE)
    assert "spark.hadoop.fs.gs.impl" in conf
    assert conf["spark.hadoop.fs.s3a.bucket.lake.endpoint"] == "http://127.0.0.1:9"


def test_two_catalogs_may_have_two_stores() -> None:
    other = delta(warehouse="s3a://other/x", storage={"endpoint": "https://two.example.com", "path_style": False})
    conf = hadoop_conf(delta(storage=STORAGE), {}) | hadoop_conf(other, {})
    assert conf["spark.hadoop.fs.s3a.bucket.lake.endpoint"] == ENDPOINT
    assert conf["spark.hadoop.fs.s3a.bucket.other.endpoint"] == "https://two.example.com"
    assert conf["spark.hadoop.fs.s3a.bucket.other.path.style.access"] == "false"


def test_the_environment_counts_for_all_libraries_where_nothing_is_declared() -> None:
    """pyiceberg does not read AWS_ENDPOINT_URL itself: `plan` would read another store than Spark writes to."""
    assert pyiceberg_options(iceberg(), EVERYWHERE)["s3.endpoint"] == "http://127.0.0.1:9"
    assert pyiceberg_options(iceberg(), EVERYWHERE)["client.region"] == "us-west-2"
    assert deltalake_options(delta(), EVERYWHERE)["aws_allow_http"] == "true"
    assert hadoop_conf(delta(), EVERYWHERE)["spark.hadoop.fs.s3a.bucket.lake.endpoint"] == "http://127.0.0.1:9"
    assert pyiceberg_options(iceberg(storage=STORAGE), EVERYWHERE)["s3.endpoint"] == ENDPOINT


def test_aws_itself_needs_a_region_only() -> None:
    assert deltalake_options(delta(storage={"region": "eu-west-1"}), {}) == {**LIMITS, "aws_region": "eu-west-1"}
    assert pyiceberg_options(iceberg(storage={"region": "eu-west-1"}), {}) == {"client.region": "eu-west-1"}


@pytest.mark.parametrize("name", ["aws_endpoint", "AWS_ENDPOINT_URL", "endpoint_url"])
def test_properties_have_precedence_under_any_of_their_names(name: str) -> None:
    found = deltalake_options(delta(storage=STORAGE, properties={name: "https://mine"}), {})
    assert {k: v for k, v in found.items() if "endpoint" in k.lower()} == {name: "https://mine"}


def test_credentials_in_a_location_do_not_reach_the_configuration() -> None:
    assert "secret" not in str(hadoop_conf(delta(warehouse="s3a://key:secret@lake/x", storage=STORAGE), {}))


def test_local_tables_have_none_of_it() -> None:
    local = delta(warehouse="/data/delta", properties={"timeout": "5s"})
    assert deltalake_options(local, EVERYWHERE) == {"timeout": "5s"}
    assert hadoop_conf(local, EVERYWHERE) == {}
    assert iceberg_conf(iceberg(warehouse="file:///x"), EVERYWHERE) == {}
    assert stores(local) == frozenset()


def test_a_rest_catalog_chooses_how_files_are_read() -> None:
    """It may give each table credentials of its own, which only its choice can use."""
    assert "io-impl" not in iceberg_conf(iceberg("rest", storage=STORAGE), {})


@pytest.mark.parametrize("kind", ["sql", "hive", "glue", "rest"])
def test_every_catalog_waits_for_a_store_that_is_away(kind: str) -> None:
    """The tables of a REST catalog may be on S3 although its warehouse is only a name."""
    options = {"warehouse": "name"} if kind == "rest" else {}
    assert iceberg_conf(iceberg(kind, **options), {})["s3.retry.num-retries"] == "14"
    own = {"s3.retry.num-retries": "2"}
    assert iceberg_conf(iceberg(kind, properties=own, **options), {})["s3.retry.num-retries"] == "2"


@pytest.mark.parametrize("kind", ["hive", "glue"])
def test_tables_of_a_metastore_may_be_in_several_stores(kind: str) -> None:
    conf = iceberg_conf(iceberg(kind, storage=STORAGE), {})
    assert conf["io-impl"] == "org.apache.iceberg.io.ResolvingFileIO"
    assert conf["s3.endpoint"] == ENDPOINT
    chosen = {"io-impl": "org.apache.iceberg.aws.s3.S3FileIO"}
    assert iceberg_conf(iceberg(kind, storage=STORAGE, properties=chosen), {})["io-impl"] == chosen["io-impl"]


def test_the_address_of_glue_is_the_key_that_both_libraries_read() -> None:
    glue = iceberg("glue", uri="http://127.0.0.1:5000")
    assert pyiceberg_properties(glue)["glue.endpoint"] == "http://127.0.0.1:5000"
    assert spark_catalog_conf(glue)["spark.sql.catalog.ice.glue.endpoint"] == "http://127.0.0.1:5000"
    assert stores(iceberg("glue", warehouse="name")) == {Store.S3}


@pytest.mark.parametrize(
    ("catalog", "expected"),
    [
        (delta(), "org.apache.hadoop:hadoop-aws:"),
        (delta(warehouse="/x", tables={"a.b": "s3://b/t"}), "software.amazon.awssdk:s3:"),
        (delta(warehouse="gs://b/x"), "com.google.cloud.bigdataoss:gcs-connector:"),
        (delta(warehouse="abfss://c@a.dfs.core.windows.net/x"), "org.apache.hadoop:hadoop-azure:"),
        (iceberg(uri="sqlite:////a.db", warehouse="/x"), "org.xerial:sqlite-jdbc:"),
        (iceberg(uri="postgresql+psycopg2://h/db", warehouse="/x"), "org.postgresql:postgresql:"),
        (iceberg(uri="mysql://h/db", warehouse="/x"), "com.mysql:mysql-connector-j:"),
    ],
)
def test_jars_follow_from_the_catalogs(catalog: CatalogConfig, expected: str) -> None:
    named = ",".join(packages([catalog]))
    assert expected in named
    assert expected not in ",".join(packages([delta(warehouse="/x")]))
    assert "software.amazon.awssdk:bundle:" not in named
