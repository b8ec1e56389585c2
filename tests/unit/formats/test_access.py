"""Why a store or catalog could not be reached: real errors of the libraries, and texts that need a server elsewhere."""

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zlayout.errors import Location, TableError
from zlayout.formats.access import cause_of
from zlayout.formats.registry import backend_for
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import CatalogConfig, Project, SparkConfig, TableName

HERE = Location("zlayout.yaml", 3, 3)
CLOSED = "http://127.0.0.1:1"


def delta(endpoint: str) -> CatalogConfig:
    storage = {"endpoint": endpoint, "region": "us-east-1"}
    options = {"warehouse": "s3://bucket/x", "storage": storage, "properties": {"max_retries": "1"}}
    return CatalogConfig("lake", "delta", "path", options, HERE)


def rest(uri: str) -> CatalogConfig:
    return CatalogConfig("ice", "iceberg", "rest", {"uri": uri}, HERE)


@pytest.fixture
def read(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Callable[[CatalogConfig], str]:
    """Read a table of a catalog, which fails, and return the error."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")

    def fail(catalog: CatalogConfig) -> str:
        project = Project(tmp_path_factory.mktemp("p"), {catalog.name: catalog}, SparkConfig(), ())
        with pytest.raises(TableError) as error:
            backend_for(catalog, SparkRuntime(project)).observe(TableName(catalog.name, ("db",), "t"), ())
        return str(error.value)

    return fail


@pytest.mark.parametrize(
    ("make", "code", "place"),
    [(delta, "ZL114", "the storage of lake.db.t at s3://bucket/x/db/t"), (rest, "ZL121", "catalog ice (type rest)")],
    ids=["delta", "rest"],
)
@pytest.mark.parametrize(
    ("address", "reason"),
    [
        (CLOSED, "the connection was refused"),
        ("https://nowhere.invalid", "the host name is unknown"),
    ],
    ids=["refused", "dns"],
)
def test_the_message_names_the_service_and_the_cause(
    read: Callable[[CatalogConfig], str],
    make: Callable[[str], CatalogConfig],
    code: str,
    place: str,
    address: str,
    reason: str,
) -> None:
    message = read(make(address))
    assert f"{code} {place} cannot be reached: {reason} (" in message
    assert "damaged" not in message


@pytest.mark.long  # delta-rs repeats the request for 20 s
def test_http_behind_an_https_address_is_a_tls_failure(read: Callable[[CatalogConfig], str], plain_http: int) -> None:
    message = read(delta(f"https://127.0.0.1:{plain_http}"))
    assert "the TLS connection failed" in message


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("404 Not Found <Code>NoSuchBucket</Code>", "the bucket does not exist"),
        ("AWS Error NO_SUCH_BUCKET during HeadObject operation", "the bucket does not exist"),
        ("GET http://169.254.169.254/latest/api/token: 403 Forbidden", "no credentials were found"),
        ("Unable to locate credentials", "no credentials were found"),
        (
            "an error occurred while loading credentials: failed to load IMDS session token: request forbidden",
            "no credentials were found",
        ),
        (
            "RESTError 500: Received unexpected JSON Payload: <title>ClassNotFoundException</title>",
            "the service answered with the status 500",
        ),
        ("503 Server Error: AccessDenied for url: http://h", "the service answered with the status 503"),
        ("<Code>InvalidAccessKeyId</Code> 403 Forbidden", "the credentials are wrong"),
        ("<Code>AccessDenied</Code>", "access is denied"),
        ("<Code>ExpiredToken</Code> 400", "the credentials have expired"),
        ("<Code>RequestTimeTooSkewed</Code> 403", "the clocks of this machine and of the server differ too much"),
        ("<Code>AuthorizationHeaderMalformed</Code> expecting 'eu-west-1'", "the bucket is in another region"),
        ("You must specify a region.", "no region is known"),
        ("builder error: URL scheme is not allowed", "plain http is not allowed"),
        ("Apache Hive support not installed: pip install 'pyiceberg[hive]'", "the Python package thrift is missing"),
        ("AWS glue support not installed: pip install 'pyiceberg[glue]'", "the Python package boto3 is missing"),
        ("No module named 'MySQLdb'", "the Python package MySQLdb is missing"),
        ('connection to server failed: FATAL:  database "lake" does not exist', "the database does not exist"),
        ("(1049, \"Unknown database 'lake'\")", "the database does not exist"),
        ('FATAL:  role "reader" does not exist', "the credentials are wrong"),
        ('relation "iceberg_tables" does not exist', "the database has no tables of an Iceberg catalog"),
        ("(1146, \"Table 'lake.iceberg_tables' doesn't exist\")", "the database has no tables of an Iceberg catalog"),
        ("no such table: iceberg_tables", "the database has no tables of an Iceberg catalog"),
        ("operation timed out", "the service did not answer in time"),
        ("after 10 retries, retry_timeout: 30s - Connection reset by peer (os error 104)", "the connection failed"),
        ("UnauthorizedError: 401", "the credentials are missing or not accepted"),
    ],
)
def test_texts_of_libraries(text: str, reason: str) -> None:
    inner = OSError(text)
    outer = ValueError("something else")
    outer.__cause__ = inner
    for error in (inner, outer):
        cause = cause_of(error)
        assert cause.reason == reason


@pytest.mark.parametrize(
    ("module", "extra"),
    [("psycopg2", "postgres"), ("pymysql", "mysql"), ("boto3", "glue"), ("thrift", "hive"), ("sqlalchemy.orm", "sql")],
)
def test_a_missing_package_has_the_extra_that_installs_it(module: str, extra: str) -> None:
    cause = cause_of(ModuleNotFoundError(f"No module named '{module}'"))
    assert cause.hint == f"run pip install 'zlayout[{extra}]'"
    assert f"\n{extra} = [" in (Path(__file__).parents[3] / "pyproject.toml").read_text()


@pytest.mark.parametrize(
    "text",
    [
        "missing commit s3://lake/certificates/_delta_log/00000000000000000003.json",
        "bad magic in s3://lake/deadline_orders/metadata/m0.avro",
        "s3://lake/403/_delta_log/00000000000000000003.json: invalid JSON",
    ],
)
def test_names_of_tables_are_no_causes(text: str) -> None:
    assert cause_of(ValueError(text)) is None


def test_an_unknown_error_has_no_cause() -> None:
    assert cause_of(ValueError("expected column a, found b")) is None


def test_a_folder_that_must_not_be_read_is_not_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stat(path: str, *args: Any, **options: Any) -> os.stat_result:
        if str(path).startswith(f"{tmp_path}/locked"):  # the user who runs the tests may be root, who can read it
            raise PermissionError(errno.EACCES, "Permission denied", path)
        return stating(path, *args, **options)

    def denied(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    stating = os.stat
    (tmp_path / "file").touch()
    catalog = CatalogConfig("lake", "delta", "path", {"warehouse": str(tmp_path)}, HERE)
    backend = backend_for(catalog, SparkRuntime(Project(tmp_path, {"lake": catalog}, SparkConfig(), ())))
    monkeypatch.setattr("zlayout.formats.delta.backend.checked_log", denied)
    monkeypatch.setattr(os, "stat", stat)
    for missing in ("missing", "file"):
        assert backend.list_storage(TableName("lake", (missing,), "t")) == str(tmp_path)
    with pytest.raises(PermissionError):
        backend.list_storage(TableName("lake", ("locked",), "t"))
