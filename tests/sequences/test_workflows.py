"""The GitHub workflows: what actionlint says of them, and their shell steps run here, GitHub replaced by a script."""

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
from support.servers import serving

from zlayout.cli.main import run

FOLDER = Path(__file__).parents[2] / "examples/github-actions"
FILES = sorted(FOLDER.glob("*.yml"))
BIN = Path(sys.executable).parent
OPERATE = FOLDER.parents[1] / "docs/operate.md"
ACTIONLINT = shutil.which("actionlint", path=f"{BIN}:{os.environ['PATH']}")

# Stands in for GitHub's own program: keeps what is posted, and lists one older comment when told to.
GH = """\
#!/bin/sh
echo "$*" >> gh.log
case "$*" in *--paginate*) [ ! -f down ] || exit 1; cat comments 2>/dev/null ;; esac
exit 0
"""


def steps(file: Path, job: str) -> list[dict[str, Any]]:
    workflow = yaml.safe_load(file.read_text())
    return [s for s in workflow["jobs"][job]["steps"] if "run" in s and s["name"] not in ("Install", "Base")]


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


def shell(step: dict[str, Any], folder: Path, webhook: str = "") -> subprocess.CompletedProcess[str]:
    """Run one step as GitHub does."""
    environ = {
        "PATH": f"{folder}:{BIN}:{os.environ['PATH']}",
        "HOME": os.environ.get("HOME", "/"),
        "CI": "true",
        "GITHUB_REPOSITORY": "owner/name",
        "GITHUB_OUTPUT": str(folder / "outputs"),
        "GITHUB_STEP_SUMMARY": str(folder / "summary.md"),
        "NUMBER": "7",
        "BASE": "main",
        "BUDGET": "200GiB",
        "WEBHOOK": webhook,
    }
    strict = ["-eo", "pipefail"] if step.get("shell") == "bash" else ["-e"]
    command = ["bash", *strict, "-c", step["run"]]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)


@pytest.mark.skipif(ACTIONLINT is None, reason="no actionlint here; .ci/run installs it where there is Go")
def test_actionlint_finds_nothing() -> None:
    own = sorted((FOLDER.parents[1] / ".github/workflows").glob("*.yml"))
    assert own
    found = subprocess.run([str(ACTIONLINT), *map(str, FILES + own)], capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout) == (0, "")


@pytest.mark.parametrize("file", FILES, ids=lambda p: p.stem)
def test_runs_do_not_overlap_and_may_do_no_more_than_they_must(file: Path) -> None:
    workflow = yaml.safe_load(file.read_text())
    assert workflow["concurrency"]["group"].startswith("zlayout")
    assert workflow["permissions"]["contents"] == "read"
    assert set(workflow["permissions"]) <= {"contents", "pull-requests"}
    assert "write-all" not in file.read_text()
    assert all("permissions" not in job for name, job in workflow["jobs"].items() if name == "apply")


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
    assert (checkout / "plan.md").read_text().startswith("<!-- zlayout-report -->\n")
    assert shell(comment, checkout).returncode == 0
    posted = (checkout / "gh.log").read_text().splitlines()[-1]
    assert posted == "api --method PATCH repos/owner/name/issues/comments/42 --field body=@plan.md --silent"


def test_the_comment_of_somebody_else_is_left_alone_and_an_old_plan_does_not_stand(checkout: Path) -> None:
    comment = steps(FOLDER / "zlayout-pull-request.yml", "plan")[-1]
    (checkout / "comments").write_text("42\n")
    assert shell(comment, checkout).returncode == 0
    listed, posted = (checkout / "gh.log").read_text().splitlines()
    assert 'select(.user.login == "github-actions[bot]" and' in listed
    assert "comments/42" in posted
    assert "could not be planned" in (checkout / "plan.md").read_text()
    (checkout / "down").touch()
    assert shell(comment, checkout).returncode != 0
    assert len((checkout / "gh.log").read_text().splitlines()) == 3


def test_credentials_go_where_the_base_branch_says(checkout: Path) -> None:
    workflow = yaml.safe_load((FOLDER / "zlayout-pull-request.yml").read_text())
    base, plan, comment = (s for s in workflow["jobs"]["plan"]["steps"] if s.get("name") in ("Base", "Plan", "Comment"))
    own = "github.event.pull_request.head.repo.full_name == github.repository"
    assert all(own in step["if"] for step in (base, plan, comment))

    def git(*arguments: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a", *arguments], cwd=checkout, check=True)

    reviewed = (checkout / "zlayout.yaml").read_text()
    git("init", "--quiet", "--initial-branch=main")
    git("add", "zlayout.yaml")
    git("commit", "--quiet", "-m", "reviewed")
    git("remote", "add", "origin", str(checkout))
    git("checkout", "--quiet", "-b", "change")
    (checkout / "zlayout.yaml").write_text(reviewed + "# changed\n")
    git("commit", "--quiet", "-a", "-m", "changed")
    assert shell(base, checkout).returncode == 0
    assert (checkout / "zlayout.yaml").read_text() == reviewed


def test_a_layout_that_is_wrong_fails_the_pull_request(checkout: Path) -> None:
    layout = checkout / "layouts/t.yaml"
    layout.write_text(layout.read_text().replace("columns:", "colums:"))
    validate = steps(FOLDER / "zlayout-pull-request.yml", "plan")[0]
    done = shell(validate, checkout)
    assert done.returncode == 1
    assert "layouts/t.yaml:6:3: ZL010" in done.stderr


def test_drift_at_night_is_reported_and_starts_apply(checkout: Path) -> None:
    (drift,) = steps(FOLDER / "zlayout-nightly.yml", "drift")
    done = shell(drift, checkout)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("::error file=layouts/t.yaml,")
    assert "has_changes=true" in (checkout / "outputs").read_text()
    assert (checkout / "drift.sarif").is_file()
    shutil.rmtree(checkout / "tables")
    (checkout / "outputs").unlink()
    assert shell(drift, checkout).returncode == 1


def test_only_refused_tables_at_night_are_red(checkout: Path) -> None:
    (drift,) = steps(FOLDER / "zlayout-nightly.yml", "drift")
    _refuse(checkout, "t")
    assert shell(drift, checkout).returncode == 2
    assert "has_changes=false" in (checkout / "outputs").read_text()


def _refuse(checkout: Path, table: str) -> None:
    """Give the table a feature that zlayout refuses."""
    commit = checkout / f"tables/db/{table}/_delta_log/00000000000000000000.json"
    feature = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 7, "writerFeatures": ["notKnownYet"]}}
    kept = [line for line in commit.read_text().splitlines() if '"protocol"' not in line]
    commit.write_text("\n".join([*kept, json.dumps(feature)]) + "\n")


def test_apply_at_night_repairs_what_it_can_and_leaves_the_rest_to_people(checkout: Path) -> None:
    (apply,) = steps(FOLDER / "zlayout-nightly.yml", "apply")
    workflow = yaml.safe_load((FOLDER / "zlayout-nightly.yml").read_text())
    condition = workflow["jobs"]["apply"]["if"]
    for needed in (
        "!cancelled()",
        "outputs.has_changes == 'true'",
        "ref_name == github.event.repository.default_branch",
    ):
        assert needed in condition
    real = BIN / "zlayout"
    (checkout / "zlayout").write_text(
        f'#!/bin/sh\nif [ "$1" = apply ]; then echo "$*" >> applied; else exec {real} "$@"; fi\n'
    )
    (checkout / "zlayout").chmod(0o755)
    assert shell(apply, checkout).returncode == 0
    (said,) = (checkout / "applied").read_text().splitlines()
    assert said == "apply --auto-approve --max-rewrite-bytes 200GiB --report html=applied.html"


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
def test_the_step_of_the_page_sends_what_drift_found(checkout: Path, statuses: list[int], sent: int, code: int) -> None:
    section = OPERATE.read_text().partition("## Notifications\n")[2]
    drift, notify = yaml.safe_load(section.partition("```yaml\n")[2].partition("```")[0])
    assert shell(drift, checkout).returncode == 2
    assert re.fullmatch(r"\$\{\{ failure\(\) && steps.drift.outputs.exit_code != '0' \}\}", notify["if"])
    assert "exit_code=2" in (checkout / "outputs").read_text()
    with serving(Hook(statuses)) as server:
        done = shell(notify, checkout, f"http://127.0.0.1:{server.server_port}/services/the-token")
        assert done.returncode == code
        assert len(server.bodies) == sent
    assert "lake.db.t" in json.loads(server.bodies[-1])["text"]
    assert "the-token" not in done.stdout + done.stderr
