"""apply as a process on real Spark: the nightly workflow's own step, its events, and signals while it rewrites."""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import yaml
from deltalake import DeltaTable, write_deltalake

from zlayout.cli.main import run

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
PROJECT = "version: 1\ncatalogs:\n  lake: {format: delta, warehouse: tables}\n"
LAYOUT = "version: 1\ntable: lake.db.t\nzorder: {columns: [a, b]}\nfiles: {target_size: 200KiB}\n"


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table of 8 files and 1.2 million rows: enough for a rewrite of some seconds."""
    monkeypatch.chdir(tmp_path)
    Path("layouts").mkdir()
    Path("zlayout.yaml").write_text(PROJECT)
    Path("layouts/t.yaml").write_text(LAYOUT)
    random = np.random.default_rng(1)
    for _ in range(8):
        columns = {name: random.integers(0, 10**9, 150_000) for name in ("a", "b", "c")}
        write_deltalake("tables/db/t", pa.table(columns), mode="append")
    return tmp_path / "tables/db/t"


@pytest.fixture
def applying(table: Path) -> Iterator[subprocess.Popen[str]]:
    """`zlayout apply` that writes events."""
    command = [str(BIN / "zlayout"), "apply", "--auto-approve", "--output", "json"]
    process = subprocess.Popen(
        command, cwd=table.parents[2], env={**os.environ, "TMPDIR": str(table.parents[2])},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    yield process
    process.kill()
    process.communicate()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_abandons_a_rewrite_at_once_and_commits_nothing(
    applying: subprocess.Popen[str], table: Path, number: int, code: int
) -> None:
    assert applying.stdout is not None
    reported = []
    for line in applying.stdout:
        reported.append(json.loads(line))
        if reported[-1].get("stage") == "rewriting":
            break
    time.sleep(2)
    os.killpg(applying.pid, number)  # as terminals and CI do: the JVM receives it too
    out, err = applying.communicate(timeout=60)
    assert applying.returncode == code, err
    assert "Traceback" not in err
    assert "nothing was committed. To continue, plan and apply again." in err
    assert not list(table.parents[2].glob("zlayout-spark-*.log"))
    reported += [json.loads(line) for line in out.splitlines()]
    assert "starting Spark: Java" in {e.get("stage") for e in reported}
    assert [e["type"] for e in reported if e["type"] != "apply_progress"] == [
        "version",
        "planned_change",
        "apply_start",
        "apply_errored",
        "change_summary",
    ]
    assert reported[-1] == {"type": "change_summary", "tables": 1, "outcomes": {"interrupted": 1}, "exit_code": code}
    assert DeltaTable(table).version() == 7


def test_the_history_keeps_the_commits_of_a_run_whose_terminal_is_closed(tmp_path: Path) -> None:
    """The kernel sends SIGHUP to the run, whose output then fails: nobody reads a terminal that is gone."""
    (tmp_path / "layouts").mkdir()
    (tmp_path / "zlayout.yaml").write_text(PROJECT + "history: {}\n")
    names = [f"t{n}" for n in range(6)]
    for name in names:
        (tmp_path / f"layouts/{name}.yaml").write_text(LAYOUT.replace("lake.db.t", f"lake.db.{name}"))
        for _ in range(2):
            rows = pa.table({"a": range(100), "b": range(100)})
            write_deltalake(tmp_path / "tables/db" / name, rows, mode="append")

    def committed() -> list[str]:
        return [name for name in names if DeltaTable(tmp_path / "tables/db" / name).version() > 1]

    child, terminal = pty.fork()
    if child == 0:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup would leave it ignored
        os.chdir(tmp_path)
        os.environ["TMPDIR"] = str(tmp_path)
        os.execv(BIN / "zlayout", ["zlayout", "apply", "--auto-approve", "--parallelism", "1"])
    while not committed():
        if select.select([terminal], [], [], 0.1)[0]:
            os.read(terminal, 1 << 16)  # raises OSError if the run has ended
    os.close(terminal)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) != 0
    assert 0 < len(committed()) < len(names)
    kept = []
    for name in names:
        command = [BIN / "zlayout", "history", f"lake.db.{name}", "--json"]
        printed = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, check=False)
        records = json.loads(printed.stdout)["records"] if printed.returncode == 0 else []
        kept += [name for record in records if record["command"] == "apply" and record["files"] == 1]
    assert kept == committed()


@pytest.mark.long
def test_the_workflow_applies_the_plan_of_a_merge(table: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    workflow = yaml.safe_load((ROOT / "zlayout/session/templates/zlayout-apply.yml").read_text())
    (step,) = (s for s in workflow["jobs"]["apply"]["steps"] if s.get("name") == "Apply")
    temp = tmp_path_factory.mktemp("runner")
    (temp / "merged").mkdir()
    assert run(["plan", "--out", str(temp / "merged/plan.json")]) == 0
    environ = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "CI": "true", "RUNNER_TEMP": str(temp)}
    environ["GITHUB_OUTPUT"] = str(temp / "outputs")
    command = ["bash", "-e", "-c", step["run"]]
    done = subprocess.run(command, env=environ, cwd=table.parents[2], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "as declared; 1 commit, 8 -> " in done.stdout
    (page,) = temp.glob("reports-*/applied.html")
    assert "Files after, measured" in page.read_text()
    assert run(["drift"]) == 0
