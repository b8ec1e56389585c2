"""`changed:REV` in repositories whose configuration, hooks and files run commands that leave a mark."""

import os
import subprocess
import tracemalloc
from pathlib import Path

import pytest
from support.git_projects import PROJECT, GitProject
from support.projects import Cli, cli

from zlayout.session import revisions

__all__ = ["cli"]

ORDERS = "table: lake.db.orders\nzorder: {columns: [a]}\n"
CONFIG = """\
[core]
    repositoryFormatVersion = 1
    fsmonitor = {run}
    hooksPath = {hooks}
    pager = {run}
    editor = {run}
    sshCommand = {run}
    askPass = {run}
    gitProxy = {run}
[extensions]
    partialClone = origin
[remote "origin"]
    url = ext::{run}
    promisor = true
    partialCloneFilter = blob:none
    uploadpack = {run}
[protocol "ext"]
    allow = always
[credential]
    helper = !{run}
[diff]
    external = {run}
[diff "hostile"]
    textconv = {run}
    command = {run}
[filter "hostile"]
    clean = {run}
    smudge = {run}
    process = {run}
    required = true
[pager]
    ls-tree = {run}
    cat-file = {run}
    merge-base = {run}
    rev-parse = {run}
[alias]
    ls-tree = !{run}
    merge-base = !{run}
[gpg]
    program = {run}
[uploadpack]
    packObjectsHook = {run}
"""
HOOKS = ("fsmonitor-watchman", "post-checkout", "post-index-change", "pre-commit", "reference-transaction")


@pytest.fixture
def canary(tmp_path: Path) -> Path:
    """A file to which the script `run` beside it appends."""
    script = tmp_path / "run"
    script.write_text(f"#!/bin/sh\necho run >> {tmp_path}/canary\nexit 1\n")
    script.chmod(0o755)
    (tmp_path / "hooks").mkdir()
    for name in HOOKS:
        (tmp_path / "hooks" / name).symlink_to(script)
    return tmp_path / "canary"


def plain_git(root: Path, *arguments: str) -> None:
    subprocess.run(["git", "-C", str(root), *arguments], capture_output=True, check=False, timeout=60)


def test_nothing_that_the_repository_names_is_run(
    canary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    project = GitProject(tmp_path / "repository", orders=ORDERS)
    project.write(**{".gitattributes": "*.yaml diff=hostile filter=hostile\n"})
    project.commit()
    base = project.git("rev-parse", "HEAD:layouts/orders.yaml")
    project.layout("orders", ORDERS.replace("[a]", "[b]"))
    config = project.root / ".git/config"
    config.write_text(CONFIG.format(run=tmp_path / "run", hooks=tmp_path / "hooks"))
    plain_git(project.root, "status")
    assert canary.exists()  # the configuration is in effect
    canary.unlink()

    monkeypatch.chdir(project.root)
    assert "lake.db.orders" in cli("plan", "changed:HEAD", "--json", code=1).out
    assert not canary.exists()

    blob = project.root / ".git/objects" / base[:2] / base[2:]
    blob.chmod(0o644)
    blob.unlink()
    plain_git(project.root, "cat-file", "blob", base)
    assert canary.exists()  # Git fetches what is missing
    canary.unlink()
    assert "ZL095" in cli("plan", "changed:HEAD", code=1).err
    assert not canary.exists()


def test_the_files_of_a_bare_repository_in_the_project_are_no_repository(
    canary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    project = GitProject(tmp_path / "repository", other=ORDERS)
    folder = project.root / "sub"
    project.write(**{"sub/zlayout.yaml": PROJECT, "sub/layouts/orders.yaml": f"version: 1\n{ORDERS}"})
    subprocess.run(["git", "init", "--quiet", "--bare", str(folder)], check=True)
    (folder / "config").write_text(
        CONFIG.format(run=tmp_path / "run", hooks=tmp_path / "hooks") + "[core]\n bare = true\n"
    )
    monkeypatch.chdir(folder)
    assert "ZL093" in cli("plan", "changed:HEAD", code=1).err
    assert not canary.exists()


def test_names_in_a_crafted_tree_lead_to_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli
) -> None:
    """Git writes no such trees, but reads them."""
    project = GitProject(tmp_path / "repository", orders=ORDERS)
    (tmp_path / "outside.yaml").write_text("a: b\n")
    blob = bytes.fromhex(project.git("rev-parse", "HEAD:layouts/orders.yaml"))
    entries = [(b"../outside.yaml", b"100644"), (b"/etc/passwd", b"100644"), (b"..", b"120000")]
    tree = b"".join(mode + b" " + name + b"\0" + blob for name, mode in entries)
    command = ["git", "-C", str(project.root), "hash-object", "-t", "tree", "-w", "--literally", "--stdin"]
    made = subprocess.run(command, input=tree, capture_output=True, check=True).stdout.decode().strip()
    commit = project.git("commit-tree", made, "-p", "HEAD", "-m", "crafted")
    project.git("update-ref", "HEAD", commit)
    monkeypatch.chdir(project.root)
    before = sorted(os.listdir(tmp_path))
    assert "lake.db.orders" in cli("plan", "changed:HEAD", "--json", code=1).out
    assert sorted(os.listdir(tmp_path)) == before


def test_large_objects_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cli: Cli) -> None:
    project = GitProject(tmp_path / "repository", orders=ORDERS)
    monkeypatch.chdir(project.root)
    project.write(**{"layouts/large.yaml": "# \n" * 10_000_000})
    project.commit()
    project.remove("large")
    tracemalloc.start()
    printed = cli("plan", "changed:HEAD", code=1).err
    assert tracemalloc.get_traced_memory()[1] < 20_000_000
    tracemalloc.stop()
    assert "ZL096" in printed
    assert "ZL004" in printed
    project.layout("orders", ORDERS.replace("[a]", "[b]"))
    monkeypatch.setattr(revisions, "MAX_OUTPUT_BYTES", 100)
    assert "more than 100 bytes of names" in cli("plan", "changed:main", code=1).err
