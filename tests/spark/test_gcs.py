"""Delta and Iceberg tables on GCS, in processes of their own: Spark has the connector of GCS there."""

import json
import os
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import Catalog, load_catalog
from spark.projects import DELTA, ICEBERG, DiskProject, make_events
from support.gcs import CREDENTIALS, gcs_server, upload
from support.servers import free_port

from zlayout.spec.client_options import deltalake_options
from zlayout.spec.load import load_project

BUCKET, ROWS, FILES = "lake", 4000, 8
TOKEN = {"gcs.oauth2.token": "GCS_TOKEN", "gcs.oauth2.token-expires-at": "GCS_TOKEN_ENDS"}
OPEN = {"spark.hadoop.fs.gs.auth.service.account.enable": "false", "spark.hadoop.fs.gs.auth.null.enable": "true"}


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
    spark = {"master": "local[2]", "conf": OPEN}
    (root / "zlayout.yaml").write_text(json.dumps({"version": 1, "catalogs": catalogs, "spark": spark}))
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


def rows_of(project: DiskProject) -> dict[str, pa.Table]:
    """The rows of each table by id, as the readers without a JVM return them."""
    catalog = load_project(project.root, os.environ).catalogs["lake"]
    options, url = deltalake_options(catalog), catalog.options["storage"]["endpoint"]
    found = {
        DELTA: DeltaTable(f"gs://{BUCKET}/delta/db/events", storage_options=options).to_pyarrow_table(),
        ICEBERG: iceberg_catalog(project.root, url).load_table("db.events").scan().to_arrow(),
    }
    schema = make_events(1).schema
    return {name: t.select(schema.names).cast(schema).sort_by("id").combine_chunks() for name, t in found.items()}


@pytest.mark.long
def test_plan_apply_and_empty_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with gcs_server(free_port(), tmp_path, BUCKET) as url:
        project = make_tables(tmp_path, url)
        code, out, err = project.call("plan", "--detailed-exitcode")
        assert (code, "2 tables" in out) == (2, True), out + err
        code, out, err = project.call("apply", "--auto-approve")
        assert code == 0, out + err
        code, out, err = project.call("plan", "--detailed-exitcode")
        assert code == 0, out + err
        expected = make_events(ROWS).sort_by("id").combine_chunks()
        assert all(found.equals(expected) for found in rows_of(project).values())
        for name in (DELTA, ICEBERG):
            code, out, err = project.call("inspect", name)
            assert code == 0, out + err
