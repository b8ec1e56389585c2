"""Keys with `//` in S3, as Athena, Glue and S3 Tables write them, which pyarrow cannot address."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import boto3
import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from support.servers import CREDENTIALS, free_port, s3_server

import zlayout

LAYOUT = """\
version: 1
table: ice.db.t
zorder: {columns: [a]}
files: {target_size: 1MiB}
"""


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with s3_server(free_port(), "lake") as url:
        (tmp_path / "layouts").mkdir()
        (tmp_path / "layouts/t.yaml").write_text(LAYOUT)
        (tmp_path / "zlayout.yaml").write_text(
            "version: 1\ncatalogs:\n  ice: {format: iceberg, type: sql, "
            f"uri: 'sqlite:///{tmp_path}/ice.db', warehouse: 's3://lake/ice', "
            f"storage: {{endpoint: '{url}', region: us-east-1}}}}\n"
        )
        yield url


def make_table(root: Path, url: str) -> Table:
    catalog = SqlCatalog(
        "ice",
        uri=f"sqlite:///{root}/ice.db",
        warehouse="s3://lake/ice",
        **{"s3.endpoint": url, "s3.region": "us-east-1"},
    )
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", pa.schema([("a", pa.int64())]))
    for at in range(2):
        table.append(pa.table({"a": [at, at + 1]}))
    return table


def copied(url: str, path: str) -> str:
    """Copy an object to a key with an empty part, and return its new path."""
    source = path.removeprefix("s3://lake/")
    key = source.replace("/t/", "/t//")
    client = boto3.client("s3", endpoint_url=url, region_name="us-east-1")
    client.copy_object(Bucket="lake", Key=key, CopySource={"Bucket": "lake", "Key": source})
    return f"s3://lake/{key}"


def test_metadata_with_an_empty_part_has_an_error_of_its_own(tmp_path: Path, store: str) -> None:
    table = make_table(tmp_path, store)
    moved = copied(store, table.metadata_location)
    with sqlite3.connect(tmp_path / "ice.db") as database:
        database.execute("update iceberg_tables set metadata_location = ?", [moved])
    (found,) = zlayout.plan(zlayout.load_project(tmp_path)).document.tables
    assert [d.code for d in found.diagnostics] == ["ZL129"]
    assert "its key lake/ice/db/t//metadata/" in found.diagnostics[0].message
    assert "run again" not in found.diagnostics[0].hint


def test_data_files_with_an_empty_part_are_named_by_the_sample(tmp_path: Path, store: str) -> None:
    table = make_table(tmp_path, store)
    files = [task.file for task in table.scan().plan_files()]
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        for file in files:
            file._data[1] = copied(store, file.file_path)  # pyarrow writes no such key
            append.append_data_file(file)
    (found,) = zlayout.plan(zlayout.load_project(tmp_path), sample=True).document.tables
    (warning,) = [d for d in found.diagnostics if d.code == "ZL410"]
    assert "a data file cannot be read: its key lake/ice/db/t//data/" in warning.message
    assert "without `//`" in warning.hint


@pytest.mark.long
def test_apply_rewrites_data_files_with_an_empty_part(tmp_path: Path, store: str) -> None:
    """Iceberg's S3FileIO addresses them, so that the plan needs no refusal."""
    table = make_table(tmp_path, store)
    files = [task.file for task in table.scan().plan_files()]
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        for file in files:
            file._data[1] = copied(store, file.file_path)
            append.append_data_file(file)
    project = zlayout.load_project(tmp_path)
    report = zlayout.apply(zlayout.plan(project))
    assert not report.failed, report.failed
    assert report.results["ice.db.t"].files_removed == 4
    table.refresh()
    assert sorted(table.scan().to_arrow()["a"].to_pylist()) == [0, 0, 1, 1, 1, 1, 2, 2]
