"""`zlayout doctor` says which step fails and what to do. The services that fail are real."""

import os
import socket
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog
from support.projects import LAYOUT, Cli

from zlayout.errors import SpecError
from zlayout.session.doctor import Check, CheckStatus, Step, doctor, spark_detail
from zlayout.session.project import load_project
from zlayout.spark import versions

S3 = '{{format: delta, warehouse: "s3://b/t", storage: {{endpoint: "{url}", region: us-east-1}}}}'
REST = '{{format: iceberg, type: rest, uri: "{url}"}}'


@pytest.fixture(autouse=True)
def no_credentials(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_ENDPOINT_URL"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))


def checks(root: Path, catalog: str, timeout: float = 30.0) -> list[Check]:
    """The checks of one more catalog with one layout."""
    settings = root / "zlayout.yaml"
    settings.write_text(settings.read_text().rstrip() + f"\n  other: {catalog}\n")
    (root / "layouts" / "other.yaml").write_text(LAYOUT.replace("lake.db.orders", "other.db.orders"))
    return list(doctor(load_project(root), ["other"], timeout=timeout))


def test_a_good_table_passes_every_step(root: Path, cli: Cli) -> None:
    found = list(doctor(load_project(root)))
    assert [(c.step, c.status) for c in found] == [
        (Step.RESOLVE, CheckStatus.SKIPPED),
        (Step.LIST_STORAGE, CheckStatus.OK),
        (Step.READ_METADATA, CheckStatus.OK),
        (Step.READ_DATA_FILE, CheckStatus.OK),
        (Step.WRITE, CheckStatus.OK),
    ]
    printed = cli("doctor")
    assert "lake\n  skipped  resolve" in printed.out
    assert "  ok       read a data file     lake.db.orders: one row group of one file" in printed.out
    lines = printed.out.splitlines()[1:]
    assert [line[31] for line in lines] == [" "] * len(lines)
    assert not [line for line in lines if line[32] == " "]


def test_long_messages_are_wrapped_below_their_step(root: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    (root / "layouts" / "orders.yaml").write_text((root / "layouts/orders.yaml").read_text().replace("orders", "other"))
    lines = cli("doctor", code=1).out.splitlines()[1:]
    at = next(number for number, line in enumerate(lines) if line.startswith("  failed   read metadata"))
    assert lines[at].startswith("  failed   read metadata        ZL110 expected a Delta table")
    assert len(lines) > at + 3
    assert all(line.startswith(" " * 32) for line in lines[at + 1 :])
    assert all(len(line) <= 80 or " " not in line[32:].rstrip(",") for line in lines)


def test_a_folder_that_may_not_be_written_to_has_a_hint_about_writing(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)
    last = list(doctor(load_project(root)))[-1]
    assert (last.step, last.status) == (Step.WRITE, CheckStatus.FAILED)
    assert last.detail == "lake.db.orders: access is denied"
    assert last.hint == "make the folder writable for the user who runs apply"


@pytest.mark.parametrize("catalog", [S3, REST], ids=["s3", "rest"])
@pytest.mark.parametrize(
    ("url", "step", "detail"),
    [
        ("https://nowhere.invalid", Step.RESOLVE, "nowhere.invalid: the host name is unknown"),
        ("http://127.0.0.1:1", Step.CONNECT, "127.0.0.1:1: the connection was refused"),
    ],
    ids=["dns", "refused"],
)
def test_the_step_that_fails_is_the_last_one(root: Path, catalog: str, url: str, step: Step, detail: str) -> None:
    last = checks(root, catalog.format(url=url))[-1]
    assert (last.step, last.status) == (step, CheckStatus.FAILED)
    assert detail in last.detail
    assert last.hint


@pytest.mark.parametrize(("catalog", "step"), [(S3, Step.LIST_STORAGE), (REST, Step.ASK_CATALOG)], ids=["s3", "rest"])
def test_a_service_that_hangs_fails_within_the_limit(
    root: Path, hung: int, catalog: str, step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    found = checks(root, catalog.format(url=f"http://127.0.0.1:{hung}"), timeout=2)
    assert [(c.step, c.status) for c in found] == [
        (Step.RESOLVE, CheckStatus.OK),
        (Step.CONNECT, CheckStatus.OK),
        (step, CheckStatus.FAILED),
    ]
    assert "ZL105" in found[-1].detail


def test_tls_is_named(root: Path, plain_http: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    last = checks(root, S3.format(url=f"https://127.0.0.1:{plain_http}"), timeout=120)[-1]  # the client tries again
    assert (last.step, last.status) == (Step.LIST_STORAGE, CheckStatus.FAILED)
    assert "the TLS connection failed" in last.detail


def test_a_missing_table_and_a_missing_layout_are_told_apart(root: Path) -> None:
    _, listed, last = checks(root, "{format: delta, warehouse: tables/db}")
    assert (listed.status, listed.detail) == (CheckStatus.OK, str(root / "tables" / "db"))
    assert (last.step, last.status) == (Step.READ_METADATA, CheckStatus.FAILED)
    assert "ZL110" in last.detail
    (root / "layouts" / "other.yaml").unlink()
    last = list(doctor(load_project(root), ["other"]))[-1]
    assert (last.step, last.status) == (Step.READ_METADATA, CheckStatus.SKIPPED)


@pytest.mark.parametrize("place", ["warehouse: elsewhere", "tables: {db.orders: elsewhere}, warehouse: tables"])
def test_a_folder_that_does_not_exist_is_not_listed(root: Path, place: str) -> None:
    last = checks(root, f"{{format: delta, {place}}}")[-1]
    assert (last.step, last.status) == (Step.LIST_STORAGE, CheckStatus.FAILED)
    assert last.detail == f"ZL114 there is no folder {root}/elsewhere"
    assert last.hint == "check warehouse and tables of catalogs.other"


def test_a_catalog_that_does_not_list_the_table_answers(root: Path) -> None:
    uri = f"sqlite:///{root}/ice.db"
    load_catalog("other", type="sql", uri=uri, warehouse=str(root)).create_namespace("db")
    asked, *_, last = checks(root, f"{{format: iceberg, type: sql, uri: '{uri}', warehouse: tables}}")[1:]
    assert (asked.step, asked.status) == (Step.ASK_CATALOG, CheckStatus.OK)
    assert asked.detail == "it does not list other.db.orders"
    assert (last.step, last.status) == (Step.READ_METADATA, CheckStatus.FAILED)
    assert "ZL122" in last.detail


def test_a_table_without_a_snapshot_has_no_version(root: Path, cli: Cli) -> None:
    uri = f"sqlite:///{root}/ice.db"
    catalog = load_catalog("other", type="sql", uri=uri, warehouse=str(root))
    catalog.create_namespace("db")
    catalog.create_table("db.orders", pa.schema([("a", pa.int64())]))
    found = checks(root, f"{{format: iceberg, type: sql, uri: '{uri}', warehouse: tables}}")
    assert [check.detail for check in found if check.step is Step.READ_METADATA] == ["other.db.orders: no data yet"]
    assert cli("inspect", "other.db.orders").out.startswith("other.db.orders (iceberg)\n")


def test_a_missing_python_package_is_named(root: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        uri = f"postgresql+psycopg://127.0.0.1:{server.getsockname()[1]}/iceberg"  # no extra needs this driver
        last = checks(root, f"{{format: iceberg, type: sql, uri: '{uri}', warehouse: tables}}")[-1]
    assert last.status is CheckStatus.FAILED
    assert "the Python package psycopg is missing" in last.detail
    assert "zlayout has the extras glue, hive, mysql (mysql+pymysql:)" in last.hint


def test_a_broken_catalog_makes_the_command_fail_and_the_others_are_checked(root: Path, cli: Cli) -> None:
    checks(root, REST.format(url="http://127.0.0.1:1"))
    printed = cli("doctor", code=1)
    assert "lake\n" in printed.out
    assert "other\n" in printed.out
    assert "  failed   connect" in printed.out


def test_an_unknown_catalog_is_an_error(root: Path) -> None:
    with pytest.raises(SpecError, match="ZL021 unknown catalog 'nope'"):
        list(doctor(load_project(root), ["nope"]))


def test_the_version_of_spark_is_compared_with_those_that_were_tested() -> None:
    assert {spark_detail(version).endswith("was tested") for version in versions.TESTED_SPARK} == {True}
    assert "4.1.3-amzn-0, with which zlayout was not tested" in spark_detail("4.1.3-amzn-0")
