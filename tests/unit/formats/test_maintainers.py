"""Services that rewrite files of a table by themselves, as the answer of its catalog shows them."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from support.builders import make_layout, make_spec
from support.servers import CREDENTIALS, serving
from support.unity import unity_server

from zlayout.errors import Location
from zlayout.formats.base import Backend
from zlayout.formats.registry import backend_for
from zlayout.planner.work import PlanOptions
from zlayout.session.plan import plan_table
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import CatalogConfig, Project, SparkConfig, TableName

NAME = TableName("lake", ("sales",), "orders")
ROWS = pa.table({"a": pa.array(range(10), pa.int64())})


def backend(type_: str, **options: Any) -> Backend:
    catalog = CatalogConfig(
        "lake", "delta" if type_ == "unity" else "iceberg", type_, options, Location("zlayout.yaml")
    )
    project = Project(Path(), {"lake": catalog}, SparkConfig(None, {}), ())
    return backend_for(catalog, SparkRuntime(project))


def warnings(found: Backend) -> list[str]:
    plan = plan_table(make_spec(make_layout("a"), NAME), found, PlanOptions()).plan
    return [f"{d.severity}: {d.message} ({d.hint})" for d in plan.diagnostics if d.code == "ZL433"]


@pytest.mark.parametrize(
    ("type_", "flag", "warned"),
    [
        ("MANAGED", {"value": "ENABLE", "inherited_from_type": "CATALOG", "inherited_from_name": "main"}, True),
        ("MANAGED", {"value": "DISABLE"}, False),
        ("EXTERNAL", {"value": "ENABLE"}, False),  # it runs on managed tables only
        ("MANAGED", None, False),  # the open-source catalog
        ("MANAGED", "ENABLE", False),
    ],
)
def test_predictive_optimization_of_databricks(tmp_path: Path, type_: str, flag: object, warned: bool) -> None:
    write_deltalake(tmp_path / "t", ROWS)
    with unity_server() as unity:
        unity.add("main.sales.orders", f"file://{tmp_path}/t", type=type_)
        unity.tables["main.sales.orders"]["effective_predictive_optimization_flag"] = flag
        found = warnings(backend("unity", uri=unity.url, warehouse="main"))
        assert len(unity.requests) == 1  # the flag is part of the entry
    assert found == warned * [
        "warning: predictive optimization of Databricks rewrites files of the table too, and may undo its layout (run "
        "ALTER TABLE ... DISABLE PREDICTIVE OPTIMIZATION in Databricks, or remove the layout of the table)"
    ]


@contextmanager
def glue_server(metadata: str, optimizer: tuple[int, dict[str, Any]]) -> Iterator[tuple[str, list[str]]]:
    """AWS Glue with one table, as its API reference defines the responses: its URL, and the requests."""
    asked: list[str] = []
    entry = {
        "Name": "orders",
        "DatabaseName": "sales",
        "CatalogId": "123456789012",
        "Parameters": {"table_type": "ICEBERG", "metadata_location": metadata},
    }

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            operation = self.headers["X-Amz-Target"].removeprefix("AWSGlue.")
            asked.append(operation)
            status, found = (200, {"Table": entry}) if operation == "GetTable" else optimizer
            if operation == "GetTableOptimizer":
                expected = {"CatalogId": "123456789012", "DatabaseName": "sales", "TableName": "orders"}
                assert body == {**expected, "Type": "compaction"}
            content = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked


@pytest.mark.parametrize(
    ("optimizer", "warned"),
    [
        ((200, {"TableOptimizer": {"type": "compaction", "configuration": {"enabled": True}}}), True),
        ((200, {"TableOptimizer": {"type": "compaction", "configuration": {"enabled": False}}}), False),
        ((400, {"__type": "EntityNotFoundException", "Message": "no optimizer"}), False),
        ((400, {"__type": "AccessDeniedException", "Message": "no glue:GetTableOptimizer"}), False),
        ((200, {}), False),
    ],
    ids=["enabled", "disabled", "none", "denied", "unknown"],
)
def test_the_compaction_optimizer_of_glue(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, optimizer: tuple[int, dict[str, Any]], warned: bool
) -> None:
    for variable, value in CREDENTIALS.items():
        monkeypatch.setenv(variable, value)
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/wh")
    catalog.create_namespace("sales")
    table = catalog.create_table("sales.orders", ROWS.schema)
    table.append(ROWS)
    with glue_server(table.metadata_location, optimizer) as (url, asked):
        found = warnings(backend("glue", uri=url, storage={"region": "us-east-1"}))
        assert asked == ["GetTable", "GetTableOptimizer"]
    assert found == warned * [
        "warning: the compaction optimizer of AWS Glue rewrites files of the table too, and may undo its layout (run "
        "`aws glue delete-table-optimizer --catalog-id 123456789012 --type compaction ...` for the table, or remove "
        "the layout of the table)"
    ]
