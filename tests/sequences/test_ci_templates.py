"""The GitHub action, the template for GitLab CI, and the Dockerfiles: linters, and their scripts run here."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from sequences.test_workflows import checkout, shell
from support.servers import serving

import zlayout

__all__ = ["checkout"]

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
ACTION = ROOT / "action.yml"
GITLAB = ROOT / "examples/gitlab-ci/zlayout.gitlab-ci.yml"
DOCKER = sorted((ROOT / "examples/docker").glob("*.Dockerfile"))


def linted(*command: object) -> None:
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_linters_find_nothing() -> None:
    linted(BIN / "check-jsonschema", "--builtin-schema", "vendor.github-actions", ACTION)
    gitlab = ("--builtin-schema", "vendor.gitlab-ci", "--data-transform", "gitlab-ci")
    linted(BIN / "check-jsonschema", *gitlab, GITLAB)
    assert len(DOCKER) == 2
    linted(BIN / "hadolint", *DOCKER)


@pytest.mark.parametrize("file", DOCKER, ids=lambda p: p.stem)
def test_images_have_this_version_and_do_not_run_as_root(file: Path) -> None:
    text = file.read_text()
    assert re.findall(r"^ARG VERSION=(.*)$", text, re.MULTILINE) == [zlayout.__version__]
    assert re.findall(r"^USER (\d+)$", text, re.MULTILINE)[-1] != "0"


def run_action(folder: Path, **inputs: str) -> tuple[subprocess.CompletedProcess[str], dict[str, str]]:
    """Run the last step of the action with its inputs; return also the outputs of the step."""
    action = yaml.safe_load(ACTION.read_text())
    step = action["runs"]["steps"][-1]
    defaults = {name: declared["default"] for name, declared in action["inputs"].items()}
    assert inputs.keys() <= defaults.keys()
    for name, given in step["env"].items():
        (key,) = re.fullmatch(r"\$\{\{ inputs\.([a-z-]+) \}\}", given).groups()  # type: ignore[union-attr]
        step["run"] = f"export {name}={shlex.quote((defaults | inputs)[key])}\n{step['run']}"
    done = shell(step, folder)
    lines = (folder / "outputs").read_text().splitlines()
    (folder / "outputs").unlink()
    return done, dict(line.split("=", 1) for line in lines)


def test_the_action_runs_a_command_with_its_arguments(checkout: Path) -> None:
    arguments = "--report=github=-\n\n--report\nmarkdown=a page.md\n"
    done, outputs = run_action(checkout, arguments=arguments)
    assert done.returncode == 0, done.stderr
    assert (outputs["exit-code"], outputs["has_changes"], outputs["tables_changed"]) == ("0", "true", "1")
    assert "lake.db.t" in (checkout / "a page.md").read_text()


def test_the_action_fails_by_exit_codes_that_are_not_accepted(checkout: Path) -> None:
    drift: dict[str, Any] = {"command": "drift"}
    done, outputs = run_action(checkout, **drift)
    assert (done.returncode, outputs["exit-code"]) == (2, "2")
    drift["accepted-exit-codes"] = "0 2"
    done, outputs = run_action(checkout, **drift)
    assert (done.returncode, outputs["exit-code"]) == (0, "2")
    done, outputs = run_action(checkout, **drift, arguments="--unknown")
    assert done.returncode == int(outputs["exit-code"]) == 64


def test_the_action_does_not_run_its_inputs(checkout: Path) -> None:
    done, _ = run_action(checkout, command="plan; touch pwned", arguments="$(touch pwned)\n`touch pwned`")
    assert done.returncode == 64
    assert not (checkout / "pwned").exists()
    assert "${{" not in yaml.safe_load(ACTION.read_text())["runs"]["steps"][-1]["run"]


class GitLab(ThreadingHTTPServer):
    """Has the notes of one merge request, and the requests that change them."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Requests)
        self.notes: list[dict[str, Any]] = []
        self.changes: list[tuple[str, str, str, bytes]] = []


class Requests(BaseHTTPRequestHandler):
    server: GitLab

    def do_GET(self) -> None:
        self._answer({"id": 5} if self.path == "/api/v4/user" else self.server.notes)

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.changes.append((self.command, self.path, self.headers["PRIVATE-TOKEN"], body))
        self._answer({})

    do_POST = do_PUT

    def _answer(self, content: object) -> None:
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def gitlab() -> Iterator[GitLab]:
    with serving(GitLab()) as server:
        yield server


def note(folder: Path, server: GitLab, token: str = "of-the-project") -> subprocess.CompletedProcess[str]:
    """Run what the job of a plan does after its script."""
    (script,) = yaml.safe_load(GITLAB.read_text())["zlayout plan"]["after_script"]
    environ = {
        "PATH": f"{BIN}:{os.environ['PATH']}",
        "CI_API_V4_URL": f"http://127.0.0.1:{server.server_port}/api/v4",
        "CI_PROJECT_ID": "3",
        "CI_MERGE_REQUEST_IID": "8",
        "ZLAYOUT_NOTES_TOKEN": token,
    }
    command = ["bash", "-eo", "pipefail", "-c", script]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)


def test_the_plan_becomes_one_note_which_later_pushes_replace(checkout: Path, gitlab: GitLab) -> None:
    for line in yaml.safe_load(GITLAB.read_text())["zlayout plan"]["script"][2:]:
        assert shell({"run": line}, checkout).returncode == 0
    assert note(checkout, gitlab).returncode == 0
    marker = "<!-- zlayout-report -->"
    assert (checkout / "plan.md").read_text().startswith(marker)
    gitlab.notes = [
        {"id": 43, "author": {"id": 6}, "body": f"{marker} of somebody else"},
        {"id": 42, "author": {"id": 5}, "body": f"{marker} the last plan"},
        {"id": 41, "author": {"id": 5}, "body": "another note"},
    ]
    done = note(checkout, gitlab)
    assert done.returncode == 0, done.stderr
    (first, second) = gitlab.changes
    notes = "/api/v4/projects/3/merge_requests/8/notes"
    assert first[:3] == ("POST", notes, "of-the-project")
    assert second[:3] == ("PUT", f"{notes}/42", "of-the-project")
    assert b"lake.db.t" in first[3]
    assert "of-the-project" not in done.stdout + done.stderr


def test_a_plan_that_failed_does_not_leave_the_old_one_and_no_token_means_no_note(
    checkout: Path, gitlab: GitLab
) -> None:
    assert note(checkout, gitlab, token="").returncode == 0
    assert gitlab.changes == []
    assert note(checkout, gitlab).returncode == 0
    assert b"could not be planned" in gitlab.changes[0][3]


def test_scheduled_jobs_do_what_the_commands_mean(checkout: Path) -> None:
    jobs = yaml.safe_load(GITLAB.read_text())
    (drift,) = jobs["zlayout drift"]["script"]
    assert shell({"run": drift}, checkout).returncode in jobs["zlayout drift"]["allow_failure"]["exit_codes"]
    (rule,) = jobs["zlayout apply"]["rules"]
    assert "$CI_COMMIT_BRANCH == $CI_DEFAULT_BRANCH" in rule["if"]
    assert (rule["when"], jobs["zlayout apply"]["resource_group"]) == ("always", "zlayout")
    fork = jobs["zlayout plan"]["rules"][0]["if"]
    assert "$CI_MERGE_REQUEST_SOURCE_PROJECT_ID == $CI_MERGE_REQUEST_PROJECT_ID" in fork
