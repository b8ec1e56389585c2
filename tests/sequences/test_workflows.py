"""The GitHub workflows: what linters report of them, and their shell steps run here, GitHub replaced by a script."""

import json
import os
import re
import shutil
import subprocess
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from deltalake import write_deltalake
from support.ci import MARKER, Runner, git, locked
from support.servers import serving

from zlayout.cli.main import run

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "zlayout/session/templates"
FILES = sorted(FOLDER.glob("zlayout-*.yml"))
OWN = sorted((ROOT / ".github/workflows").glob("*.yml"))
BIN = Path(sys.executable).parent
OPERATE = ROOT / "docs/operate.md"
ACTIONLINT = shutil.which("actionlint", path=f"{BIN}:{os.environ['PATH']}")
PULL_REQUEST = FOLDER / "zlayout-pull-request.yml"
NIGHTLY = FOLDER / "zlayout-nightly.yml"
BRANCH = "change-$(touch${IFS}pwned)"


def steps(file: Path, job: str) -> dict[str, dict[str, Any]]:
    """The shell steps of a job by name."""
    return {s["name"]: s for s in yaml.safe_load(file.read_text())["jobs"][job]["steps"] if "run" in s}


def project(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write a project with one table that is not laid out."""
    monkeypatch.chdir(folder)
    assert run(["init", "--table", "lake.db.t", "--columns", "a,b", "--warehouse", "tables", "--offline"]) == 0
    for _ in range(2):
        rows = pa.table({"a": list(range(100)), "b": list(range(100))})
        write_deltalake("tables/db/t", rows, mode="append")


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Runner:
    """A checked-out project with one table that is not laid out. The last commit adds its layout."""
    runner = Runner(tmp_path)
    project(runner.checkout, monkeypatch)
    (runner.checkout / ".gitignore").write_text("tables/\n")
    git(runner.checkout, "init", "--quiet", "--initial-branch=main")
    for added in (":!layouts", "."):
        git(runner.checkout, "add", added)
        git(runner.checkout, "commit", "--quiet", "-m", "change")
    return runner


@pytest.mark.skipif(ACTIONLINT is None, reason="no actionlint here; .ci/run installs it where there is Go")
def test_actionlint_finds_nothing() -> None:
    assert OWN
    found = subprocess.run([str(ACTIONLINT), *map(str, FILES + OWN)], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (0, "")


def test_zizmor_finds_nothing() -> None:
    """Its audits without a network: credentials that stay, actions that are not pinned, inputs that a shell runs."""
    dependabot = ROOT / ".github/dependabot.yml"
    command = [BIN / "zizmor", "--offline", "--no-progress", ROOT / "action.yml", dependabot, *FILES, *OWN]
    found = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


@pytest.mark.parametrize("file", FILES, ids=lambda p: p.stem)
def test_runs_do_not_overlap(file: Path) -> None:
    assert yaml.safe_load(file.read_text())["concurrency"]["group"].startswith("zlayout")


def test_a_pull_request_is_validated_planned_and_commented_once(runner: Runner) -> None:
    plan = steps(PULL_REQUEST, "plan")
    for name in ("Validate", "Plan", "Comment"):
        done = runner.run(plan[name])
        assert done.returncode == 0, done.stderr
    reports = Path(runner.outputs["plan"]["reports"])
    assert runner.log[-1] == f"api repos/owner/name/issues/7/comments --field body=@{reports}/plan.md --silent"
    assert runner.posted.startswith(f"{MARKER}\n")
    assert "lake.db.t" in runner.posted
    assert "lake.db.t" in (reports / "plan.html").read_text()
    assert runner.outputs["plan"]["tables_changed"] == "1"
    (runner.gh / "comments").write_text("41\n42\n")
    assert runner.run(plan["Comment"]).returncode == 0
    assert runner.log[-1].startswith("api --method PATCH repos/owner/name/issues/comments/42 --field body=@")


def test_the_comment_of_somebody_else_is_left_alone_and_an_old_plan_does_not_stand(runner: Runner) -> None:
    comment = steps(PULL_REQUEST, "plan")["Comment"]
    (runner.gh / "comments").write_text("42\n")
    assert runner.run(comment).returncode == 0
    listed, posted = runner.log
    assert 'select(.user.login == "github-actions[bot]" and' in listed
    assert "comments/42" in posted
    assert "could not be planned" in runner.posted
    (runner.gh / "down").touch()
    assert runner.run(comment).returncode != 0
    assert len(runner.log) == 3


# Modules that Python or pip would import from the working directory, and files that they and pyiceberg would read.
PLANTED = (
    *(f"{name}/__main__.py" for name in ("pip", "venv", "ensurepip", "zlayout", "json")),
    *("zlayout.py", "sitecustomize.py", "usercustomize.py", "typer.py", "numpy.py", "yaml.py", "os.py", "setup.py"),
    *(f"{name}/__init__.py" for name in ("pip", "venv", "ensurepip", "zlayout", "json")),
)


def plant(checkout: Path, canary: Path) -> None:
    """Write what a hostile pull request could contain. A module that is imported writes its path to `canary`."""
    for name in PLANTED:
        (checkout / name).parent.mkdir(exist_ok=True)
        (checkout / name).write_text(f"open({str(canary)!r}, 'a').write({name + chr(10)!r})\n")
    for name in ("pip.conf", "setup.cfg", "pyproject.toml"):
        (checkout / name).write_text("[global]\nindex-url = http://127.0.0.1:1/\n[install]\nno-deps = broken\n")
    (checkout / ".pyiceberg.yaml").write_text("catalog:\n  lake:\n    py-catalog-impl: sitecustomize.Catalog\n")
    for name in ("plan.md", "plan.json", "plan.html", "note.json", "drift.sarif", "zlayout-plan"):
        (checkout / name).symlink_to(".git/config")


def merged(runner: Runner, canary: Path) -> str:
    """Make the checkout the merge commit of a hostile pull request; return the reviewed zlayout.yaml."""
    checkout, wheels = runner.checkout, runner.temp.parent / "wheels"
    wheels.mkdir()
    requirements = checkout / ".zlayout/requirements-plan.txt"
    requirements.write_text(locked(wheels, "zlayout"))
    runner.environ |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}
    reviewed = (checkout / "zlayout.yaml").read_text()
    git(checkout, "add", ".")
    git(checkout, "commit", "--quiet", "-m", "reviewed")
    git(checkout, "config", "http.extraheader", "AUTHORIZATION: basic secret-of-git")
    git(checkout, "checkout", "--quiet", "-b", BRANCH)
    plant(checkout, canary)
    # The packages and the receiver of the credentials are not those of the pull request.
    requirements.write_text("planted==1.0\n")
    (checkout / "zlayout.yaml").write_text(reviewed.replace("tables", "elsewhere"))
    layout = checkout / "layouts/db_t.yaml"
    layout.write_text(layout.read_text().replace("a, b", "b, a"))
    git(checkout, "add", ".")
    git(checkout, "commit", "--quiet", "-m", "hostile")
    git(checkout, "checkout", "--quiet", "--detach", "main")
    git(checkout, "merge", "--quiet", "--no-ff", "-m", "merge", BRANCH)
    return reviewed


def test_files_of_a_pull_request_run_no_code_and_are_not_posted(runner: Runner, tmp_path: Path) -> None:
    canary = tmp_path / "canary"
    reviewed = merged(runner, canary)
    for step in steps(PULL_REQUEST, "plan").values():
        done = runner.run(step)
        assert done.returncode == 0, (step["name"], done.stderr)
    assert not canary.exists(), canary.read_text()
    assert (runner.temp / "zlayout/bin/zlayout").exists()
    assert (runner.checkout / "zlayout.yaml").read_text() == reviewed
    assert "lake.db.t" in runner.posted
    config = (runner.checkout / ".git/config").read_text()
    assert "secret-of-git" in config
    assert "secret-of-git" not in runner.posted
    assert not list(runner.checkout.rglob("pwned"))


@pytest.mark.parametrize("failing", ["Install", "Plan"])
def test_a_committed_report_is_not_posted_if_no_plan_was_made(runner: Runner, tmp_path: Path, failing: str) -> None:
    merged(runner, tmp_path / "canary")
    plan = steps(PULL_REQUEST, "plan")
    if failing == "Plan":  # otherwise the step is not run
        shutil.rmtree(runner.checkout / "tables")
        assert runner.run(plan["Plan"]).returncode == 1
    assert runner.run(plan["Comment"]).returncode == 0
    assert "secret-of-git" not in runner.posted
    assert runner.posted.startswith(MARKER)
    assert ("could not be planned" in runner.posted) == (failing == "Install")


def test_a_package_with_another_hash_is_not_installed(runner: Runner, tmp_path: Path) -> None:
    merged(runner, tmp_path / "canary")
    locked(tmp_path / "wheels", "zlayout")
    with (tmp_path / "wheels/zlayout-1.0-py3-none-any.whl").open("ab") as wheel:
        wheel.write(b"\0")
    done = runner.run(steps(PULL_REQUEST, "plan")["Install"])
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr


def test_names_of_tables_are_not_run(runner: Runner, tmp_path: Path) -> None:
    for number, name in enumerate(("a$(touch pwned)", "a`touch pwned`;touch pwned", "a' \"; touch pwned #")):
        shutil.copytree(runner.checkout / "tables/db/t", runner.checkout / "tables/db" / name)
        table = f"lake.db.`{name.replace('`', '``')}`"
        layout = {"version": 1, "table": table, "zorder": {"columns": ["a"]}}
        (runner.checkout / f"layouts/{number}.yaml").write_text(json.dumps(layout))
    plan = steps(PULL_REQUEST, "plan")
    for step in (plan["Validate"], plan["Plan"], plan["Comment"], steps(NIGHTLY, "drift")["Drift"]):
        done = runner.run(step)
        assert done.returncode == 0, done.stderr
    assert runner.posted.count("touch pwned") >= 3
    assert not list(tmp_path.rglob("pwned"))


def test_credentials_go_where_the_base_branch_says() -> None:
    plan = steps(PULL_REQUEST, "plan")
    own = "github.event.pull_request.head.repo.full_name == github.repository"
    assert all(own in plan[name]["if"] for name in ("Base", "Plan", "Comment"))


def test_a_layout_that_is_wrong_fails_the_pull_request(runner: Runner) -> None:
    layout = runner.checkout / "layouts/db_t.yaml"
    layout.write_text(layout.read_text().replace("columns:", "colums:"))
    done = runner.run(steps(PULL_REQUEST, "plan")["Validate"])
    assert done.returncode == 1
    assert "layouts/db_t.yaml:6:3: ZL010" in done.stderr


def test_drift_at_night_is_reported_and_starts_apply(runner: Runner) -> None:
    drift = steps(NIGHTLY, "drift")["Drift"]
    done = runner.run(drift)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("::error file=layouts/db_t.yaml,")
    assert runner.last["has_changes"] == "true"
    assert Path(runner.last["sarif"]).is_file()
    assert Path(runner.last["sarif"]).is_relative_to(runner.temp)
    shutil.rmtree(runner.checkout / "tables")
    assert runner.run(drift).returncode == 1


def test_only_refused_tables_at_night_are_red(runner: Runner) -> None:
    _refuse(runner.checkout, "t")
    assert runner.run(steps(NIGHTLY, "drift")["Drift"]).returncode == 2
    assert runner.last["has_changes"] == "false"


def _refuse(checkout: Path, table: str) -> None:
    """Give the table a feature that zlayout refuses."""
    commit = checkout / f"tables/db/{table}/_delta_log/00000000000000000000.json"
    feature = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["notKnownYet"]}}
    kept = [line for line in commit.read_text().splitlines() if '"protocol"' not in line]
    commit.write_text("\n".join([*kept, json.dumps(feature)]) + "\n")


def test_apply_at_night_repairs_what_it_can_and_leaves_the_rest_to_people(runner: Runner) -> None:
    condition = yaml.safe_load(NIGHTLY.read_text())["jobs"]["apply"]["if"]
    for needed in (
        "!cancelled()",
        "outputs.has_changes == 'true'",
        "ref_name == github.event.repository.default_branch",
    ):
        assert needed in condition
    (runner.gh / "zlayout").write_text('#!/bin/sh\necho "$*" >> "$(dirname "$0")/applied"\n')
    (runner.gh / "zlayout").chmod(0o755)
    assert runner.run(steps(NIGHTLY, "apply")["Apply"]).returncode == 0
    report = f"{runner.outputs['apply']['reports']}/applied.html"
    (said,) = (runner.gh / "applied").read_text().splitlines()
    assert said == f"apply --only-decay --auto-approve --max-rewrite-bytes 200GiB --report html={report}"


def test_apply_at_night_installs_spark_without_packages_that_are_not_locked(runner: Runner, tmp_path: Path) -> None:
    (tmp_path / "wheels").mkdir()
    for name, package in (("plan", "zlayout"), ("apply", "pyspark")):
        (runner.checkout / f".zlayout/requirements-{name}.txt").write_text(locked(tmp_path / "wheels", package))
    runner.environ |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path / "wheels")}
    plant(runner.checkout, tmp_path / "canary")
    done = runner.run(steps(NIGHTLY, "apply")["Install"])
    assert done.returncode == 0, done.stderr
    assert {p.name for p in (runner.temp / "zlayout/bin").iterdir()} >= {"zlayout", "pyspark"}
    assert not (tmp_path / "canary").exists()


class Hook(ThreadingHTTPServer):
    """Answers with these statuses in turn, and with 200 afterwards."""

    def __init__(self, statuses: list[int]) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        self.statuses, self.bodies = statuses, list[bytes]()


class Answer(BaseHTTPRequestHandler):
    server: Hook

    def do_POST(self) -> None:
        self.server.bodies.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(self.server.statuses.pop(0) if self.server.statuses else 200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.mark.skipif(shutil.which("jq") is None, reason="no jq here; the machines of GitHub have it")
@pytest.mark.parametrize(("statuses", "sent", "code"), [([], 1, 0), ([503], 2, 0), ([404], 1, 22)])
def test_the_step_of_the_page_sends_what_drift_found(runner: Runner, statuses: list[int], sent: int, code: int) -> None:
    section = OPERATE.read_text().partition("## Notifications\n")[2]
    drift, notify = yaml.safe_load(section.partition("```yaml\n")[2].partition("```")[0])
    assert runner.run(drift).returncode == 2
    assert re.fullmatch(r"\$\{\{ failure\(\) && steps.drift.outputs.exit_code != '0' \}\}", notify["if"])
    assert runner.last["exit_code"] == "2"
    with serving(Hook(statuses)) as server:
        runner.context["secrets.SLACK_WEBHOOK"] = f"http://127.0.0.1:{server.server_port}/services/the-token"
        done = runner.run(notify)
        assert done.returncode == code
        assert len(server.bodies) == sent
    assert "lake.db.t" in json.loads(server.bodies[-1])["text"]
    assert "the-token" not in done.stdout + done.stderr
