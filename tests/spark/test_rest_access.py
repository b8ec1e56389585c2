"""REST catalogs that ask for OAuth2 tokens and vend S3 credentials: pyiceberg and Spark use one definition for both.

The catalog is Iceberg's own. Proxies in front of it and of the S3 store give and check the tokens and credentials.
"""

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from spark.conftest import BUCKET
from support.builders import make_layout, make_spec
from support.fake_rest import canary
from support.rest_proxy import CLIENT, PREFIX, SECRET, Vending, rest_proxy
from support.runs import apply_planned
from support.s3_proxy import s3_proxy
from support.unreferenced import unreferenced

from zlayout.errors import TableError
from zlayout.formats.iceberg.backend import IcebergBackend
from zlayout.formats.iceberg.write.staging import Staged
from zlayout.planner.work import PlanOptions
from zlayout.session.plan import PlannedTable, plan_table
from zlayout.spark.session import SparkRuntime
from zlayout.spec.client_options import spark_catalog_conf
from zlayout.spec.load import load_project
from zlayout.spec.model import CatalogConfig, TableName

VARIABLE = "ZLAYOUT_TEST_CREDENTIAL"
ROWS = 4000
SECONDS = 3  # the life of tokens and credentials
OPTIONS = PlanOptions()


@dataclass(frozen=True)
class Access:
    """A table of four files in the catalog."""

    catalog: CatalogConfig
    backend: IcebergBackend
    table: TableName
    vending: Vending
    spark: SparkSession

    @property
    def planned(self) -> PlannedTable:
        spec = make_spec(make_layout("a", "b", target_size=16 * 1024), self.table)
        return plan_table(spec, self.backend, OPTIONS)

    def ids(self) -> list[int]:
        return sorted(row.id for row in self.spark.table(str(self.table)).select("id").collect())


@contextmanager
def access_to(
    rest: str, s3: str, runtime: SparkRuntime, root: Path, patch: pytest.MonkeyPatch, name: str, **vending: Any
) -> Iterator[Access]:
    """Yield a table in a catalog `name` of the session, whose definition is in YAML with a variable."""
    patch.setenv(VARIABLE, f"{CLIENT}:{SECRET}")
    with s3_proxy(int(s3.rpartition(":")[2])) as (store, endpoint):
        vended = Vending(endpoint, **vending)
        store.denied = vended.denied
        with rest_proxy(int(rest.rpartition(":")[2]), vended) as uri:
            entry = {
                "format": "iceberg",
                "type": "rest",
                "uri": uri,
                "storage": {"region": "us-east-1"},
                "properties": {"credential": f"${{{VARIABLE}}}", "oauth2-server-uri": f"{uri}/v1/oauth/tokens"},
            }
            (root / "zlayout.yaml").write_text(json.dumps({"version": 1, "catalogs": {name: entry}}))
            catalog = load_project(root, os.environ).catalogs[name]
            spark = runtime.session
            for key, value in spark_catalog_conf(catalog).items():
                spark.conf.set(key, value)
            table = TableName(name, (f"of_{name}",), "t")
            spark.sql(f"CREATE NAMESPACE {name}.of_{name}")
            yield Access(catalog, IcebergBackend(catalog, runtime), table, vended, spark)


def fill(access: Access) -> None:
    rows = access.spark.range(0, ROWS, 1, 4).selectExpr("id", "hash(id) AS a", "hash(id, 1) AS b")
    location = f"s3://{BUCKET}/access/{access.table.catalog}"
    rows.writeTo(str(access.table)).using("iceberg").tableProperty("location", location).create()
    assert access.backend.observe(access.table, ()).location == location


def expire_during_the_rewrite(access: Access, patch: pytest.MonkeyPatch) -> list[float]:
    """Let the tokens and credentials that were given before the new files are written end at this moment."""
    write, expired = Staged.write, []

    def write_later(*arguments: Any) -> None:
        expired.append(time.time())
        time.sleep(SECONDS + 1)  # in this time, clients know that they need new ones
        access.vending.expire(expired[0])
        write(*arguments)

    patch.setattr(Staged, "write", write_later)
    return expired


def test_tokens_and_credentials_that_end_during_a_rewrite_are_renewed(
    rest: str, s3: str, runtime: SparkRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with access_to(rest, s3, runtime, tmp_path, monkeypatch, "vending", seconds=SECONDS) as access:
        fill(access)
        planned = access.planned
        assert planned.plan.status == "changes"
        asked = len(access.vending.asked)
        with monkeypatch.context() as patched:
            expired = expire_during_the_rewrite(access, patched)
            applied = apply_planned(planned, access.backend, OPTIONS)
        assert expired
        assert applied.error is None, applied.error
        assert [commit.kind for commit in applied.commits] == ["rewrite"]
        during = access.vending.asked[asked:]
        assert f"GET /v1/{PREFIX}/namespaces/of_vending/tables/t/credentials" in during
        assert access.planned.plan.status == "unchanged"
        assert unreferenced(access.catalog, access.table) == []
        assert access.ids() == list(range(ROWS))


def test_a_wrong_credential_and_remote_signing_are_named(
    rest: str, s3: str, runtime: SparkRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with access_to(rest, s3, runtime, tmp_path, monkeypatch, "signing") as access:
        fill(access)
        access.vending.signs = True
        with pytest.raises(TableError, match=r"ZL138 .*s3\.endpoint"):  # the credentials of this machine stay here
            access.backend.observe(access.table, ("a",))
        found = load_project(tmp_path, os.environ).catalogs["signing"]
        storage = {**found.options["storage"], "endpoint": access.vending.store}
        declared = IcebergBackend(replace(found, options={**found.options, "storage": storage}), runtime)
        with pytest.raises(TableError, match=r"ZL128 .*signing\.of_signing\.t .*remote signing") as signed:
            declared.observe(access.table, ("a",))
        assert SECRET not in str(signed.value)
        monkeypatch.setenv(VARIABLE, f"{CLIENT}:another-secret")
        wrong = IcebergBackend(load_project(tmp_path, os.environ).catalogs["signing"], runtime)
        with pytest.raises(TableError, match=r"ZL121 .*the credentials are (missing or not accepted|wrong)") as refused:
            wrong.observe(access.table, ("a",))
        assert "another-secret" not in str(refused.value)


def test_a_server_that_deceives_spark_alone_gets_no_file_and_no_credentials(
    rest: str, s3: str, runtime: SparkRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Iceberg's Java library obeys what a table says. zlayout checks it before the first file is read."""
    with access_to(rest, s3, runtime, tmp_path, monkeypatch, "deceiving") as access, canary() as foreign:
        fill(access)
        planned = access.planned
        for code, forged in (
            ("ZL138", {"s3.endpoint": foreign.url, "client.region": "us-east-1", "s3.path-style-access": "true"}),
            (
                "ZL137",
                access.vending.key() | {"s3.endpoint": access.vending.store, "client.factory": "java.lang.String"},
            ),
            ("ZL137", {"client.refresh-credentials-endpoint": f"{foreign.url}/credentials"}),
        ):
            access.vending.forged = forged
            applied = apply_planned(planned, access.backend, OPTIONS)
            assert applied.commits == []
            assert [diagnostic.code for diagnostic in applied.error.diagnostics] == [code]
            state = access.backend.observe(access.table, ())
            with pytest.raises(TableError, match=code):
                access.backend.sample_source(access.table, state, 0)
        assert foreign.requests == []
        access.vending.forged = {}
        assert apply_planned(planned, access.backend, OPTIONS).error is None
        assert access.ids() == list(range(ROWS))


@pytest.mark.long
def test_credentials_that_nothing_renews_fail_before_the_commit(
    rest: str, s3: str, runtime: SparkRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The commit would have new credentials, but the writers have those of the table as it was loaded."""
    with access_to(rest, s3, runtime, tmp_path, monkeypatch, "ending", seconds=SECONDS, renews=False) as access:
        fill(access)
        with monkeypatch.context() as patched:
            expire_during_the_rewrite(access, patched)
            applied = apply_planned(access.planned, access.backend, OPTIONS)
        (diagnostic,) = applied.error.diagnostics
        assert (diagnostic.code, applied.commits) == ("ZL314", [])
        assert "the credentials expired" in diagnostic.hint
        assert apply_planned(access.planned, access.backend, OPTIONS).error is None
        assert access.planned.plan.status == "unchanged"
        assert access.ids() == list(range(ROWS))
