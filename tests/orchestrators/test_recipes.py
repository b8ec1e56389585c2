"""The recipes for Airflow and Dagster, run by the real packages in environments of their own."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

import zlayout

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "examples" / "orchestrators"
PACKAGES = {"dagster": "dagster", "airflow": "apache-airflow>=3"}
DRIVERS = {
    "dagster": "import dagster_job; assert dagster_job.layouts.execute_in_process().success",
    "airflow": (
        "import airflow_dag; from airflow.sdk import DAG\n"
        "dag = airflow_dag.layouts()\n"
        "run = dag.test()\n"
        "assert str(run.state) in ('success', 'DagRunState.SUCCESS'), run.state"
    ),
}

pytestmark = [pytest.mark.long, pytest.mark.spark]


def test_the_list_of_recipes_is_whole() -> None:
    assert {path.stem.partition("_")[0] for path in RECIPES.glob("*.py")} == set(PACKAGES)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with a Delta table of four files that are not laid out."""
    (tmp_path / "layouts").mkdir()
    (tmp_path / "zlayout.yaml").write_text("version: 1\ncatalogs:\n  lake: {format: delta, warehouse: ./tables}\n")
    (tmp_path / "layouts/t.yaml").write_text("version: 1\ntable: lake.db.t\nzorder: {columns: [a, b]}\n")
    random = np.random.default_rng(1)
    for _ in range(4):
        columns = {name: random.integers(0, 10**9, 5_000) for name in ("a", "b")}
        write_deltalake(str(tmp_path / "tables/db/t"), pa.table(columns), mode="append")
    return tmp_path


@pytest.mark.parametrize("name", sorted(PACKAGES))
def test_a_recipe_plans_and_applies(name: str, project: Path, tmp_path: Path) -> None:
    python = _environment(tmp_path / "venv", PACKAGES[name])
    environ = {
        **{key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PYSPARK", "AIRFLOW"))},
        "PYTHONPATH": str(RECIPES),
        "ZLAYOUT_PROJECT": str(project),
        "ZLAYOUT_PLANS": str(tmp_path),
        "AIRFLOW_HOME": str(tmp_path / "airflow"),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "false",
        "AIRFLOW__CORE__DAGS_FOLDER": str(RECIPES),
        "DAGSTER_HOME": str(tmp_path),
    }
    if name == "airflow":
        _run([str(python), "-m", "airflow", "db", "migrate"], environ, tmp_path)
    _run([str(python), "-c", DRIVERS[name]], environ, tmp_path)
    assert DeltaTable(project / "tables/db/t").version() > 3
    assert not zlayout.plan(zlayout.load_project(project)).has_changes
    assert list(tmp_path.glob("plan-*.json"))


def _environment(folder: Path, package: str) -> Path:
    """An environment with the package and zlayout, as `pip install` resolves them together."""
    _run([sys.executable, "-m", "venv", str(folder)], dict(os.environ), folder.parent)
    python = folder / "bin" / "python"
    uv = shutil.which("uv")
    install = [uv, "pip", "install", "--python", str(python)] if uv else [str(python), "-m", "pip", "install"]
    _run([*install, "--quiet", package, f"{ROOT}[spark]"], dict(os.environ), folder.parent)
    return python


def _run(command: list[str], environ: dict[str, str], folder: Path) -> None:
    done = subprocess.run(command, env=environ, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)[:200]}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
