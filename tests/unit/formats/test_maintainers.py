"""Services that rewrite files of a table by themselves, as the answer of its catalog shows them."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from support.builders import make_layout, make_spec
from support.fake_rest import Responses, fake_rest
from support.servers import CREDENTIALS, serving
from support.unity import unity_server

from zlayout.errors import Location
from zlayout.formats.base import Backend
from zlayout.formats.iceberg.read import maintainers
from zlayout.formats.registry import backend_for
from zlayout.planner.work import PlanOptions
from zlayout.session.plan import plan_table
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import CatalogConfig, Project, SparkConfig, TableName

NAME = TableName("lake", ("sales",), "orders")
ROWS = pa.table({"a": pa.array(range(10), pa.int64())})


@pytest.fixture(autouse=True)
def _nothing_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintainers, "_refused", {})


def iceberg_table(tmp_path: Path) -> Table:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/c.db", warehouse=f"file://{tmp_path}/wh")
    catalog.create_namespace("sales")
    table = catalog.create_table("sales.orders", ROWS.schema)
    table.append(ROWS)
    return table


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
def glue_server(
    metadata: str, optimizer: tuple[int, dict[str, Any]], delay: float = 0
) -> Iterator[tuple[str, list[str]]]:
    """AWS Glue with one table, as its API reference defines the responses: its URL, and the requests.

    delay: Seconds before the response about the optimizer.
    """
    ended = threading.Event()
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
                ended.wait(delay)
            content = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            with suppress(BrokenPipeError):  # the client no longer waits
                self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    with serving(ThreadingHTTPServer(("127.0.0.1", 0), Handler)) as server:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
        ended.set()


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
    with glue_server(iceberg_table(tmp_path).metadata_location, optimizer) as (url, asked):
        found = warnings(backend("glue", uri=url, storage={"region": "us-east-1"}))
        assert asked == ["GetTable", "GetTableOptimizer"]
    assert found == warned * [
        "warning: the compaction optimizer of AWS Glue rewrites files of the table too, and may undo its layout (run "
        "`aws glue delete-table-optimizer --catalog-id 123456789012 --type compaction ...` for the table, or remove "
        "the layout of the table)"
    ]


@pytest.mark.parametrize(
    "refusal",
    [
        (500, {"__type": "InternalError", "Message": "not implemented"}),  # moto and LocalStack
        (400, {"__type": "AccessDeniedException", "Message": "no glue:GetTableOptimizer"}),
        (400, {"__type": "ThrottlingException", "Message": "later"}),
    ],
    ids=["unsupported", "denied", "throttled"],
)
def test_a_glue_that_refuses_to_state_optimizers_is_asked_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: tuple[int, dict[str, Any]]
) -> None:
    for variable, value in CREDENTIALS.items():
        monkeypatch.setenv(variable, value)
    with glue_server(iceberg_table(tmp_path).metadata_location, refusal) as (url, asked):
        found = backend("glue", uri=url, storage={"region": "us-east-1"})
        assert [warnings(found), warnings(found)] == [[], []]
        assert asked == ["GetTable", "GetTableOptimizer", "GetTable"]


def test_no_optimizer_of_one_table_is_no_refusal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable, value in CREDENTIALS.items():
        monkeypatch.setenv(variable, value)
    none = (400, {"__type": "EntityNotFoundException", "Message": "no optimizer"})
    with glue_server(iceberg_table(tmp_path).metadata_location, none) as (url, asked):
        found = backend("glue", uri=url, storage={"region": "us-east-1"})
        assert [warnings(found), warnings(found)] == [[], []]
        assert asked == ["GetTable", "GetTableOptimizer"] * 2


def test_a_glue_that_does_not_answer_about_optimizers_is_waited_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable, value in CREDENTIALS.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr(maintainers, "SECONDS", 0.3)
    answer = (200, {"TableOptimizer": {"type": "compaction", "configuration": {"enabled": True}}})
    with glue_server(iceberg_table(tmp_path).metadata_location, answer, delay=20) as (url, asked):
        found = backend("glue", uri=url, storage={"region": "us-east-1"})
        began = time.monotonic()
        assert [warnings(found), warnings(found)] == [[], []]
        assert time.monotonic() - began < 15
        assert asked == ["GetTable", "GetTableOptimizer", "GetTable"]


POLICIES = "GET /polaris/v1/{prefix}/applicable-policies"


def policy(content: str, type_: str = "system.data-compaction") -> dict[str, Any]:
    """A policy as Polaris states it (spec/polaris-catalog-apis/policy-apis.yaml)."""
    return {
        "policy-type": type_,
        "inheritable": True,
        "name": "nightly",
        "description": "",
        "content": content,
        "version": 0,
        "inherited": True,
        "namespace": ["sales"],
    }


@pytest.mark.parametrize(
    ("endpoints", "policies", "warned", "asked"),
    [
        ([POLICIES], [policy('{"version": "2025-02-03", "enable": true}')], True, 2),
        ([POLICIES], [policy('{"version": "2025-02-03", "enable": false}')], False, 2),
        ([POLICIES], [policy('{"enable": true}', "system.snapshot-expiry")], False, 2),
        ([POLICIES], [policy("no JSON")], False, 2),
        ([POLICIES], [], False, 2),
        ([POLICIES], None, False, 1),
        ([], [policy('{"enable": true}')], False, 0),
    ],
    ids=["on", "off", "another type", "damaged", "none", "refused", "another server"],
)
def test_the_policies_of_polaris(
    tmp_path: Path, endpoints: list[str], policies: list[dict[str, Any]] | None, warned: bool, asked: int
) -> None:
    table = iceberg_table(tmp_path)
    metadata = json.loads(table.metadata.model_dump_json())
    prefix = {"prefix": "lake"}
    responses = Responses(metadata, table.metadata_location, overrides=prefix, endpoints=endpoints, policies=policies)
    with fake_rest(responses) as url:
        found = backend("rest", uri=url, warehouse="lake")
        spec = make_spec(make_layout("a"), TableName("lake", ("db",), "t"))
        plans = [plan_table(spec, found, PlanOptions()).plan for _ in range(2)]
    assert responses.requests.count("GET /polaris/v1/lake/applicable-policies") == asked
    assert responses.queries.count("namespace=db&target-name=t&policyType=system.data-compaction") == asked
    for plan in plans:
        assert [d.message for d in plan.diagnostics if d.code == "ZL433"] == warned * [
            "a service that follows the policy 'nightly' (system.data-compaction) of Apache Polaris rewrites files of "
            "the table too, and may undo its layout"
        ]


@pytest.mark.parametrize(
    ("uri", "scope", "warned"),
    [
        ("https://org-account.snowflakecomputing.com/polaris/api/catalog", "session:role:ENGINEER", True),
        ("https://org-account.snowflakecomputing.com/polaris/api/catalog", "PRINCIPAL_ROLE:ALL", False),  # Open Catalog
        ("https://snowflakecomputing.com.example/polaris/api/catalog", "session:role:ENGINEER", False),
        ("https://polaris.example/api/catalog", "session:role:ENGINEER", False),
    ],
)
def test_tables_that_snowflake_manages(tmp_path: Path, uri: str, scope: str, warned: bool) -> None:
    table = iceberg_table(tmp_path)
    table.catalog.properties = {"uri": uri, "scope": scope}
    assert [(d.code, d.message, d.hint) for d in maintainers.maintainers(table)] == warned * [
        (
            "ZL433",
            "the compaction of Snowflake rewrites files of the table too, and may undo its layout",
            "run ALTER ICEBERG TABLE ... SET ENABLE_DATA_COMPACTION = FALSE in Snowflake, unless it is off already, or "
            "remove the layout of the table",
        )
    ]
