"""The hook of `.pre-commit-hooks.yaml`, run by pre-commit itself in a repository of its own.

As `language: system`: what pre-commit would install for `language: python` takes half a minute of processor time and
530 MB from a package registry on each run. That way was tried by hand with the hook as it is, and passes and fails
likewise.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from zlayout.cli.main import run

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
HOOK = "zlayout-validate"


def git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-c", "user.name=test", "-c", "user.email=test@example.org", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project under git that uses the hook, from a repository that holds just the hook's own file."""
    hooks, project = tmp_path / "hooks", tmp_path / "project"
    for folder in (hooks, project):
        folder.mkdir()
        git(folder, "init", "--quiet")
    shutil.copy(ROOT / ".pre-commit-hooks.yaml", hooks)
    git(hooks, "add", ".")
    git(hooks, "commit", "--quiet", "-m", "hooks")
    monkeypatch.chdir(project)
    assert run(["init", "--no-workflows", "--offline", "--table", "lake.sales.orders", "--columns", "a,b"]) == 0
    # The zlayout under test stands in for the one that pre-commit would install.
    hook = {"id": HOOK, "language": "system"}
    config = {"repos": [{"repo": str(hooks), "rev": git(hooks, "rev-parse", "HEAD").strip(), "hooks": [hook]}]}
    (project / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    git(project, "add", ".")
    return project


def pre_commit(folder: Path) -> subprocess.CompletedProcess[str]:
    environ = {
        **os.environ,
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "PRE_COMMIT_HOME": str(folder.parent / "cache"),
        "PRE_COMMIT_COLOR": "never",
    }
    command = [str(BIN / "pre-commit"), "run"]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)


def test_a_good_project_passes_and_a_wrong_one_is_stopped_with_its_place(repository: Path) -> None:
    done = pre_commit(repository)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Passed" in done.stdout
    layout = repository / "layouts/sales_orders.yaml"
    layout.write_text(layout.read_text().replace("zorder:", "zodrer:"))
    git(repository, "add", ".")
    done = pre_commit(repository)
    assert done.returncode == 1
    assert "layouts/sales_orders.yaml:5:1: ZL010" in done.stdout


def test_other_files_do_not_start_it(repository: Path) -> None:
    git(repository, "commit", "--quiet", "--no-verify", "-m", "all")
    (repository / "notes.yaml").write_text("a: 1\n")
    git(repository, "add", ".")
    assert "no files to check" in pre_commit(repository).stdout


def test_the_hook_installs_as_a_python_package() -> None:
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert (hook["id"], hook["language"], hook["entry"]) == (HOOK, "python", "zlayout validate")
