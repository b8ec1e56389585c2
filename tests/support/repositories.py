"""A repository whose pull requests and merges run the scripts of the templates, GitHub replaced by a recording `gh`."""

import io
import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import yaml
from support.ci import BIN, MARKER, TEMPLATES, Runner, git

PULL_REQUEST, APPLY = TEMPLATES / "zlayout-pull-request.yml", TEMPLATES / "zlayout-apply.yml"
NIGHTLY = TEMPLATES / "zlayout-nightly.yml"
# A `zlayout` that records the arguments of `apply`, one a line, and is otherwise the one of this environment.
RECORDING = f"""\
#!/bin/sh
[ "$1" = apply ] || exec {BIN}/zlayout "$@"
printf '%s\\n' "$@" > "$(dirname "$0")/applied"
"""


class Repository:
    """A repository with a branch `main`, which is the checkout of a runner."""

    def __init__(self, runner: Runner) -> None:
        self.runner, self.root = runner, runner.checkout
        git(self.root, "init", "--quiet", "--initial-branch=main")

    def commit(self) -> str:
        git(self.root, "add", ".")
        git(self.root, "commit", "--quiet", "--allow-empty", "-m", "change")
        return self.head

    @property
    def head(self) -> str:
        return git(self.root, "rev-parse", "HEAD").strip()

    def branch(self, name: str, files: dict[str, str], start: str = "main") -> str:
        """Commit files on a branch that is made or reset, and return the commit."""
        git(self.root, "checkout", "--quiet", "--force", "-B", name, start)
        for path, text in files.items():
            (self.root / path).write_text(text)
        return self.commit()

    def merge(self, commit: str, how: str = "--no-ff") -> str:
        """Merge a commit into main, and return the new commit."""
        git(self.root, "checkout", "--quiet", "--force", "main")
        git(self.root, "merge", "--quiet", how, "-m", "merged", commit)
        return self.commit() if how == "--squash" else self.head


class GitHub(Repository):
    """Runs the workflows of pull requests and of merges."""

    def __init__(self, runner: Runner) -> None:
        super().__init__(runner)
        self.store = runner.gh
        self.context = runner.context

    def add(self, name: str, value: Any) -> None:
        file = self.store / f"{name}.json"
        known = json.loads(file.read_text()) if file.exists() else []
        file.write_text(json.dumps([*known, value]))

    def succeeded(self, commit: str, event: str = "push") -> None:
        """Let GitHub know of a run of the workflow that succeeded."""
        self.add("runs", {"head_sha": commit, "event": event, "branch": "main", "status": "success"})

    def steps(self, file: Path, job: str) -> list[dict[str, Any]]:
        steps: list[dict[str, Any]] = yaml.safe_load(file.read_text())["jobs"][job]["steps"]
        return [step for step in steps if step.get("name") != "Install"]

    def run(self, step: dict[str, Any]) -> str:
        done = self.runner.run(step)
        assert done.returncode == 0, (step["name"], done.stdout, done.stderr)
        return done.stdout

    def pull(self, number: int, head: str, *, own: bool = True, code: int = 0) -> str:
        """Run the workflow of a pull request, and return what it prints."""
        git(self.root, "checkout", "--quiet", "--force", "--detach", "main")
        git(self.root, "merge", "--quiet", "--no-ff", "-m", "to be planned", head)
        self.context |= {
            "github.event.pull_request.number": str(number),
            "github.event.pull_request.head.sha": head,
        }
        said = ""
        for step in self.steps(PULL_REQUEST, "plan"):
            condition = str(step.get("if", ""))
            if ("full_name == github.repository" in condition) > own:
                continue
            if ("full_name != github.repository" in condition) and own:
                continue
            if step.get("name") == "Plan":
                done = self.runner.run(step)
                assert done.returncode == code, (done.stdout, done.stderr)
            elif "run" in step:
                said += self.run(step)
            elif "upload-artifact" in step["uses"] and own:
                self.upload(self.runner.evaluated(step["with"]["name"]), self.files(step), head)
        return said

    def files(self, step: dict[str, Any]) -> dict[str, bytes]:
        paths = map(Path, self.runner.evaluated(step["with"]["path"]).split())
        return {path.name: path.read_bytes() for path in paths if path.exists()}

    def upload(self, name: str, files: dict[str, bytes], head: str, repository: int = 1) -> None:
        """Store an artifact, of a run in the repository 1 or in a fork."""
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            for path, data in files.items():
                archive.writestr(path, data)
        number = len(list(self.store.glob("*.zip"))) + 100
        (self.store / f"{number}.zip").write_bytes(content.getvalue())
        run = {"head_sha": head, "repository_id": 1, "head_repository_id": repository}
        self.add("artifacts", {"id": number, "name": name, "expired": False, "workflow_run": run})

    def merged(self, number: int, head: str, commit: str, *, own: bool = True) -> None:
        """Let GitHub know of which pull request a commit of main is."""
        file = self.store / "pulls.json"
        pulls = json.loads(file.read_text()) if file.exists() else {}
        base = {"ref": "main", "repo": {"full_name": "owner/name", "default_branch": "main"}}
        head_ = {"sha": head, "repo": {"full_name": "owner/name"} if own else None}
        one = {"number": number, "merged_at": "2026-11-27", "base": base, "head": head_}
        other = {**one, "number": 99, "merged_at": None}
        file.write_text(json.dumps({**pulls, commit: [*pulls.get(commit, []), one, other]}))

    def push(self, *, succeeds: bool = True, select: str = "") -> Path:
        """Run the job `plan` after a push to main, and return the plan that is to be approved."""
        git(self.root, "checkout", "--quiet", "--force", "--detach", "main")
        self.context["inputs.select"] = select
        self.said = ""
        for step in self.steps(APPLY, "plan"):
            if step.get("name") == "Comment" and not self.runner.outputs["plan"].get("tables_not_reviewed"):
                continue
            if "run" in step:
                self.said += self.run(step)
        reports = Path(self.runner.outputs["plan"]["reports"])
        if succeeds:
            self.succeeded(self.head)
        return reports / "plan.json"

    def approve(self, plan: Path) -> list[str]:
        """Run the job `apply` with an approved plan, and return the arguments that zlayout gets."""
        merged = self.runner.temp / "merged"
        merged.mkdir(exist_ok=True)
        shutil.copy(plan, merged)
        return self.applied(APPLY)

    def applied(self, file: Path) -> list[str]:
        """Run the job `apply` of a workflow, and return the arguments that zlayout gets."""
        recording = self.store / "zlayout"
        recording.write_text(RECORDING)
        recording.chmod(0o755)
        (apply,) = (step for step in self.steps(file, "apply") if step.get("name") == "Apply")
        self.run(apply)
        recording.unlink()
        return (self.store / "applied").read_text().splitlines()

    @property
    def posts(self) -> list[tuple[str, str]]:
        """The comments that were posted, without those of plans."""
        file = self.store / "posts.json"
        posts = json.loads(file.read_text()) if file.exists() else []
        return [(path.split("/")[-2], body) for path, body in posts if not body.startswith(MARKER)]
