"""Runs tests in an environment that has the client of Spark Connect alone, against real servers."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog import load_catalog
from support.connect import TOKEN, both_formats, connect_server
from support.environments import ROOT, environment, run

from zlayout.spark.versions import installed, numbers

SPARK = metadata.version("pyspark")
IS_REFUSED, HAS_ICEBERG = numbers(SPARK) < (4, 0), installed().iceberg is not None
EXTENSIONS, SPARK_CATALOG = "spark.sql.extensions", "spark.sql.catalog.spark_catalog"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of a client that is not newer than the server; a newer one for Spark 3.5."""
    not_newer = [] if IS_REFUSED else [f"pyspark-client<={SPARK}"]
    return environment(tmp_path_factory.mktemp("client") / "environment", f"{ROOT}[connect,sql]", "pytest", *not_newer)


def test_a_client_without_java(python: Path, tmp_path: Path, record_property: Callable[[str, str], None]) -> None:
    if IS_REFUSED:
        require_refused(python, tmp_path)
        record_property("answer", "ZL262")
    else:
        run_tests(python, tmp_path, "not long", 24)


@pytest.mark.skipif(IS_REFUSED, reason="Spark 3.5 is refused")
@pytest.mark.long
def test_all_other_cases_of_a_client_without_java(python: Path, tmp_path: Path) -> None:
    run_tests(python, tmp_path, "long", 237)


def run_tests(python: Path, tmp_path: Path, tests: str, passed: int) -> None:
    """Run the tests in the environment of a client, with a server of both formats. passed: how many must pass."""
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
            "CONNECT_COMMAND": json.dumps(server.command),
            "CONNECT_CATALOG": str(catalog),
            "CONNECT_EVENTS": str(events),
            "PATH": f"{python.parent}:/usr/bin:/bin",  # with `mount`
        }
        # the last test of the last file kills the server
        names = ("contract", "conflicts", "schedules", "kills", "client")
        files = [Path(__file__).with_name(f"connect_{name}.py") for name in names]
        settings = ("-c", ROOT / "pyproject.toml", "--noconftest", "-p", "no:cacheprovider", "--basetemp", "rows")
        chosen = ("-m", tests) if HAS_ICEBERG else ("-m", tests, "-k", "not iceberg")
        printed = run([python, "-m", "pytest", *settings, *chosen, *files], tmp_path, **given)
    ended = re.search(r"(\d+) passed(?:, (\d+) skipped)?", printed)
    assert ended, printed
    # without the permission to mount, those with small disks are skipped
    assert not HAS_ICEBERG or sum(int(number or 0) for number in ended.groups()) == passed, printed


class Project:
    """A project of engine native, whose table has three files."""

    def __init__(self, root: Path, table: str, catalogs: str) -> None:
        self.root = root
        (root / "layouts").mkdir(parents=True)
        (root / "zlayout.yaml").write_text(f"version: 1\ncatalogs: {{{catalogs}}}\n")
        layout = f"version: 1\ntable: {table}\nengine: native\nzorder: {{columns: [a, b], curve: zorder}}\n"
        (root / "layouts" / "t.yaml").write_text(layout)

    def applied(self, python: str | Path, remote: str, **environ: str) -> str:
        """Run `zlayout apply`, which must be refused, and return what it writes to stderr."""
        command = [python, "-m", "zlayout", "apply", "--auto-approve", "--remote", remote]
        env = {"PATH": "/nonexistent"} | environ
        done = subprocess.run(command, cwd=self.root, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 3, done.stderr
        assert "Traceback" not in done.stderr
        assert '"stacktrace"' not in done.stderr
        return done.stderr


def delta_project(folder: Path, rows: pa.Table) -> Project:
    lake = folder / "lake"
    for _ in range(3):
        write_deltalake(lake / "db" / "t", rows, mode="append")
    return Project(folder / "delta", "lake.db.t", f"lake: {{format: delta, type: path, warehouse: {lake}}}")


def require_refused(newer: Path, folder: Path) -> None:
    """Require that the client of Spark 3.5 is refused with every server, and a newer client with a server of 3.5."""
    project = delta_project(folder, pa.table({"a": range(100), "b": range(100)}))
    of_3_5 = project.applied(sys.executable, "sc://localhost:1", PYTHONPATH=os.environ["PYTHONPATH"])
    assert f"ZL262 the client of Spark Connect has version {SPARK}, which does not report conflicts" in of_3_5
    if installed().scala == "2.12":
        with connect_server(folder / "log", both_formats(folder)) as server:
            refused = project.applied(newer, server.url)
        assert re.search(r"ZL262 the client of Spark Connect has version 4\.\S+, and the server 3\.5\.", refused), (
            refused
        )
    assert DeltaTable(folder / "lake" / "db" / "t").version() == 2


@pytest.mark.skipif(IS_REFUSED, reason="Spark 3.5 is refused")
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
    delta = delta_project(tmp_path, rows)
    options = {"type": "sql", "uri": f"sqlite:///{tmp_path}/ice.db", "warehouse": f"file://{tmp_path}/iceberg"}
    catalog = load_catalog("ice", **options)
    catalog.create_namespace("n")
    ice = catalog.create_table("n.t", rows.schema)
    iceberg = Project(tmp_path / "ice", "ice.n.t", f"ice: {json.dumps({'format': 'iceberg', **options})}")
    for _ in range(3):
        ice.append(rows)
    conf = {key: value for key, value in both_formats(tmp_path).items() if key not in missing}
    with connect_server(tmp_path / "log", conf) as server:
        assert "ZL207 the Spark server lacks Delta's extension or its" in delta.applied(python, server.url)
        if EXTENSIONS in missing and HAS_ICEBERG:
            assert "ZL207 the Spark server lacks spark.sql.extensions=" in iceberg.applied(python, server.url)
    assert DeltaTable(tmp_path / "lake" / "db" / "t").version() == 2
    assert len(catalog.load_table("n.t").snapshots()) == 3
