"""The GitHub action, the template for GitLab CI, and the Dockerfiles: linters, and their scripts run here."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from sequences.test_workflows import BRANCH, merged, plant, project, runner
from support.ci import MARKER, Runner, git, locked
from support.servers import serving

__all__ = ["runner"]

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
ACTION = ROOT / "action.yml"
GITLAB = ROOT / "zlayout/session/templates/zlayout.gitlab-ci.yml"


def linted(*command: object) -> None:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_linters_find_nothing() -> None:
    linted(BIN / "check-jsonschema", "--builtin-schema", "vendor.github-actions", ACTION)
    gitlab = ("--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci")
    linted(BIN / "check-jsonschema", *gitlab, GITLAB)


class Action(Runner):
    """The action in a folder of its own, with lock files of two wheels that the tests make."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.folder, self.wheels = folder / "action", folder / "wheels"
        for name in ("zlayout", "schemas"):
            shutil.copytree(ROOT / name, self.folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        for each in (self.folder / "locks", self.wheels):
            each.mkdir()
        for name in ("plan", "spark"):
            (self.folder / f"locks/{name}.txt").write_text(locked(self.wheels, f"of_{name}"))
        self.environ = {
            "GITHUB_ACTION_PATH": str(self.folder),
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels),
        }

    def step(self, name: str, **inputs: str) -> subprocess.CompletedProcess[str]:
        """Run a step of the action with its inputs."""
        declared = yaml.safe_load(ACTION.read_text())
        given = {name: i["default"] for name, i in declared["inputs"].items()}
        assert inputs.keys() <= given.keys()
        self.context |= {f"inputs.{name}": value for name, value in (given | inputs).items()}
        return self.run(next(step for step in declared["runs"]["steps"] if step.get("name") == name))

    def take_this_environment(self) -> None:
        """Do instead of the step Install."""
        python_for(self.temp / "zlayout/bin")


def python_for(folder: Path) -> None:
    """Write a `python` that is the one of this environment, except that it installs nothing."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("python", "python3"):
        (folder / name).write_text(
            '#!/bin/sh\ncase "$*" in\n  "-I -m pip "*) ;;\n'
            '  "-I -m venv "*) mkdir -p "$4/bin" && cp "$0" "$4/bin/python" ;;\n'
            f'  *) exec {sys.executable} "$@" ;;\nesac\n'
        )
        (folder / name).chmod(0o755)


@pytest.fixture
def action(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Action:
    action = Action(tmp_path)
    project(action.checkout, monkeypatch)
    return action


def test_the_action_runs_a_command_with_its_arguments(action: Action) -> None:
    action.take_this_environment()
    done = action.step("Run", arguments="--report=github=-\n\n--report\nmarkdown=a page.md\n")
    assert done.returncode == 0, done.stderr
    outputs = action.last
    assert (outputs["exit-code"], outputs["has_changes"], outputs["tables_changed"]) == ("0", "true", "1")
    assert "lake.db.t" in (action.checkout / "a page.md").read_text()


def test_the_action_fails_by_exit_codes_that_are_not_accepted(action: Action) -> None:
    action.take_this_environment()
    drift: dict[str, Any] = {"command": "drift"}
    done = action.step("Run", **drift)
    assert (done.returncode, action.last["exit-code"]) == (2, "2")
    drift["accepted-exit-codes"] = "0 2"
    done = action.step("Run", **drift)
    assert (done.returncode, action.last["exit-code"]) == (0, "2")
    done = action.step("Run", **drift, arguments="--unknown")
    assert done.returncode == int(action.last["exit-code"]) == 64


def test_the_action_does_not_run_its_inputs(action: Action, tmp_path: Path) -> None:
    action.take_this_environment()
    hostile = "$(touch pwned)\n`touch pwned`"
    done = action.step("Run", command="plan; touch pwned", arguments=hostile, **{"accepted-exit-codes": hostile})
    assert done.returncode == 64
    assert not list(tmp_path.rglob("pwned"))


def test_the_action_installs_locked_packages_and_runs_no_file_of_the_checkout(action: Action, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    plant(action.checkout, canary)
    done = action.step("Install", extras="report, spark,$(touch pwned)`touch pwned`")
    assert done.returncode == 0, done.stderr
    environment = action.temp / "zlayout"
    assert {path.name for path in (environment / "bin").iterdir()} >= {"of_plan", "of_spark"}
    # What zlayout needs is linked from this environment, because this test has no network.
    (packages,) = environment.glob("lib/python*/site-packages")
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        if not (packages / path.name).exists() and path.suffix != ".pth":
            (packages / path.name).symlink_to(path)
    done = action.step("Run")
    assert done.returncode == 0, done.stderr
    assert "Plan: 1 to rewrite" in done.stdout
    assert not canary.exists(), canary.read_text()
    command = [str(environment / "bin/python"), "-I", "-c", "import zlayout; print(zlayout.__file__)"]
    file = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    assert file == str(action.folder / "zlayout/__init__.py")
    assert not list(tmp_path.rglob("pwned"))


def test_the_action_refuses_a_package_with_another_hash_and_leaves_spark_out(action: Action) -> None:
    with (action.wheels / "of_spark-1.0-py3-none-any.whl").open("ab") as wheel:
        wheel.write(b"\0")
    done = action.step("Install", extras="report")
    assert done.returncode == 0, done.stderr
    done = action.step("Install", extras="spark")
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr


class GitLab(ThreadingHTTPServer):
    """Has the notes of one merge request, and the requests that change them.

    Attributes:
        answers: JSON values by path, the bytes of files, or the address of another store as a string.
        tokens: The token of each GET, None without one.
    """

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Requests)
        self.answers: dict[str, Any] = {"/projects/3/deployments": []}
        self.tokens: list[str | None] = []
        self.notes: list[dict[str, Any]] = []
        self.changes: list[tuple[str, str, str, bytes]] = []


class Requests(BaseHTTPRequestHandler):
    server: GitLab

    def do_GET(self) -> None:
        path = self.path.partition("?")[0].removeprefix("/api/v4")
        self.server.tokens.append(self.headers["PRIVATE-TOKEN"])
        if path in self.server.answers:
            self._answer(self.server.answers[path])
        elif "/jobs/artifacts/" in path:
            self.send_error(404)
        elif path.endswith("/merge_requests"):
            self._answer([])
        else:
            self._answer({"id": 5} if path == "/user" else self.server.notes)

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.changes.append((self.command, self.path, self.headers["PRIVATE-TOKEN"], body))
        self._answer({})

    do_POST = do_PUT

    def _answer(self, content: object) -> None:
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(302 if isinstance(content, str) else 200)
        if isinstance(content, str):
            self.send_header("Location", content)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def gitlab() -> Iterator[GitLab]:
    with serving(GitLab()) as server:
        yield server


class Job:
    """A job of GitLab: `before_script` and `script` in one shell, and `after_script` in another one."""

    def __init__(self, runner: Runner, server: GitLab) -> None:
        self.checkout, self._jobs = runner.checkout, yaml.safe_load(GITLAB.read_text())
        python_for(runner.gh)
        self.environ = {
            "PATH": f"{runner.gh}:{BIN}:{os.environ['PATH']}",
            "HOME": os.environ.get("HOME", "/"),
            "TMPDIR": str(runner.temp),
            "CI_API_V4_URL": f"http://127.0.0.1:{server.server_port}/api/v4",
            "CI_PROJECT_DIR": str(runner.checkout),
            "CI_PROJECT_ID": "3",
            "CI_JOB_ID": "11",
            "CI_MERGE_REQUEST_IID": "8",
            "ZLAYOUT_NOTES_TOKEN": "of-the-project",
            "ZLAYOUT_IMAGE": f"python@sha256:{'0' * 64}",
            **runner.environ,
        }

    def run(self, name: str, part: str = "script", **environ: str) -> subprocess.CompletedProcess[str]:
        """Run `script` after `before_script`, or one of them, or `after_script`."""
        job = self._jobs[".zlayout"] | self._jobs[name]
        lines = [*job["before_script"], *job["script"]] if part == "script" else job[part]
        command = ["bash", "-eo", "pipefail", "-c", "\n".join(lines)]
        environ = self.environ | environ
        return subprocess.run(command, cwd=self.checkout, env=environ, capture_output=True, text=True, check=False)


@pytest.fixture
def job(runner: Runner, gitlab: GitLab, tmp_path: Path) -> Job:
    """The job of a merge request, in the checkout of its branch, whose `origin` has the target branch."""
    merged(runner, tmp_path / "canary")
    git(tmp_path, "clone", "--quiet", "--bare", str(runner.checkout), str(tmp_path / "origin"))
    git(runner.checkout, "remote", "add", "origin", str(tmp_path / "origin"))
    git(runner.checkout, "checkout", "--quiet", "--detach", BRANCH)
    job = Job(runner, gitlab)
    job.environ["CI_MERGE_REQUEST_TARGET_BRANCH_NAME"] = "main"
    return job


def test_the_plan_becomes_one_note_which_later_pushes_replace(job: Job, gitlab: GitLab) -> None:
    reviewed = git(job.checkout, "show", "main:zlayout.yaml")
    done = job.run("zlayout plan")
    assert done.returncode == 0, done.stderr
    assert (job.checkout / "zlayout.yaml").read_text() == reviewed
    assert job.run("zlayout plan", "after_script").returncode == 0
    gitlab.notes = [
        {"id": 43, "author": {"id": 6}, "body": f"{MARKER} of somebody else"},
        {"id": 42, "author": {"id": 5}, "body": f"{MARKER} the last plan"},
        {"id": 41, "author": {"id": 5}, "body": "another note"},
    ]
    done = job.run("zlayout plan", "after_script")
    assert done.returncode == 0, done.stderr
    (first, second) = gitlab.changes
    notes = "/api/v4/projects/3/merge_requests/8/notes"
    assert first[:3] == ("POST", notes, "of-the-project")
    assert second[:3] == ("PUT", f"{notes}/42", "of-the-project")
    assert MARKER.encode() in first[3]
    assert b"lake.db.t" in first[3]
    assert "of-the-project" not in done.stdout + done.stderr
    artifacts = job.checkout / "zlayout-plan"
    assert not artifacts.is_symlink()
    assert sorted(path.name for path in artifacts.iterdir()) == ["plan.html", "plan.json"]


def test_files_of_a_merge_request_run_no_code_and_are_not_posted(job: Job, gitlab: GitLab, tmp_path: Path) -> None:
    job.environ["PATH"] = f"{BIN}:{os.environ['PATH']}"  # with a real installation
    config = job.checkout / ".git/config"
    before = config.read_text()
    assert job.run("zlayout validate").returncode == 0
    assert job.run("zlayout plan").returncode == 0
    assert job.run("zlayout plan", "after_script").returncode == 0
    assert b"secret-of-git" not in gitlab.changes[0][3]
    assert "secret-of-git" in before == config.read_text()
    canary = tmp_path / "canary"
    assert not canary.exists(), canary.read_text()
    assert not list(tmp_path.rglob("pwned"))


@pytest.mark.parametrize("branch", ["main$(touch${IFS}pwned)", "main;touch${IFS}pwned", "-main`touch${IFS}pwned`"])
def test_names_of_branches_are_not_run(job: Job, tmp_path: Path, branch: str) -> None:
    git(tmp_path / "origin", "update-ref", f"refs/heads/{branch}", "main")
    done = job.run("zlayout validate", CI_MERGE_REQUEST_TARGET_BRANCH_NAME=branch)
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.rglob("pwned"))


@pytest.mark.parametrize("failing", ["install", "plan"])
def test_a_plan_that_failed_leaves_neither_the_old_note_nor_a_committed_file(
    job: Job, gitlab: GitLab, failing: str
) -> None:
    if failing == "plan":
        shutil.rmtree(job.checkout / "tables")
    target = {"install": "unknown", "plan": "main"}[failing]
    assert job.run("zlayout plan", CI_MERGE_REQUEST_TARGET_BRANCH_NAME=target).returncode != 0
    assert job.run("zlayout plan", "after_script").returncode == 0
    assert b"secret-of-git" not in gitlab.changes[0][3]
    assert MARKER.encode() in gitlab.changes[0][3]
    assert (b"could not be planned" in gitlab.changes[0][3]) == (failing == "install")
    assert list((job.checkout / "zlayout-plan").glob("*.html")) != [] or failing == "install"


def test_no_token_means_no_note(job: Job, gitlab: GitLab) -> None:
    assert job.run("zlayout plan", "after_script", ZLAYOUT_NOTES_TOKEN="").returncode == 0
    assert gitlab.changes == []


@pytest.mark.parametrize("image", ["", "python:3.12-bookworm"])
def test_an_image_without_a_digest_is_refused(job: Job, image: str) -> None:
    done = job.run("zlayout validate", ZLAYOUT_IMAGE=image)
    assert done.returncode == 1
    assert f"expected an image with its digest in the variable ZLAYOUT_IMAGE, found '{image}'" in done.stderr


def test_scheduled_jobs_do_what_the_commands_mean(runner: Runner, gitlab: GitLab, tmp_path: Path) -> None:
    jobs = yaml.safe_load(GITLAB.read_text())
    merged(runner, tmp_path / "canary")
    git(runner.checkout, "checkout", "--quiet", "--detach", "main")
    drift = Job(runner, gitlab).run("zlayout drift")
    assert drift.returncode in jobs["zlayout drift"]["allow_failure"]["exit_codes"], drift.stderr
    (rule,) = jobs["zlayout repair"]["rules"]
    assert "$CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH" in rule["if"]
    assert (rule["when"], jobs["zlayout repair"]["resource_group"]) == ("always", "zlayout")
    assert "--only-decay" in jobs["zlayout repair"]["script"][-1]
    (rule,) = jobs["zlayout apply"]["rules"]
    assert "$CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH" in rule["if"]
    assert (rule["when"], jobs["zlayout apply"]["resource_group"]) == ("manual", "zlayout")
    fork = jobs["zlayout plan"]["rules"][0]["if"]
    assert "$CI_MERGE_REQUEST_SOURCE_PROJECT_ID == $CI_MERGE_REQUEST_PROJECT_ID" in fork
