"""What the files for CI that `init` writes install is enough for the catalog of the project."""

import re
from pathlib import Path

import pytest
from support.environments import environment, run

MAKE_CATALOG = """
import pyarrow as pa
from pyiceberg.catalog import load_catalog
catalog = load_catalog("ice", type="sql", uri="sqlite:///catalog.db", warehouse="file://{folder}/w")
catalog.create_namespace("db")
catalog.create_table("db.t", pa.schema([("a", pa.int64())])).append(pa.table({{"a": [1, 2]}}))
"""
# Requests to a service that does not exist: the packages of its client must be there before the connection fails.
UNREACHABLE = {
    "hive": ["--format", "iceberg", "--uri", "thrift://127.0.0.1:9"],
    "glue": ["--format", "iceberg", "--catalog-type", "glue", "--uri", "http://127.0.0.1:9"],
    "glue of Delta": ["--format", "delta", "--catalog-type", "glue", "--uri", "http://127.0.0.1:9"],
    "rest": ["--format", "iceberg", "--uri", "http://127.0.0.1:9"],
    "postgres": ["--format", "iceberg", "--uri", "postgresql+psycopg2://127.0.0.1:9/c", "--warehouse", "w"],
    "mysql": ["--format", "iceberg", "--uri", "mysql+pymysql://127.0.0.1:9/c", "--warehouse", "w"],
}


def installed(folder: Path, wheel: Path, project: Path) -> Path:
    """The commands of a new environment with what the workflow of the project's pull requests installs."""
    workflow = (project / ".github/workflows/zlayout-pull-request.yml").read_text()
    (extras,) = set(re.findall(r"'zlayout(\[[a-z,]+\])'", workflow))
    return environment(folder, f"zlayout{extras} @ {wheel.as_uri()}").parent


def test_a_project_with_an_sql_catalog(wheel: Path, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    init = ["init", "--format", "iceberg", "--uri", "sqlite:///catalog.db", "--warehouse", "w", "--table", "ice.db.t"]
    from zlayout.cli.main import run as zlayout

    assert zlayout([*init[:1], str(project), *init[1:], "--offline"]) == 0
    commands = installed(tmp_path / "env", wheel, project)
    run([commands / "python", "-c", MAKE_CATALOG.format(folder=project)], project)
    assert "ice.db.t" in run([commands / "zlayout", "plan", "-v", "--timeout", "600"], project)
    empty = tmp_path / "empty"
    empty.mkdir()
    uri = f"sqlite:///{project}/catalog.db"
    flags = ["--format", "iceberg", "--uri", uri, "--warehouse", str(project / "w"), "--table", "ice.*.*"]
    shown = run([commands / "zlayout", "init", *flags, "--no-input", "--timeout", "600"], empty)
    assert "wrote layouts/db_t.yaml" in shown
    assert shown.endswith("No changes. 1 table laid out as declared.\n")


@pytest.mark.long
@pytest.mark.parametrize("kind", UNREACHABLE)
def test_the_client_of_every_catalog_is_installed(kind: str, wheel: Path, tmp_path: Path) -> None:
    from zlayout.cli.main import run as zlayout

    project = tmp_path / "project"
    assert zlayout(["init", str(project), *UNREACHABLE[kind], "--table", "cat.db.t", "--offline"]) == 0
    commands = installed(tmp_path / "env", wheel, project)
    code = "import sys; from zlayout.cli.main import run; sys.exit(0 if run(['plan', '--timeout', '20']) else 1)"
    with_keys = {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_REGION": "us-east-1"}
    planned = run([commands / "python", "-c", code], project, **with_keys)
    assert "Plan: 1 failed." in planned  # the service does not answer
    assert "pip install" not in planned
    assert "package" not in planned
