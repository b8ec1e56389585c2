"""Delta and Iceberg tables on an emulator of GCS: what zlayout reads without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from deltalake import write_deltalake
from pyiceberg.catalog import Catalog, load_catalog
from spark.projects import DELTA, ICEBERG, DiskProject, make_events
from support.gcs import gcs_server, upload
from support.servers import free_port

BUCKET, ROWS, FILES = "lake", 4000, 8
# Neither the emulator nor these clients check who sends a request.
CREDENTIALS = {"GOOGLE_SKIP_SIGNATURE": "true", "GCS_TOKEN": "none", "GCS_TOKEN_ENDS": "4102444800000"}
TOKEN = {"gcs.oauth2.token": "GCS_TOKEN", "gcs.oauth2.token-expires-at": "GCS_TOKEN_ENDS"}


def iceberg_catalog(root: Path, url: str) -> Catalog:
    access = {"gcs.service.host": url} | {key: CREDENTIALS[variable] for key, variable in TOKEN.items()}
    return load_catalog("ice", type="sql", uri=f"sqlite:///{root}/ice.db", warehouse=f"gs://{BUCKET}/ice", **access)


def make_tables(root: Path, url: str) -> DiskProject:
    """Make both tables without a JVM."""
    storage = {"endpoint": url}
    sql = {"type": "sql", "uri": f"sqlite:///{root}/ice.db", "warehouse": f"gs://{BUCKET}/ice"}
    token = {key: f"${{{variable}}}" for key, variable in TOKEN.items()}
    catalogs = {
        "lake": {"format": "delta", "type": "path", "warehouse": f"gs://{BUCKET}/delta", "storage": storage},
        "ice": {"format": "iceberg", **sql, "storage": storage, "properties": token},
    }
    (root / "zlayout.yaml").write_text(json.dumps({"version": 1, "catalogs": catalogs}))
    (root / "layouts").mkdir()
    for name in (DELTA, ICEBERG):
        layout = {"version": 1, "table": name, "zorder": {"columns": ["a", "b"]}, "files": {"target_size": "64KiB"}}
        (root / "layouts" / f"{name}.yaml").write_text(json.dumps(layout))
    rows, local = make_events(ROWS), root / "made"
    parts = [rows.slice(start, ROWS // FILES) for start in range(0, ROWS, ROWS // FILES)]
    catalog = iceberg_catalog(root, url)
    catalog.create_namespace("db")
    table = catalog.create_table("db.events", rows.schema)
    for part in parts:
        write_deltalake(local, part, mode="append")
        table.append(part)
    for path in local.rglob("*"):
        if path.is_file():
            upload(url, BUCKET, f"delta/db/events/{path.relative_to(local)}", path.read_bytes())
    return DiskProject(root)


@pytest.mark.long
def test_plan_and_orphans(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with gcs_server(free_port(), tmp_path, BUCKET) as url:
        project = make_tables(tmp_path, url)
        code, out, err = project.call("plan", "--detailed-exitcode")
        assert (code, "2 to rewrite" in out) == (2, True), out + err
        for name, folder in ((DELTA, "delta/db/events"), (ICEBERG, "ice/db/events/data")):
            code, out, err = project.call("inspect", name, "--orphans")
            assert code == 0, out + err
            assert f"files           {FILES} files" in out
            assert "orphans         none" in out
            upload(url, BUCKET, f"{folder}/left.parquet", b"left")
            assert "left.parquet" in project.call("inspect", name, "--orphans")[1]
