"""The GitHub workflows: what actionlint says of them, and their shell steps run here, GitHub replaced by a script."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from deltalake import write_deltalake

from zlayout.cli.main import run

FOLDER = Path(__file__).parents[2] / "examples/github-actions"
FILES = sorted(FOLDER.glob("*.yml"))
BIN = Path(sys.executable).parent
ACTIONLINT = shutil.which("actionlint", path=f"{BIN}:{os.environ['PATH']}")

# Stands in for GitHub's own program: keeps what is posted, and lists one older comment when told to.
GH = """\
#!/bin/sh
echo "$*" >> gh.log
case "$*" in *--paginate*) cat comments 2>/dev/null ;; esac
exit 0
"""


def steps(file: Path, job: str) -> list[dict[str, Any]]:
    workflow = yaml.safe_load(file.read_text())
    return [s for s in workflow["jobs"][job]["steps"] if "run" in s and s["name"] != "Install"]


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checked-out project with one table that is not laid out; `gh` and GitHub's files beside it."""
    monkeypatch.chdir(tmp_path)
    assert run(["init", "--table", "lake.db.t", "--columns", "a,b", "--warehouse", "tables"]) == 0
    for _ in range(2):
        rows = pa.table({"a": list(range(100)), "b": list(range(100))})
        write_deltalake("tables/db/t", rows, mode="append")
    (tmp_path / "gh").write_text(GH)
    (tmp_path / "gh").chmod(0o755)
    return tmp_path


def shell(step: dict[str, Any], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run one step as GitHub does."""
    environ = {
        "PATH": f"{folder}:{BIN}:{os.environ['PATH']}",
        "HOME": os.environ.get("HOME", "/"),
        "CI": "true",
        "GITHUB_REPOSITORY": "owner/name",
        "GITHUB_OUTPUT": str(folder / "outputs"),
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        "NUMBER": "7",
    }
    command = ["bash", "-e", "-c", step["run"]]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)


@pytest.mark.skipif(ACTIONLINT is None, reason="no actionlint here; .ci/run installs it where there is Go")
def test_actionlint_finds_nothing() -> None:
    found = subprocess.run([str(ACTIONLINT), *map(str, FILES)], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (0, "")


@pytest.mark.parametrize("file", FILES, ids=lambda p: p.stem)
def test_runs_do_not_overlap_and_may_do_no_more_than_they_must(file: Path) -> None:
    workflow = yaml.safe_load(file.read_text())
    assert workflow["concurrency"]["group"].startswith("zlayout")
    assert workflow["permissions"]["contents"] == "read"
    assert "write-all" not in file.read_text()


def test_a_pull_request_is_validated_planned_and_commented_once(checkout: Path) -> None:
    for step in steps(FOLDER / "zlayout-pull-request.yml", "plan"):
        done = shell(step, checkout)
        assert done.returncode == 0, done.stderr
    posted = (checkout / "gh.log").read_text().splitlines()[-1]
    assert posted == "api repos/owner/name/issues/7/comments --field body=@plan.md --silent"
    assert "lake.db.t" in (checkout / "plan.md").read_text()
    assert "lake.db.t" in (checkout / "plan.html").read_text()
    assert "tables_changed=1" in (checkout / "outputs").read_text()
    (checkout / "comments").write_text("41\n42\n")
    comment = steps(FOLDER / "zlayout-pull-request.yml", "plan")[-1]
    assert shell(comment, checkout).returncode == 0
    posted = (checkout / "gh.log").read_text().splitlines()[-1]
    assert posted == "api --method PATCH repos/owner/name/issues/comments/42 --field body=@plan.md --silent"


def test_a_layout_that_is_wrong_fails_the_pull_request(checkout: Path) -> None:
    layout = checkout / "layouts/t.yaml"
    layout.write_text(layout.read_text().replace("columns:", "colums:"))
    validate = steps(FOLDER / "zlayout-pull-request.yml", "plan")[0]
    done = shell(validate, checkout)
    assert done.returncode == 1
    assert "layouts/t.yaml:6:3: ZL010" in done.stderr


def test_drift_at_night_is_told_and_hands_over_to_apply(checkout: Path) -> None:
    (drift,) = steps(FOLDER / "zlayout-nightly.yml", "drift")
    done = shell(drift, checkout)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("::error file=layouts/t.yaml,")
    assert "has_changes=true" in (checkout / "outputs").read_text()
    assert (checkout / "drift.sarif").is_file()
    shutil.rmtree(checkout / "tables")
    assert shell(drift, checkout).returncode == 1


def test_apply_at_night_asks_nobody_and_has_a_budget() -> None:
    (apply,) = steps(FOLDER / "zlayout-nightly.yml", "apply")
    assert "--auto-approve" in apply["run"]
    assert "--max-rewrite-bytes" in apply["run"]
    workflow = yaml.safe_load((FOLDER / "zlayout-nightly.yml").read_text())
    assert workflow["jobs"]["apply"]["if"] == "needs.drift.outputs.has_changes == 'true'"
