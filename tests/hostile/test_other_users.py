"""A zlayout.yaml that another user put where a command searches, such as /tmp: it is not used unless it is named."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hostile.asking import ask

import zlayout
from zlayout.errors import SpecError

ME, OTHER, ROOT = 4711, 4712, 0
PROJECT = "version: 1\ncatalogs:\n  lake: {format: delta, warehouse: ./w}\n"
LAYOUT = "version: 1\ntable: lake.db.t\nzorder: {columns: [a]}\n"
Owned = Callable[..., None]


@pytest.fixture
def owned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Owned:
    """Files have the owners and modes that are set here; all others belong to this user."""
    known: dict[str, tuple[int, int | None]] = {}

    def changed(real: Callable[..., os.stat_result]) -> Callable[..., os.stat_result]:
        def call(path: Any, *rest: Any, **named: Any) -> os.stat_result:
            found = real(path, *rest, **named)
            if isinstance(path, int) or not str(os.fspath(path)).startswith(str(tmp_path)):
                return found
            uid, mode = known.get(str(path), (ME, None))
            fields = list(found)
            fields[4] = uid
            fields[0] = fields[0] if mode is None else (fields[0] & ~0o7777) | mode
            return os.stat_result(fields)

        return call

    monkeypatch.setattr(os, "geteuid", lambda: ME)
    monkeypatch.setattr(os, "stat", changed(os.stat))
    monkeypatch.setattr(os, "lstat", changed(os.lstat))

    def give(path: Path, uid: int, mode: int | None = None) -> None:
        known[str(path)] = uid, mode

    return give


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A folder like /tmp, with a project in it, and folders below."""
    folder = tmp_path / "shared"
    (folder / "layouts").mkdir(parents=True)
    (folder / "zlayout.yaml").write_text(PROJECT)
    (folder / "layouts" / "a.yaml").write_text(LAYOUT)
    (folder / "mine" / "deep").mkdir(parents=True)
    return folder


COMMANDS = [
    ["validate"], ["plan"], ["drift"], ["apply", "--auto-approve"], ["doctor"], ["inspect", "lake.db.t"],
    ["import", "lake.db.u"], ["workload", "import", "q.sql"], ["history", "lake.db.t"],
    ["advise", "lake.db.t", "--workload", "q.sql"], ["rollback", "lake.db.t", "--auto-approve"],
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: c[0])
def test_no_command_uses_it_from_a_folder_below(
    command: list[str], shared: Path, owned: Owned, monkeypatch: pytest.MonkeyPatch
) -> None:
    owned(shared, ROOT, 0o1777)
    owned(shared / "zlayout.yaml", OTHER)
    monkeypatch.chdir(shared / "mine" / "deep")
    answer = ask(*command)
    assert answer.code == 1
    said = " ".join(answer.err.split())
    assert f"ZL087 {shared}/zlayout.yaml was found but not named, and it belongs to another user (uid {OTHER})" in said
    assert f"--project {shared}" in said


def test_it_is_not_used_in_the_shared_folder_itself_unless_it_is_named(
    shared: Path, owned: Owned, monkeypatch: pytest.MonkeyPatch
) -> None:
    owned(shared, ROOT, 0o1777)
    owned(shared / "zlayout.yaml", OTHER)
    monkeypatch.chdir(shared)
    assert "ZL087" in ask("validate").err
    with pytest.raises(SpecError, match="ZL087"):
        zlayout.load_project()
    for named in (["."], [str(shared)], ["zlayout.yaml"]):
        assert ask("validate", "--project", *named).code == 0
    assert zlayout.load_project(shared).layouts


@pytest.mark.parametrize(
    ("folder", "file", "start", "mode", "used"),
    [
        (ME, ME, ME, 0o755, True),
        (ME, ME, ME, 0o777, True),  # their own folder
        (ROOT, ROOT, ME, 0o755, True),  # an image with the project, which runs as a user
        (ROOT, ROOT, ME, 0o775, True),
        (ROOT, ROOT, ME, 0o1777, False),
        (ROOT, ME, ME, 0o1777, False),  # layouts of others
        (OTHER, OTHER, OTHER, 0o755, True),  # a checkout in a container
        (OTHER, OTHER, ME, 0o755, False),
        (OTHER, ME, ME, 0o755, False),
        (ME, OTHER, ME, 0o755, False),
    ],
)
def test_owners(
    folder: int, file: int, start: int, mode: int, used: bool, shared: Path, owned: Owned,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    owned(shared, folder, mode)
    owned(shared / "zlayout.yaml", file)
    owned(shared / "mine", start)
    monkeypatch.chdir(shared / "mine")
    answer = ask("validate")
    assert answer.code == (0 if used else 1)
    assert ("ZL087" in answer.err) is not used
    assert ask("validate", "--project", str(shared)).code == 0


@pytest.mark.parametrize(("folder", "file", "used"), [(OTHER, OTHER, True), (ROOT, ME, True), (ROOT, OTHER, False)])
def test_owners_of_the_working_directory(
    folder: int, file: int, used: bool, shared: Path, owned: Owned, monkeypatch: pytest.MonkeyPatch
) -> None:
    owned(shared, folder, 0o1777)
    owned(shared / "zlayout.yaml", file)
    monkeypatch.chdir(shared)
    assert ask("validate").code == (0 if used else 1)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can run a process of another user")
def test_real_users(shared: Path) -> None:
    """As root, below a folder of another user."""
    os.chown(shared, OTHER, OTHER)
    os.chown(shared / "zlayout.yaml", OTHER, OTHER)
    for arguments, code in (["validate"], 1), (["validate", "--project", str(shared)], 0):
        command = [sys.executable, "-m", "zlayout", *arguments]
        done = subprocess.run(command, cwd=shared / "mine", capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        assert ("ZL087" in done.stderr) is bool(code)
