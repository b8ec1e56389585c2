"""What runs in CI, in releases and in images is pinned: actions by commit, packages by hash, images by digest."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
BIN = Path(sys.executable).parent
ACTION = ROOT / "action.yml"
GITLAB = ROOT / "zlayout/session/templates/zlayout.gitlab-ci.yml"
OWN = sorted((ROOT / ".github/workflows").glob("*.yml"))
EXAMPLES = sorted((ROOT / "zlayout/session/templates").glob("zlayout-*.yml"))
DOCKER = sorted((ROOT / "examples/docker").glob("*.Dockerfile"))
LOCKS = [ROOT / "requirements.lock", *sorted((ROOT / "locks").glob("*.txt"))]

of_workflows = pytest.mark.parametrize("file", [*OWN, *EXAMPLES], ids=lambda path: path.stem)
of_steps = pytest.mark.parametrize("file", [ACTION, *OWN, *EXAMPLES], ids=lambda path: path.stem)


def steps(file: Path) -> Iterator[dict[str, Any]]:
    content = yaml.safe_load(file.read_text())
    yield from content["runs"]["steps"] if file == ACTION else (s for j in content["jobs"].values() for s in j["steps"])


def scripts() -> Iterator[str]:
    """All shell scripts of workflows, templates, the action and images."""
    for file in (ACTION, *OWN, *EXAMPLES):
        yield from (step["run"] for step in steps(file) if "run" in step)
    for job in yaml.safe_load(GITLAB.read_text()).values():
        for part in ("before_script", "script", "after_script"):
            yield from job.get(part, ()) if isinstance(job, dict) else ()
    yield from (file.read_text() for file in DOCKER)


@of_steps
def test_actions_are_pinned_to_commits_and_name_their_version(file: Path) -> None:
    uses = [line.strip() for line in file.read_text().splitlines() if re.match(r"\s*(- )?uses:", line)]
    assert uses
    for line in uses:
        assert re.fullmatch(r"(- )?uses: [\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line


def test_an_action_is_pinned_to_one_commit() -> None:
    text = "".join(file.read_text() for file in (ACTION, *OWN, *EXAMPLES))
    pins = set(re.findall(r"uses: ([\w-]+/[\w-]+)\S*@([0-9a-f]{40} # \S+)", text))
    assert len(pins) == len({action for action, _ in pins})


@of_steps
def test_a_checkout_leaves_no_credentials(file: Path) -> None:
    for step in steps(file):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


@of_steps
def test_no_expression_is_in_a_script(file: Path) -> None:
    """GitHub replaces it before the shell reads the script, so that a title or a branch name would be run."""
    for step in steps(file):
        assert "${{" not in step.get("run", "")


@of_workflows
def test_each_job_has_only_permissions_that_it_names(file: Path) -> None:
    workflow = yaml.safe_load(file.read_text())
    assert workflow["permissions"] in ({}, {"contents": "read"})
    allowed = {
        "zlayout-pull-request": {("plan", "pull-requests")},
        "zlayout-apply": {("plan", "pull-requests")},
        "zlayout-nightly": {("drift", "security-events")},
        "release": {
            ("attest", "id-token"),
            ("attest", "attestations"),
            ("publish", "id-token"),
            ("release", "contents"),
        },
    }
    writes = {
        (name, permission)
        for name, job in workflow["jobs"].items()
        for permission, access in job.get("permissions", {}).items()
        if access != "read"
    }
    assert writes == allowed.get(file.stem, set())


@of_workflows
def test_no_workflow_runs_for_a_fork_with_the_rights_of_the_repository(file: Path) -> None:
    workflow = yaml.safe_load(file.read_text())
    triggers = workflow[True]  # `on` is true in YAML 1.1
    assert not {"pull_request_target", "workflow_run", "issue_comment"} & set(triggers)


def test_the_credentials_of_a_release_are_those_of_an_environment() -> None:
    jobs = yaml.safe_load((ROOT / ".github/workflows/release.yml").read_text())["jobs"]
    assert jobs["publish"]["environment"] == "pypi"
    assert jobs["build"]["permissions"] == {"contents": "read"}
    assert "secrets." not in (ROOT / ".github/workflows/release.yml").read_text()


def test_python_is_isolated_and_installs_by_hash() -> None:
    found = 0
    for script in scripts():
        for line in script.replace("\\\n", " ").splitlines():
            if line.lstrip().startswith("#"):
                continue
            for option in re.findall(r"(?:^|[\s\"(;&|/])python3?\"? (-[a-zA-Z]\S*)", line):
                assert option == "-I", line
                found += 1
            assert not re.search(r"(?<!uv )(?<!-m )\bpip3? install\b", line), line
            if re.search(r"\bpip\b.*\binstall\b", line):
                assert "--require-hashes" in line, line
    assert found > 10


@pytest.mark.parametrize("file", LOCKS, ids=lambda path: path.stem)
def test_locks_pin_versions_with_hashes(file: Path) -> None:
    requirements = re.sub(r" \\\n\s+", " ", re.sub(r"^\s*#.*\n", "", file.read_text(), flags=re.M)).splitlines()
    assert requirements
    for requirement in requirements:
        assert re.match(r"[a-z0-9._-]+==\S+ (; [^-]+ )?(--hash=sha256:[0-9a-f]{64} ?)+$", requirement), requirement


def test_what_builds_pyspark_is_installed_before_it() -> None:
    assert re.search(r"^setuptools==", (ROOT / "locks/plan.txt").read_text(), re.M)


def test_makefile_installs_by_hash() -> None:
    text = (ROOT / "Makefile").read_text().replace("\\\n", " ")
    for line in text.splitlines():
        if re.search(r"\bpip\b.*\binstall\b", line):
            assert "--require-hashes" in line or "--no-deps --no-build-isolation --editable ." in line, line


@pytest.mark.parametrize("file", DOCKER, ids=lambda path: path.stem)
def test_an_image_has_a_base_that_must_be_given_and_does_not_run_as_root(file: Path) -> None:
    text = file.read_text()
    assert re.findall(r"^(?:ARG|FROM) .*$", text, re.M) == ["ARG IMAGE", "FROM ${IMAGE}"]
    assert re.findall(r"^USER (\d+)$", text, re.M)[-1] != "0"
    assert re.search(r"IMAGE=\S+@sha256:", text)


def test_linters_find_nothing_in_images() -> None:
    assert len(DOCKER) == 2
    done = subprocess.run([BIN / "hadolint", *DOCKER], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_image_has_the_uv_of_the_lock() -> None:
    (version,) = re.findall(r"uv==(\S+)", (ROOT / "examples/docker/apply.Dockerfile").read_text())
    hashes = re.findall(r"\b[0-9a-f]{64}\b", (ROOT / "examples/docker/apply.Dockerfile").read_text())
    (locked,) = re.findall(r"^uv==(\S+) \\\n((?:    --hash=.*\n)+)", (ROOT / "requirements.lock").read_text(), re.M)
    assert version == locked[0]
    assert len(hashes) == 2
    assert all(f"--hash=sha256:{each}" in locked[1] for each in hashes)


def test_dependabot_proposes_new_versions_after_a_week() -> None:
    file = ROOT / ".github/dependabot.yml"
    command = [BIN / "check-jsonschema", "--builtin-schema", "vendor.dependabot", file]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    updates = yaml.safe_load(file.read_text())["updates"]
    assert {each["package-ecosystem"] for each in updates} == {"github-actions", "pip", "npm"}
    for each in updates:
        assert (each["schedule"]["interval"], each["cooldown"]["default-days"]) == ("weekly", 7)
        assert each["groups"]
        for folder in each.get("directories", [each.get("directory")]):
            assert (ROOT / folder.lstrip("/")).is_dir()


def test_hooks_of_pre_commit_come_from_this_repository() -> None:
    """A hook from elsewhere needs a commit as its revision."""
    for repository in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]:
        assert repository["repo"] == "local" or re.fullmatch(r"[0-9a-f]{40}", repository["rev"])


def test_go_programs_have_a_version() -> None:
    """Go compares the module with its checksum database."""
    text = (ROOT / "Makefile").read_text() + (ROOT / ".ci/run").read_text()
    assert all(re.search(r"@v\d+\.\d+\.\d+$", line) for line in text.splitlines() if " go install " in line)
