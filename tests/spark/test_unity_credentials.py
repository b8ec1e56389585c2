"""Tables of Unity Catalog on S3 that only the credentials of the catalog can access.

A stub of Unity Catalog checks tokens and issues credentials that expire. A proxy in front of the S3 store accepts only
these. Spark uses them through the package unitycatalog-hadoop, which comes with Delta.
"""

import json
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from spark.conftest import BUCKET
from support.builders import make_layout, make_spec
from support.fake_rest import canary
from support.rest_proxy import CLIENT, SECRET, Vending
from support.runs import apply_planned
from support.s3_proxy import s3_proxy
from support.unity import UnityServer, unity_server

from zlayout.errors import TableError
from zlayout.formats.delta import backend as delta_backend
from zlayout.formats.delta.backend import DeltaBackend
from zlayout.formats.delta.names import PRINCIPAL, TOKENS
from zlayout.formats.delta.write.jvm import DeltaJvm
from zlayout.planner.work import PlanOptions
from zlayout.session.plan import PlannedTable, plan_table
from zlayout.session.sampling import sampled
from zlayout.spark.session import SparkRuntime, WorkerRuntime
from zlayout.spec.load import load_project
from zlayout.spec.model import CatalogConfig, Project, SparkConfig, TableName

ROWS = 4000
SECONDS = 2  # the life of credentials
OPTIONS = PlanOptions()
STORE = {"aws_region": "us-east-1", "aws_allow_http": "true"}


@dataclass(frozen=True)
class Access:
    """Tables in a catalog of type unity."""

    catalog: CatalogConfig
    backend: DeltaBackend
    unity: UnityServer
    vending: Vending
    store: str

    def add(self, name: str) -> TableName:
        """Write a table of four files with the credentials of the store itself."""
        location = f"s3://{BUCKET}/unity/{self.unity.url.rpartition(':')[2]}/{name}"
        for part in np.array_split(np.random.default_rng(0).permutation(ROWS), 4):
            rows = pa.table({"id": part, "a": part * 7 % ROWS, "b": part * 11 % ROWS})
            write_deltalake(location, rows, mode="append", storage_options=self.options())
        self.unity.add(f"main.sales.{name}", location.replace("s3://", "s3a://"))
        return TableName("uc", ("sales",), name)

    def options(self) -> dict[str, str]:
        return {"aws_endpoint_url": self.store, **STORE}

    def planned(self, table: TableName, **layout: Any) -> PlannedTable:
        spec = make_spec(make_layout("a", "b", target_size=16 * 1024, **layout), table)
        return plan_table(spec, self.backend, OPTIONS)

    def ids(self, table: TableName) -> list[int]:
        location = self.unity.tables[f"main.sales.{table.name}"]["storage_location"].replace("s3a://", "s3://")
        rows = DeltaTable(location, storage_options=self.options()).to_pyarrow_table()
        return sorted(rows["id"].to_pylist())


@contextmanager
def access_to(
    s3: str, runtime: SparkRuntime, root: Path, patch: pytest.MonkeyPatch, **vending: Any
) -> Iterator[Access]:
    for variable in (*TOKENS, *PRINCIPAL):
        patch.delenv(variable, raising=False)
    with s3_proxy(int(s3.rpartition(":")[2])) as (store, endpoint):
        vended = Vending(endpoint, **vending)
        store.denied = vended.denied
        with unity_server("pat-of-the-tests", vended) as unity:
            entry = {
                "format": "delta",
                "type": "unity",
                "uri": unity.url,
                "warehouse": "main",
                "vended_credentials": True,
                "storage": {"region": "us-east-1", "endpoint": endpoint},
            }
            (root / "zlayout.yaml").write_text(json.dumps({"version": 1, "catalogs": {"uc": entry}}))
            catalog = load_project(root, os.environ).catalogs["uc"]
            yield Access(catalog, DeltaBackend(catalog, runtime), unity, vended, s3)


@pytest.fixture
def access(s3: str, runtime: SparkRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Access]:
    with access_to(s3, runtime, tmp_path, monkeypatch) as found:
        monkeypatch.setenv("DATABRICKS_TOKEN", "pat-of-the-tests")
        yield found


@pytest.mark.parametrize("engine_name", ["zlayout", "native"])
def test_a_table_is_planned_sampled_and_rewritten(access: Access, engine_name: str) -> None:
    table = access.add("orders")
    curve = "zorder" if engine_name == "native" else "kd"
    planned = sampled(access.planned(table, engine=engine_name, curve=curve), access.backend, 1 << 20, planning=True)
    assert planned.plan.status == "changes"
    assert access.unity.requests.count("READ") == 1  # they are valid for a while
    assert "READ_WRITE" not in access.unity.requests
    applied = apply_planned(planned, access.backend, OPTIONS)
    assert applied.error is None, applied.error
    assert applied.commits
    assert access.unity.requests.count("READ_WRITE") == 1
    assert access.planned(table, engine=engine_name, curve=curve).plan.status == "unchanged"
    assert access.ids(table) == list(range(ROWS))


def test_credentials_that_expire_during_a_rewrite_are_renewed(
    s3: str, runtime: SparkRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client of Unity Catalog in the JVM logs in as the service principal, and gets new ones."""
    with access_to(s3, runtime, tmp_path, monkeypatch, seconds=SECONDS) as access:
        for variable, value in zip(PRINCIPAL, (CLIENT, SECRET), strict=True):
            monkeypatch.setenv(variable, value)
        table = access.add("orders")
        planned = access.planned(table)
        asked = len(access.unity.requests)
        write, expired = DeltaJvm.write_files, []

        def write_later(*arguments: Any) -> Any:
            expired.append(time.time())
            time.sleep(SECONDS + 1)  # in this time, clients know that they need new ones
            access.vending.expire(expired[0])
            return write(*arguments)

        with monkeypatch.context() as patched:
            patched.setattr(DeltaJvm, "write_files", write_later)
            applied = apply_planned(planned, access.backend, OPTIONS)
        assert expired
        assert applied.error is None, applied.error
        during = access.unity.requests[asked:]
        assert during.count("READ_WRITE") > 1
        assert "/oidc/v1/token" in during
        assert access.planned(table).plan.status == "unchanged"


@pytest.mark.long
def test_two_tables_of_one_bucket_at_the_same_time_and_a_rollback(access: Access) -> None:
    """Each table has credentials of its own, and other tables of the session have those of the machine again."""
    tables = [access.add(name) for name in ("one", "two")]
    planned = [access.planned(table) for table in tables]
    project = Project(Path(), {"uc": access.catalog}, SparkConfig(None, {}), ())
    done = []

    def carry_out(planned: PlannedTable, backend: DeltaBackend) -> None:
        done.append(apply_planned(planned, backend, OPTIONS))

    threads, starting = [], threading.Lock()
    for number, one in enumerate(planned):
        worker = WorkerRuntime(project, access.backend.runtime, f"unity-{number}", starting)
        threads.append(threading.Thread(target=carry_out, args=(one, DeltaBackend(access.catalog, worker))))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [applied.error for applied in done] == [None, None]
    assert [access.planned(table).plan.status for table in tables] == ["unchanged"] * 2
    undo = access.backend.undo(tables[0], None)
    access.backend.roll_back(undo, "r", {}, lambda _: None)
    assert access.planned(tables[0]).plan.status == "changes"
    assert [access.ids(table) for table in tables] == [list(range(ROWS))] * 2
    conf = dict(access.backend.runtime.session.conf.getAll)
    assert not [key for key in conf if "unitycatalog" in key or key.startswith("fs.s3a.")]


def test_rows_are_sampled_in_spark(access: Access) -> None:
    table = access.add("orders")
    source = access.backend.sample_source(table, access.backend.observe(table, ("a",)), 0)
    assert source.frame.count() == ROWS
    assert len(source.paths()) == 4


def test_what_is_not_granted_or_not_possible_is_an_error_before_any_write(
    access: Access, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = access.add("orders")
    planned = access.planned(table)
    with monkeypatch.context() as patched:
        patched.setattr(delta_backend, "has_class", lambda *_: False)
        applied = apply_planned(planned, access.backend, OPTIONS)
        assert str(applied.error).startswith("ZL261 the session lacks unitycatalog-hadoop 0.6")
    access.unity.grants = ("READ",)
    unity = DeltaBackend(access.catalog, access.backend.runtime)  # without what was issued above
    applied = apply_planned(planned, unity, OPTIONS)
    assert str(applied.error).partition("zlayout.yaml:1:29: ")[2] == (
        "ZL141 no credentials for uc.sales.orders from catalog uc: access is denied (grant EXTERNAL "
        "USE SCHEMA and MODIFY, or remove vended_credentials of catalogs.uc)"
    )
    assert applied.commits == []
    access.unity.grants = ()
    with pytest.raises(TableError, match=r"ZL141 .* \(grant EXTERNAL USE SCHEMA and SELECT, or remove"):
        DeltaBackend(access.catalog, access.backend.runtime).observe(table, ("a",))


def test_a_redirect_gets_neither_a_login_nor_credentials(
    s3: str, runtime: SparkRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client of Unity Catalog in the JVM follows no redirect, as the one in Python."""
    with access_to(s3, runtime, tmp_path, monkeypatch, seconds=SECONDS) as access, canary() as foreign:
        for variable, value in zip(PRINCIPAL, (CLIENT, SECRET), strict=True):
            monkeypatch.setenv(variable, value)
        table = access.add("orders")
        planned = access.planned(table)
        write = DeltaJvm.write_files

        def write_later(*arguments: Any) -> Any:
            access.unity.redirect = foreign.url
            access.vending.expire(time.time())
            return write(*arguments)

        with monkeypatch.context() as patched:
            patched.setattr(DeltaJvm, "write_files", write_later)
            applied = apply_planned(planned, access.backend, OPTIONS)
        assert "HTTP status: 307" in str(applied.error)
        assert applied.commits == []
        assert SECRET not in str(applied.error)
        with pytest.raises(TableError, match=r"ZL133 .* HTTP status 307"):
            DeltaBackend(access.catalog, runtime).observe(table, ("a",))
        assert foreign.requests == []
