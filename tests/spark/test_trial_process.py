"""trial, publish and drop-trial as whole processes, each with a session of its own."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

BIN = Path(sys.executable).parent
PROJECT = """\
version: 1
catalogs:
  ice: {{format: iceberg, type: sql, uri: "sqlite:///{root}/ice.db", warehouse: "file://{root}/w"}}
history: {{}}
"""
LAYOUT = "version: 1\ntable: {table}\nzorder: {{columns: [a, b]}}\nfiles: {{target_size: 64KiB}}\n"
QUERIES = "SELECT * FROM {0} WHERE a BETWEEN 100 AND 200;\nSELECT * FROM {0} WHERE b = 7 AND year(day) = 1970;\n"


def zlayout(*arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run([str(BIN / "zlayout"), *arguments], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A table of eight files, each of which has all values, in a project in the working directory."""
    monkeypatch.chdir(tmp_path)
    name = "ice.db.t"
    for folder in ("layouts", "workloads"):
        Path(folder).mkdir()
    Path("zlayout.yaml").write_text(PROJECT.format(root=tmp_path))
    Path("layouts/t.yaml").write_text(LAYOUT.format(table=name))
    Path("workloads/q.sql").write_text(QUERIES.format(name))
    random = np.random.default_rng(1)
    columns = {"a": random.integers(0, 10_000, 40_000), "b": random.integers(0, 400, 40_000)}
    rows = pa.table({**columns, "day": pa.array(columns["b"], pa.int32()).cast(pa.date32())})
    catalog = load_catalog("ice", type="sql", uri=f"sqlite:///{tmp_path}/ice.db", warehouse=f"file://{tmp_path}/w")
    catalog.create_namespace("db")
    made = catalog.create_table("db.t", rows.schema)
    for part in range(8):
        made.append(rows.slice(part * 5000, 5000))
    catalog.close()
    return name


@pytest.mark.long
def test_a_trial_from_the_command_line(table: str) -> None:
    where = ["--branch", "try"]
    found = json.loads(zlayout("trial", table, *where, "--auto-approve", "--json").stdout)
    assert found["created"] is True
    assert found["mean"]["trial"]["files"] < found["mean"]["main"]["files"] == 8
    assert found["mean"]["trial"]["files"] == pytest.approx(found["mean"]["predicted"]["files"], rel=0.35)
    assert sorted(query["inverted"] for query in found["queries"]) == [False, True]
    shown = zlayout("trial", table, *where, "--auto-approve").stdout
    assert "mean, by weight" in shown
    assert "* a condition on a function was replayed" in shown
    published = json.loads(zlayout("publish", table, *where, "--auto-approve", "--json").stdout)
    assert (published["outcome"], published["branch_version"]) == ("published", found["trial_version"])
    assert "1 table laid out as declared" in zlayout("plan", table).stdout
    records = json.loads(zlayout("history", table, "--json").stdout)["records"]
    assert found["run_id"] in [record["run_id"] for record in records]
    assert "Removed" in zlayout("drop-trial", table, *where, "--auto-approve").stdout
