"""A real dbt project: dbt parses it, `import --dbt` writes layouts, and they plan the tables that its models name."""

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyspark
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog import load_catalog
from pyiceberg.transforms import BucketTransform, DayTransform
from support.environments import environment, run
from support.projects import Cli

SHOP = Path(__file__).parents[1] / "fixtures" / "dbt"
# dbt-core 1.12 downloads a parser while it is installed.
PACKAGES = ("dbt-core>=1.11,<1.12", "dbt-spark>=1.11,<1.12", "dbt-duckdb>=1.11,<1.12")
PROJECT = """version: 1
catalogs:
  lake: {format: delta, warehouse: ./tables}
  ice: {format: iceberg, type: sql, uri: "sqlite:///ice.db", warehouse: ./ice}
"""


@pytest.fixture(scope="module")
def dbt(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command of an environment with dbt, in which the method `session` finds the Spark of the tests."""
    python = environment(tmp_path_factory.mktemp("dbt") / "env", *PACKAGES)
    (packages,) = (python.parents[1] / "lib").glob("python3*/site-packages")
    (packages / "spark.pth").write_text(f"{packages}/spark\n")
    (packages / "spark").mkdir()
    for name in ("pyspark", "py4j"):
        (packages / "spark" / name).symlink_to(Path(pyspark.__file__).parents[1] / name)
    return python.parent / "dbt"


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The dbt project of the recorded manifest, inside a project of zlayout."""
    shutil.copytree(SHOP, tmp_path / "shop", ignore=shutil.ignore_patterns("manifest.json"))
    (tmp_path / "zlayout.yaml").write_text(PROJECT)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "shop"


def parse(dbt: Path, shop: Path, target: str) -> str:
    """The manifest of the project for one adapter. Nothing is connected to."""
    home = {"HOME": str(shop), "DO_NOT_TRACK": "1", "DBT_SEND_ANONYMOUS_USAGE_STATS": "false"}
    run([dbt, "parse", "--profiles-dir", shop, "--target", target], shop, **home)
    return os.fspath(shop / "target" / "manifest.json")


def layouts() -> dict[str, str]:
    return {str(path): path.read_text() for path in Path("layouts").rglob("*.yaml")}


@pytest.fixture
def tables(shop: Path) -> Iterator[None]:
    """The tables of three models, as dbt creates them."""
    orders = pa.table({"order_id": [1], "region": ["eu"], "order_date": ["2026-01-01"], "customer_id": [2]})
    for _ in range(2):
        write_deltalake("tables/sales/orders", orders, mode="append", partition_by=["region"])
        write_deltalake("tables/sales/visits", pa.table({"visitor": [1], "day": ["2026-01-01"]}), mode="append")
    folder = shop.parent
    catalog = load_catalog("ice", type="sql", uri=f"sqlite:///{folder}/ice.db", warehouse=f"file://{folder}/ice")
    catalog.create_namespace("sales")
    table = catalog.create_table("sales.events", pa.schema([("id", pa.int64()), ("ts", pa.timestamp("us"))]))
    with table.update_spec() as spec:
        spec.add_field("ts", DayTransform())
        spec.add_field("id", BucketTransform(4))
    yield
    catalog.close()


@pytest.mark.usefixtures("tables")
def test_the_layouts_of_a_project_of_dbt_spark_fit_its_tables(dbt: Path, shop: Path, cli: Cli) -> None:
    cli("import", "--dbt", parse(dbt, shop, "spark"))
    of_this_version = layouts()
    for selection in ("path:layouts/marts/*", "tag:nightly"):
        planned = {table["table"]: table for table in json.loads(cli("plan", selection, "--json").out)["tables"]}
        assert planned.keys() == {"lake.sales.orders", "lake.sales.visits", "ice.sales.events"}
        kinds = {name: {action["kind"] for action in table["actions"]} for name, table in planned.items()}
        assert kinds["lake.sales.orders"] == kinds["lake.sales.visits"] == {"rewrite_group"}  # as it is partitioned
        assert planned["ice.sales.events"]["drift"] == []
    shutil.rmtree("layouts")
    cli("import", "--dbt", str(SHOP / "manifest.json"))
    assert layouts() == of_this_version  # the recorded manifest is that of this version


def test_a_project_of_dbt_duckdb_has_the_tables_in_databases_that_are_catalogs(dbt: Path, shop: Path, cli: Cli) -> None:
    events = shop / "models/marts/events.sql"
    events.write_text(events.read_text().replace("config(", "config(database='ice', "))
    printed = cli("import", "--dbt", parse(dbt, shop, "duckdb"))
    assert printed.out == "wrote layouts/marts/events.yaml\n"
    assert "expected one catalog of format delta for database 'shop', found none" in printed.err
    cli("validate")
