"""Runs tests in an environment that has the client of Spark Connect alone, against real servers."""

import json
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import load_catalog
from support.connect import TOKEN, both_formats, connect_server
from support.environments import ROOT, environment, run

EXTENSIONS, SPARK_CATALOG = "spark.sql.extensions", "spark.sql.catalog.spark_catalog"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environment(tmp_path_factory.mktemp("client") / "environment", f"{ROOT}[connect,sql]", "pytest")


@pytest.mark.parametrize(
    ("tests", "passed"), [("not long", 14), pytest.param("long", 115, marks=pytest.mark.long)], ids=["daily", "others"]
)
def test_a_client_without_java(python: Path, tmp_path: Path, tests: str, passed: int) -> None:
    catalog, events = tmp_path / "catalog", tmp_path / "events"
    catalog.mkdir()
    events.mkdir()
    conf = {
        "spark.connect.progress.reportInterval": "50ms",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": str(events),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
    }
    with connect_server(tmp_path / "log", both_formats(catalog) | conf) as server:
        given = {
            "CONNECT_PLACE": server.place,
            "CONNECT_TOKEN": TOKEN,
            "CONNECT_PROCESS": str(server.process.pid),
            "CONNECT_CATALOG": str(catalog),
            "CONNECT_EVENTS": str(events),
            "PATH": str(python.parent),
        }
        # the last test of the second file kills the server
        files = [Path(__file__).with_name(f"connect_{name}.py") for name in ("schedules", "client")]
        settings = ("-c", ROOT / "pyproject.toml", "--noconftest", "-p", "no:cacheprovider")
        printed = run([python, "-m", "pytest", *settings, "--basetemp", "rows", "-m", tests, *files], tmp_path, **given)
    assert f"{passed} passed" in printed


class Project:
    """A project of engine native, whose table has three files."""

    def __init__(self, root: Path, table: str, catalogs: str) -> None:
        self.root = root
        (root / "layouts").mkdir(parents=True)
        (root / "zlayout.yaml").write_text(f"version: 1\ncatalogs: {{{catalogs}}}\n")
        layout = f"version: 1\ntable: {table}\nengine: native\nzorder: {{columns: [a, b], curve: zorder}}\n"
        (root / "layouts" / "t.yaml").write_text(layout)

    def applied(self, python: Path, remote: str) -> str:
        """Run `zlayout apply`, which must be refused, and return what it writes to stderr."""
        command = [python, "-m", "zlayout", "apply", "--auto-approve", "--remote", remote]
        done = subprocess.run(
            command, cwd=self.root, env={"PATH": "/nonexistent"}, capture_output=True, text=True, check=False
        )
        assert done.returncode == 3, done.stderr
        assert "Traceback" not in done.stderr
        assert '"stacktrace"' not in done.stderr
        return done.stderr


@pytest.mark.parametrize(
    "missing",
    [
        (EXTENSIONS, SPARK_CATALOG),
        pytest.param((EXTENSIONS,), marks=pytest.mark.long),
        pytest.param((SPARK_CATALOG,), marks=pytest.mark.long),
    ],
    ids=["both", "extensions", "catalog of delta"],
)
def test_a_server_that_lacks_a_setting_is_refused_before_any_write(
    python: Path, tmp_path: Path, missing: tuple[str, ...]
) -> None:
    rows = pa.table({"a": range(100), "b": range(100)})
    lake = tmp_path / "lake"
    delta = Project(tmp_path / "delta", "lake.db.t", f"lake: {{format: delta, type: path, warehouse: {lake}}}")
    options = {"type": "sql", "uri": f"sqlite:///{tmp_path}/ice.db", "warehouse": f"file://{tmp_path}/iceberg"}
    catalog = load_catalog("ice", **options)
    catalog.create_namespace("n")
    ice = catalog.create_table("n.t", rows.schema)
    iceberg = Project(tmp_path / "ice", "ice.n.t", f"ice: {json.dumps({'format': 'iceberg', **options})}")
    for _ in range(3):
        write_deltalake(lake / "db" / "t", rows, mode="append")
        ice.append(rows)
    conf = {key: value for key, value in both_formats(tmp_path).items() if key not in missing}
    with connect_server(tmp_path / "log", conf) as server:
        assert "ZL207 the Spark server lacks Delta's extension or its" in delta.applied(python, server.url)
        if EXTENSIONS in missing:
            assert "ZL207 the Spark server lacks spark.sql.extensions=" in iceberg.applied(python, server.url)
    assert DeltaTable(lake / "db" / "t").version() == 2
    assert len(catalog.load_table("n.t").snapshots()) == 3
