"""`properties`, `storage` and `uri` of catalogs: they load no class, read no file, and choose no host unchecked."""

import json
from pathlib import Path
from typing import Any

import pytest
from hostile.asking import refused

from zlayout.spec.load import load_project

DELTA = {"format": "delta", "warehouse": "s3://lake/delta"}
SQL = {"format": "iceberg", "type": "sql", "uri": "sqlite:///c.db", "warehouse": "s3://ice/w"}
REST = {"format": "iceberg", "type": "rest", "uri": "https://catalog.example.com"}
HIVE = {"format": "iceberg", "type": "hive", "uri": "thrift://h:9083"}
GLUE = {"format": "iceberg", "type": "glue"}
CATALOGS = {"delta": DELTA, "sql": SQL, "rest": REST, "hive": HIVE, "glue": GLUE}
REFUSED = [
    # classes
    "io-impl", "catalog-impl", "py-io-impl", "py-catalog-impl", "metrics-reporter-impl", "lock-impl",
    "encryption.kms-impl", "encryption.kms-type", "s3.client-factory-impl", "s3.retry-strategy-impl", "client.factory",
    "client.credentials-provider", "client.credentials-provider.x", "http-client.apache.x", "rest.auth.type",
    "rest.client.tls.configurer-impl", "rest.auth.basic.username", "auth", "hadoop.io.serializations",
    "hadoop.fs.x.impl", "write.location-provider.impl", "py-location-provider", "access-delegation.impl",
    "botocore_session",
    "table-default.write.location-provider.impl", "table-override.write.parquet.page-size", "s3.signer",
    # JDBC and SQLAlchemy
    "jdbc.socketFactory", "jdbc.sslfactory", "jdbc.loggerFile", "jdbc.autoDeserialize", "jdbc.allowLoadLocalInfile",
    "jdbc.queryInterceptors", "jdbc.password", "jdbc.user", "jdbc.enable_load_extension", "jdbc.schema-version",
    "echo", "init_catalog_tables",
    # files, commands and profiles
    "ssl", "ssl.cabundle", "ssl.client.cert", "hdfs.kerberos_ticket", "s3.staging-dir", "google_service_account",
    "google_service_account_key", "google_application_credentials", "GOOGLE_APPLICATION_CREDENTIALS",
    "aws_web_identity_token_file", "azure_federated_token_file", "azure_use_azure_cli", "use_azure_cli",
    "aws_container_authorization_token_file", "client.profile-name", "s3.profile-name", "aws_profile",
    "gcs.session-kwargs",
    # where credentials go
    "proxy_url", "s3.proxy-uri", "http-client.proxy-endpoint", "rest.client.proxy.hostname", "s3.signer.uri",
    "s3.signer.endpoint", "signer.uri", "client.refresh-credentials-endpoint",
    "gcs.oauth2.refresh-credentials-endpoint",
    "aws_metadata_endpoint", "aws_container_credentials_full_uri", "aws_endpoint_url_sts", "azure_msi_endpoint",
    "azure_authority_host", "adls.dfs-storage-authority", "adls.account-host", "glue.endpoint", "dynamodb.endpoint",
    "kms.endpoint", "header.Authorization", "header.Host", "header.X-Other", "uri", "warehouse", "type", "hf.endpoint",
    # checks
    "allow_invalid_certificates", "proxy_ca_certificate", "cache-enabled", "s3.acl", "snapshot-loading-mode",
    "spark.jars", "x", "", " token", "token ", "token\n", "s3.endpoint.x", "S3.ENDPOINT",
]  # fmt: skip
# Both a JDBC driver and SQLAlchemy, or one of them, would load a class, read a file or go elsewhere.
URIS = [
    "postgresql+evil://h/db", "evil://h/db", "sqlite+pysqlcipher:///c.db", "mysql+mysqldb://h/db", "oracle://h/db",
    "postgresql://h/db?socketFactory=com.example.Evil&socketFactoryArg=x", "postgresql://h/db?loggerFile=/tmp/x",
    "postgresql://h/db?sslfactory=com.example.Evil", "postgresql://h/db?service=x", "postgresql://h/db?passfile=/x",
    "postgresql://h/db?sslcert=/x&sslkey=/y", "postgresql://h/db?options=-csession_preload_libraries%3Dx",
    "postgresql://h/db?host=evil", "postgresql://h/db?sslmode=disable", "postgresql://h/db?sslrootcert=/x",
    "postgresql://h/db?sslmode=require&socketFactory=x", "postgresql://h/db;socketFactory=x", "postgresql://h/db%3Fx=y",
    "postgresql://h/?x=y", "postgresql://h", "postgresql:h/db", "postgresql://h/db#x", "POSTGRESQL://h/db",
    "postgresql://h1,h2/db", "postgresql://h:x/db", "postgresql://a@b@h/db", "postgresql://h/db?ssl%6Dode=require",
    "mysql://h/db?autoDeserialize=true&queryInterceptors=x", "mysql://h/db?allowLoadLocalInfile=true",
    "mysql://h/db?local_infile=1", "mysql://h/db?read_default_file=/x", "mysql://h/db?init_command=x",
    "mysql://h/db?unix_socket=/x", "mysql://h/db?ssl_ca=/x", "mysql://address=(host=evil)(autoDeserialize=true)/db",
    "mysql://(host=evil,autoDeserialize=true)/db", "mysql://h/db?charset=utf8mb4&allowLoadLocalInfile=true",
    "sqlite:///c.db?mode=rw", "sqlite:///c.db?vfs=x", "sqlite:///c.db?enable_load_extension=true", "sqlite:c.db",
    "sqlite:///c.db?uri=true", "sqlite://h/c.db", "sqlite:///c.db?timeout=x", "sqlite:///c.db?key=x", "sqlite:///:memory:",
    "jdbc:postgresql://h/db", "http://h/db", "x", "sqlite+:///c.db",
]  # fmt: skip
TAKEN_URIS = [
    "sqlite:///c.db", "sqlite:////abs/c.db", "sqlite+pysqlite:///c.db?timeout=30", "sqlite:///a%2541/c%3F.db",
    "postgresql://h/db", "postgresql+psycopg2://u%40corp@h.example.com:5432/db?sslmode=verify-full&connect_timeout=10",
    "postgresql+psycopg://h/db", "postgresql:///db", "postgresql://[::1]:5432/db", "mysql+pymysql://u@127.0.0.1:3306/db",
    "mysql://h/db?charset=utf8mb4&connect_timeout=5",
]  # fmt: skip
TAKEN = [
    (DELTA, {"timeout": "30s", "max_retries": 3, "connect_timeout": "10s", "http1_only": True}),
    (DELTA, {"AWS_ACCESS_KEY_ID": "${S}", "AWS_SECRET_ACCESS_KEY": "${S}", "aws_region": "eu-central-1"}),
    (DELTA, {"aws_endpoint_url": "https://minio.example.com:9000", "aws_virtual_hosted_style_request": "false"}),
    (DELTA, {"aws_endpoint_url": "http://127.0.0.1:9000", "aws_allow_http": "true"}),
    (DELTA, {"azure_storage_account_name": "acc", "azure_storage_sas_token": "${S}", "azure_tenant_id": "t-1"}),
    (SQL, {"s3.endpoint": "https://minio.example.com", "s3.path-style-access": True, "pool_pre_ping": "true"}),
    (SQL, {"s3.retry.num-retries": "20", "client.region": "eu-central-1", "jdbc.init-catalog-tables": "false"}),
    (SQL, {"gcs.oauth2.token": "${S}", "gcs.oauth2.token-expires-at": "4102444800000"}),
    (REST, {"credential": "${S}", "oauth2-server-uri": "https://login.example.com/oauth2/token", "scope": "ROLE:ALL"}),
    (REST, {"token": "${S}", "prefix": "warehouses/prod", "header.x-iceberg-access-delegation": "vended-credentials"}),
    (REST, {"rest.sigv4-enabled": True, "rest.signing-region": "us-east-1", "rest.signing-name": "glue"}),
    (HIVE, {"hive.kerberos-authentication": True, "clients": 4}),
    (GLUE, {"glue.id": "123456789012", "glue.skip-archive": True}),
]
VALUES = [
    (DELTA, "aws_endpoint_url", "http://evil.example.com", "ZL037"),
    (DELTA, "AWS_ENDPOINT_URL", "http://evil.example.com", "ZL037"),
    (DELTA, "google_base_url", "http://evil.example.com", "ZL037"),
    (DELTA, "azure_endpoint", "http://evil.example.com", "ZL037"),
    (DELTA, "allow_http", "true", "ZL037"),
    (DELTA, "aws_region", "x.evil.example.com/#", "ZL013"),
    (DELTA, "azure_storage_account_name", "evil.example.com/", "ZL013"),
    (DELTA, "timeout", "${env:EVIL}", "ZL019"),
    (SQL, "s3.endpoint", "http://evil.example.com", "ZL037"),
    (SQL, "s3.endpoint", "http://localhost\\@evil.example.com", "ZL013"),
    (SQL, "s3.endpoint", "evil.example.com", "ZL013"),
    (SQL, "s3.sse.type", "custom", "ZL014"),
    (SQL, "gcs.service.host", "http://evil.example.com", "ZL037"),
    (SQL, "client.region", "com.example.Evil", "ZL013"),
    (REST, "oauth2-server-uri", "http://evil.example.com", "ZL037"),
    (REST, "prefix", "../../evil?x=", "ZL013"),
    (REST, "header.Polaris-Realm", "x\r\nAuthorization: evil", "ZL0"),
    (REST, "scope", "x\nevil", "ZL0"),
    (REST, "token", "evil" * 1_000_000, "ZL013"),
]


def error_of(folder: Path, **entry: Any) -> str:
    (folder / "zlayout.yaml").write_text(json.dumps({"version": 1, "catalogs": {"c": entry}}))
    return str(refused(lambda: load_project(folder, {"S": "secret/+="})) or "")


@pytest.mark.parametrize("key", REFUSED)
@pytest.mark.parametrize("type_", CATALOGS)
def test_a_property_that_is_not_in_the_list_is_refused_with_a_way_out(type_: str, key: str, tmp_path: Path) -> None:
    error = error_of(tmp_path, **CATALOGS[type_], properties={key: "1"})
    assert "ZL029" in error
    assert "spark-defaults.conf" in error


@pytest.mark.parametrize(("entry", "properties"), TAKEN)
def test_what_users_need_is_accepted(entry: dict[str, Any], properties: dict[str, Any], tmp_path: Path) -> None:
    assert error_of(tmp_path, **entry, properties=properties) == ""


@pytest.mark.parametrize(("entry", "key", "value", "code"), VALUES)
def test_a_value_that_does_harm_is_refused_and_not_shown(
    entry: dict[str, Any], key: str, value: str, code: str, tmp_path: Path
) -> None:
    (tmp_path / "zlayout.yaml").write_text(
        json.dumps({"version": 1, "catalogs": {"c": {**entry, "properties": {key: "${V}"}}}})
    )
    error = str(refused(lambda: load_project(tmp_path, {"V": value})))
    assert code in error
    assert "evil" not in error.lower()


def test_properties_belong_to_their_type(tmp_path: Path) -> None:
    assert "ZL029" in error_of(tmp_path, **SQL, properties={"oauth2-server-uri": "https://h"})
    assert "ZL029" in error_of(tmp_path, **REST, properties={"aws_region": "eu-central-1"})
    assert "ZL029" in error_of(tmp_path, **DELTA, properties={"s3.endpoint": "https://h"})


def test_a_similar_name_is_suggested(tmp_path: Path) -> None:
    error = error_of(tmp_path, **SQL, properties={"s3.path-style-acces": True})
    assert (
        "did you mean 's3.path-style-access'? Else remove it; for Spark alone, set spark.sql.catalog.NAME.KEY" in error
    )


def test_plain_http_to_another_machine_needs_consent(tmp_path: Path) -> None:
    properties = {"s3.endpoint": "http://store.example.com"}
    assert "storage.allow_http: true" in error_of(tmp_path, **SQL, properties=properties)
    assert error_of(tmp_path, **SQL, properties=properties, storage={"allow_http": True}) == ""
    server = {"oauth2-server-uri": "http://login.example.com"}
    assert error_of(tmp_path, **REST, properties=server, allow_http=True) == ""
    assert "ZL037" in error_of(tmp_path, **REST, properties=properties, allow_http=True)


@pytest.mark.parametrize("region", ["x.evil.example.com/", "evil.example.com#", "a\nb", "..", "com.example.Evil"])
def test_a_region_is_no_part_of_a_host(region: str, tmp_path: Path) -> None:
    error = error_of(tmp_path, **DELTA, storage={"region": region})
    assert "ZL0" in error
    assert "evil" not in error.lower()


@pytest.mark.parametrize(
    "endpoint", ["http://evil.example.com\\@127.0.0.1", "https://a b", "https://h\n", "https://[x"]
)
def test_an_endpoint_is_a_url(endpoint: str, tmp_path: Path) -> None:
    assert "ZL037" in error_of(tmp_path, **DELTA, storage={"endpoint": endpoint})


@pytest.mark.parametrize("uri", URIS)
def test_a_uri_that_a_driver_reads_in_its_own_way_is_refused(uri: str, tmp_path: Path) -> None:
    assert "ZL029" in error_of(tmp_path, **{**SQL, "uri": uri})


@pytest.mark.parametrize("uri", TAKEN_URIS)
def test_uris_of_the_three_databases_are_accepted(uri: str, tmp_path: Path) -> None:
    assert error_of(tmp_path, **{**SQL, "uri": uri}) == ""


@pytest.mark.parametrize("location", ["https://[x", "s3://[x/y", "http://[::1", "https://[a]b/"])
def test_brackets_that_no_parser_accepts_are_refused(location: str, tmp_path: Path) -> None:
    assert "ZL029" in error_of(tmp_path, **{**REST, "uri": location})
    assert "ZL029" in error_of(tmp_path, **{**DELTA, "warehouse": location})
    assert "ZL029" in error_of(tmp_path, **DELTA, tables={"a.b": location})
    assert "ZL0" in error_of(tmp_path, **DELTA, storage={"endpoint": location})


@pytest.mark.parametrize(
    "netloc",
    ["c@evil.example.com", "c@acc.dfs.core.windows.net.evil.com", "c@acc.dfs.core.windows.net@evil.com",
     "c@evil.com\\@acc.dfs.core.windows.net", "c@acc.dfs.core.windows.net:444", "c@dfs.core.windows.net"],
)  # fmt: skip
def test_only_azure_gets_credentials_of_azure(netloc: str, tmp_path: Path) -> None:
    assert "ZL029" in error_of(tmp_path, **{**DELTA, "warehouse": f"abfss://{netloc}/x"})
    assert "ZL029" in error_of(tmp_path, **DELTA, tables={"a.b": f"abfss://{netloc}/x"})


@pytest.mark.parametrize("netloc", ["c", "c@acc.dfs.core.windows.net", "ws@onelake.dfs.fabric.microsoft.com"])
def test_accounts_of_azure_are_accepted(netloc: str, tmp_path: Path) -> None:
    assert error_of(tmp_path, **{**DELTA, "warehouse": f"abfss://{netloc}/x"}) == ""
