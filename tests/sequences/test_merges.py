"""From a pull request to the applied plan: the scripts of the templates for GitHub and GitLab, in a real repository.

GitHub is a recording `gh` with a store of artifacts, and GitLab a server. zlayout is the real one.
"""

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from deltalake import write_deltalake
from sequences.test_ci_templates import GitLab, Job, gitlab
from support.ci import Runner, git
from support.repositories import APPLY, GitHub, Repository

import zlayout
from zlayout.cli.main import run

__all__ = ["gitlab"]

pytestmark = pytest.mark.skipif(shutil.which("jq") is None, reason="no jq here; the machines of GitHub have it")

ROWS = pa.table({"a": list(range(100)), "b": list(range(100))})
NOT_REVIEWED = "ZL451"


def layout(table: str, columns: str) -> str:
    return f"version: 1\ntable: lake.db.{table}\nzorder:\n  columns: {columns}\n"


def tables(repository: Repository, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commit a project with tables t, u and v, and layouts of t and u that were never applied."""
    monkeypatch.chdir(repository.root)
    assert run(["init", "--table", "lake.db.t", "--columns", "b", "--warehouse", "tables", "--offline"]) == 0
    for table in "tuv":
        append(table, mode="overwrite")
        append(table)
    apart = "\n# Far enough from the columns that Git merges changes of both.\n\nfiles: {target_size: 128MiB}\n"
    files = {"layouts/u.yaml": layout("u", "[b]"), "layouts/db_t.yaml": layout("t", "[b]") + apart}
    files |= {".zlayout/requirements-plan.txt": "", ".gitignore": "tables/\nzlayout-*/\n*.html\n"}
    for path, text in files.items():
        (repository.root / path).write_text(text)
    repository.commit()


def append(table: str, mode: Any = "append") -> None:
    """Write to a table of the repository in the working directory."""
    write_deltalake(f"tables/db/{table}", ROWS, mode=mode)


def plan(path: Path) -> dict[str, dict[str, Any]]:
    return {table["table"]: table for table in json.loads(path.read_text())["tables"]}


@pytest.fixture
def github(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> GitHub:
    github = GitHub(Runner(tmp_path))
    tables(github, monkeypatch)
    return github


def test_the_reviewed_plan_of_a_branch_is_applied(github: GitHub) -> None:
    """The comment and the plan have the changed table, and not the backlog."""
    head = github.branch("change-$(touch${IFS}pwned)", {"layouts/db_t.yaml": layout("t", "[a, b]")})
    github.pull(7, head)
    reviewed = plan(Path(github.runner.outputs["plan"]["reports"]) / "plan.json")
    assert "lake.db.t" in github.runner.posted
    github.merged(7, head, github.merge(head))
    append("t")
    merged = plan(github.push())
    assert list(merged) == list(reviewed) == ["lake.db.t"]
    assert merged["lake.db.t"]["requirements"] == reviewed["lake.db.t"]["requirements"]
    assert github.posts == []
    assert github.runner.outputs["plan"]["has_changes"] == "true"
    assert not list(github.root.rglob("pwned"))


def test_apply_gets_exactly_the_plan_that_was_approved(github: GitHub) -> None:
    head = github.branch("change", {"layouts/db_t.yaml": layout("t", "[a, b]")})
    github.pull(7, head)
    github.merged(7, head, github.merge(head))
    approved = github.push()
    assert yaml.safe_load(APPLY.read_text())["jobs"]["apply"]["environment"] == "zlayout"
    said = github.approve(approved)
    file, reports = github.runner.temp / "merged/plan.json", Path(github.runner.outputs["apply"]["reports"])
    report = f"html={reports / 'applied.html'}"
    assert said == ["apply", str(file), "--stale", "compatible", "--auto-approve", "--report", report]
    project = zlayout.load_project(github.root)
    assert not zlayout.read_plan(project, file).document.exit_code
    append("t", mode="overwrite")
    assert "the plan is stale" in str(zlayout.read_plan(project, file))


def test_a_fork_is_told_what_happens_and_its_plan_is_not_used(github: GitHub) -> None:
    head = github.branch("change", {"layouts/db_t.yaml": layout("t", "[a, b]")})
    github.pull(6, head)  # what the fork would store
    (stored,) = json.loads((github.store / "artifacts.json").read_text())
    forged = zipfile.ZipFile(github.store / f"{stored['id']}.zip").read("plan.json")
    (github.store / "artifacts.json").unlink()
    (github.store / "posts.json").unlink()
    assert "from a fork, which gets no credentials" in github.pull(7, head, own=False)
    assert not (github.store / "posts.json").exists()
    github.upload(f"zlayout-plan-{head}", {"plan.json": forged}, head, repository=2)
    commit = github.merge(head)
    for own in (False, True):  # neither by its pull request, nor as the plan of another one with the same commit
        (github.store / "pulls.json").unlink(missing_ok=True)
        github.merged(7, head, commit, own=own)
        merged = plan(github.push(succeeds=False))
        assert NOT_REVIEWED in [d["code"] for d in merged["lake.db.t"]["diagnostics"]]
        assert ("is from a fork, and plans of forks are not used" in github.said) != own
        assert ("No plan is stored of the last commit of pull request 7" in github.said) == own
    number, comment = github.posts[0]
    assert number == "7"
    assert "Tables of this merge were planned again" in comment
    assert "https://github.com/owner/name/actions/runs/5" in comment


def test_after_a_force_push_the_plan_of_the_last_commit_counts(github: GitHub) -> None:
    first = github.branch("change", {"layouts/db_t.yaml": layout("t", "[a]")})
    github.pull(7, first)
    second = github.branch("change", {"layouts/db_t.yaml": layout("t", "[a, b]")})
    commit = github.merge(second)
    git(github.root, "update-ref", "refs/heads/main", f"{commit}^1")
    github.pull(7, second)
    git(github.root, "update-ref", "refs/heads/main", commit)
    github.merged(7, second, commit)
    assert NOT_REVIEWED not in github.push(succeeds=False).read_text()
    (github.store / f"{101}.zip").unlink()
    artifacts = json.loads((github.store / "artifacts.json").read_text())
    (github.store / "artifacts.json").write_text(json.dumps(artifacts[:1]))  # the run of the last commit did not end
    assert NOT_REVIEWED in github.push().read_text()
    assert "No plan is stored of the last commit" in github.said


@pytest.mark.parametrize("how", ["--no-ff", "--squash"])
def test_several_merges_of_one_push_keep_their_plans(github: GitHub, how: str) -> None:
    """As a merge queue makes them, and with squashes, which are commits that no pull request had."""
    heads = {
        7: github.branch("one", {"layouts/db_t.yaml": layout("t", "[a, b]")}),
        8: github.branch("two", {"layouts/v.yaml": layout("v", "[b, a]")}),
    }
    for number, head in heads.items():
        github.pull(number, head)
    for number, head in heads.items():
        github.merged(number, head, github.merge(head, how))
    github.succeeded(git(github.root, "rev-parse", "main~2").strip())
    text = github.push().read_text()
    assert NOT_REVIEWED not in text
    assert '"lake.db.t"' in text
    assert '"lake.db.v"' in text
    assert '"lake.db.u"' not in text


def test_two_pull_requests_on_one_table_are_planned_again(github: GitHub) -> None:
    text = (github.root / "layouts/db_t.yaml").read_text()
    one = github.branch("one", {"layouts/db_t.yaml": text.replace("[b]", "[b, a]")})
    two = github.branch("two", {"layouts/db_t.yaml": text.replace("128MiB", "64MiB")})
    for number, head in ((7, one), (8, two)):
        github.pull(number, head)
    github.merged(7, one, github.merge(one))
    assert NOT_REVIEWED not in github.push(succeeds=False).read_text()  # the approval is still awaited
    github.merged(8, two, github.merge(two))
    merged = plan(github.push())["lake.db.t"]
    (warning,) = (d["message"] for d in merged["diagnostics"] if d["code"] == NOT_REVIEWED)
    assert "the layout spec changed" in warning
    assert [number for number, _ in github.posts] == ["8"] or [number for number, _ in github.posts] == ["7", "8"]


def test_what_changed_since_the_review_is_said_and_asked_again(github: GitHub) -> None:
    head = github.branch("change", {"layouts/db_t.yaml": layout("t", "[a, b]")})
    github.pull(7, head)
    github.merged(7, head, github.merge(head))
    append("t", mode="overwrite")
    append("t")
    merged = github.push()
    assert plan(merged)["lake.db.t"]["requirements"]["version"] == 3
    ((number, comment),) = github.posts
    assert number == "7"
    assert "2 pinned files were changed or removed" in " ".join(comment.split())
    assert NOT_REVIEWED in comment


def test_a_run_that_did_not_succeed_is_made_up_for(github: GitHub) -> None:
    """As if the approval was refused, or the run was cancelled while another one waited."""
    github.succeeded(github.merge("main"))
    one = github.branch("one", {"layouts/db_t.yaml": layout("t", "[a, b]")})
    github.pull(7, one)
    github.merged(7, one, github.merge(one))
    github.push(succeeds=False)
    github.succeeded(github.head, "workflow_dispatch")
    two = github.branch("two", {"layouts/v.yaml": layout("v", "[b, a]")})
    github.pull(8, two)
    github.merged(8, two, github.merge(two))
    merged = github.push()
    assert list(plan(merged)) == ["lake.db.t", "lake.db.v"]
    assert NOT_REVIEWED not in merged.read_text()
    assert list(plan(github.push(select="lake.db.u"))) == ["lake.db.u"]


def test_the_first_commit_of_a_repository_is_planned_whole(github: GitHub) -> None:
    git(github.root, "checkout", "--quiet", "--orphan", "first")
    github.commit()
    git(github.root, "branch", "--force", "main", "first")
    assert list(plan(github.push())) == ["lake.db.t", "lake.db.u"]
    assert github.posts == []


def test_a_plan_that_failed_was_not_reviewed(github: GitHub) -> None:
    head = github.branch("change", {"layouts/v.yaml": layout("v", "[a, b]")})
    (github.root / "tables/db/v").rename(github.root / "tables/away")
    github.pull(7, head, code=1)
    (github.root / "tables/away").rename(github.root / "tables/db/v")
    github.merged(7, head, github.merge(head))
    assert "no reviewed plan changes the table" in github.push().read_text()


def test_an_empty_plan_needs_no_approval(github: GitHub) -> None:
    text = "# a comment\n" + (github.root / "layouts/db_t.yaml").read_text()
    head = github.branch("change", {"layouts/db_t.yaml": text})
    github.pull(7, head)
    github.merged(7, head, github.merge(head))
    assert plan(github.push()) == {}
    assert github.runner.outputs["plan"]["has_changes"] == "false"
    condition = yaml.safe_load(APPLY.read_text())["jobs"]["apply"]["if"]
    assert "needs.plan.outputs.has_changes == 'true'" in condition


@pytest.mark.parametrize("files", [{}, {"plan.json": b"{"}, {"../plan.json": b"{}"}, {"plan.json": b" " * 40_000_000}])
def test_a_hostile_artifact_is_an_unreviewed_plan(github: GitHub, files: dict[str, bytes]) -> None:
    head = github.branch("change", {"layouts/db_t.yaml": layout("t", "[a, b]")})
    github.upload(f"zlayout-plan-{head}", files, head)
    github.merged(7, head, github.merge(head))
    before = sorted(github.root.parent.glob("*"))
    merged = github.push()
    assert NOT_REVIEWED in [d["code"] for d in plan(merged)["lake.db.t"]["diagnostics"]]
    assert "a reviewed plan is not used" in merged.read_text()
    assert sorted(github.root.parent.glob("*")) == before
    stored = Path(github.runner.outputs["reviewed"]["folder"])
    assert sum(file.stat().st_size for file in stored.iterdir()) <= 30_000_000


@pytest.mark.parametrize("case", ["reviewed", "another store", "fork", "stale", "no plan"])
def test_gitlab_applies_the_reviewed_plan(
    gitlab: GitLab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    repository = Repository(Runner(tmp_path))
    tables(repository, monkeypatch)
    head = repository.branch("change", {"layouts/db_t.yaml": layout("t", "[a, b]")})
    assert run(["plan", "changed:main", "--out", str(tmp_path / "plan.json")]) == 0
    reviewed = plan(tmp_path / "plan.json")
    commit = repository.merge(head, "--squash")
    append("t", mode="overwrite" if case == "stale" else "append")
    append("t")
    request = {"iid": 8, "state": "merged", "target_branch": "main", "target_project_id": 3}
    request["source_project_id"] = 4 if case == "fork" else 3
    gitlab.answers[f"/projects/3/repository/commits/{commit}/merge_requests"] = [
        request,
        {**request, "state": "opened"},
    ]
    stored = "/projects/3/jobs/artifacts/refs%2Fmerge-requests%2F8%2Fhead/raw/zlayout-plan/plan.json"
    if case != "no plan":
        gitlab.answers[stored] = gitlab.answers["/store"] = (tmp_path / "plan.json").read_bytes()
    if case == "another store":
        gitlab.answers[stored] = f"http://127.0.0.1:{gitlab.server_port}/store"
    done = Job(repository.runner, gitlab).run(
        "zlayout merged", CI_DEFAULT_BRANCH="main", CI_PIPELINE_URL="https://gitlab.example.org/p/1"
    )
    assert done.returncode == 0, done.stderr
    merged = plan(repository.root / "zlayout-merged/plan.json")
    assert list(merged) == ["lake.db.t"]
    same = merged["lake.db.t"]["requirements"] == reviewed["lake.db.t"]["requirements"]
    assert same == (case in ("reviewed", "another store"))
    assert (NOT_REVIEWED in (repository.root / "zlayout-merged/plan.json").read_text()) != same
    assert (None in gitlab.tokens) == (case == "another store")
    assert ("Merge request !8 is from a fork" in done.stdout) == (case == "fork")
    assert ("No plan is stored of merge request !8" in done.stdout) == (case == "no plan")
    notes = "/api/v4/projects/3/merge_requests/8/notes"
    assert [change[1] for change in gitlab.changes] == ([] if same else [notes])
