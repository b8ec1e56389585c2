"""Links that a pull request plants where commands write: the files to which they lead stay as they are."""

import ast
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hostile.asking import ask
from support.sources import PACKAGE, SOURCES, nodes
from unit.advisor.tables import sample_of

from zlayout.report.formats import REPORTERS
from zlayout.table.samples import KeySample

QUERIES = "SELECT * FROM lake.db.orders WHERE a = 1;\n"
# Where files are written without zlayout.session.files, and why a link cannot choose another file there.
OTHER_WRITERS = {
    "session/files.py": "itself",
    "formats/delta/read/log.py": "in a new folder of tempfile, which only the user can enter",
    "session/init.py": "in a new folder of tempfile, which only the user can enter",
    "spark/arrow.py": "in a new folder of tempfile, which only the user can enter",
    "spark/jvm.py": "in a new folder of tempfile, which only the user can enter",
    "spark/session.py": "a new file of tempfile; and a copy of an open descriptor",
    "spark/jars.py": "a new file of tempfile in the cache folder of the user, renamed when its checksum is correct",
    "cli/main.py": "the null device",
    "reading.py": "opened for reading",
}
WRITING = {
    "write_text", "write_bytes", "touch", "copyfile", "copyfileobj", "copytree", "mkstemp", "symlink_to", "hardlink_to",
    "rename", "OSFile",
}  # fmt: skip


@pytest.fixture
def canary(project: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file outside of the project in the current folder, which in the end has its content."""

    def draw(*arguments: Any) -> KeySample:
        keys = {name: pa.array(range(100), pa.int64()) for name in arguments[3]}
        return sample_of(keys, np.zeros(100), 1)

    monkeypatch.setattr("zlayout.session.advise.draw_sample", draw)
    monkeypatch.setattr("zlayout.session.sampling.SMALL_BYTES", 0)
    outside = tmp_path_factory.mktemp("outside")
    (outside / "canary").write_text("kept")
    (project / "q.sql").write_text(QUERIES)
    yield outside / "canary"
    assert (outside / "canary").read_text() == "kept"
    assert os.listdir(outside) == ["canary"]


COMMANDS = {
    "plan --out": ["plan", "--out", "link"],
    **{f"--report {name}": ["plan", "--report", f"{name}=link"] for name in REPORTERS},
    "drift --report": ["drift", "--report", "json=link"],
    "advise --out": ["advise", "lake.db.orders", "--workload", "q.sql", "--out", "link"],
    "simulate --out": ["simulate", "lake.db.orders", "--workload", "q.sql", "--columns", "a", "--out", "link"],
    "import --out": ["import", "lake.db.orders", "--columns", "a", "--out", "link"],
    "workload import --out": ["workload", "import", "q.sql", "--out", "link", "--replace"],
}


@pytest.mark.parametrize("target", ["canary", "none"])
@pytest.mark.parametrize("name", COMMANDS)
def test_a_planted_link_is_refused_by_name(name: str, target: str, project: Path, canary: Path) -> None:
    if name == "import --out":
        (project / "layouts" / "orders.yaml").unlink()
    Path("link").symlink_to(canary.with_name(target))
    answer = ask(*COMMANDS[name])
    assert answer.code == 1
    assert ("ZL063" if name == "import --out" and target == "canary" else "ZL086") in answer.err
    assert Path("link").is_symlink()


@pytest.mark.parametrize("name", COMMANDS)
def test_a_planted_folder_is_refused_by_name(name: str, project: Path, canary: Path) -> None:
    if name == "import --out":
        (project / "layouts" / "orders.yaml").unlink()
    Path("build").symlink_to(canary.parent)
    answer = ask(*[argument.replace("link", "build/new") for argument in COMMANDS[name]])
    assert answer.code == 1
    assert "ZL086" in answer.err


@pytest.mark.parametrize("variable", ["GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT"])
@pytest.mark.usefixtures("project")
def test_the_files_of_github_are_not_appended_through_a_link(
    variable: str, canary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("link").symlink_to(canary)
    monkeypatch.setenv(variable, str(Path("link").absolute()))
    assert "ZL086" in ask("drift").err


def test_the_folder_of_imported_layouts_is_no_link(project: Path, canary: Path) -> None:
    (project / "layouts" / "orders.yaml").unlink()
    (project / "layouts").rmdir()
    (project / "layouts").symlink_to(canary.parent)
    assert "ZL086" in ask("import", "lake.db.orders", "--columns", "a").err


@pytest.mark.parametrize("planted", ["zlayout.yaml", "layouts", ".zlayout", ".github", ".github/workflows"])
def test_init_writes_through_no_link(planted: str, project: Path, canary: Path) -> None:
    (project / "new" / ".github").mkdir(parents=True)
    link = project / "new" / planted
    if link.exists():
        link.rmdir()
    link.symlink_to(canary.with_name("none") if planted == "zlayout.yaml" else canary.parent)
    before = sorted(path for path in (project / "new").rglob("*"))
    printed = ask("init", "new", "--offline", "--table", "lake.db.t").err.split()
    assert ("ZL047" if planted == "zlayout.yaml" else "ZL086") in printed
    assert [path for path in (project / "new").rglob("*") if path.is_file()] == []
    assert link in before


def test_the_database_of_the_history_and_its_journals_are_no_links(project: Path, canary: Path) -> None:
    text = (project / "zlayout.yaml").read_text()
    (project / "zlayout.yaml").write_text(text + "history: {}\n")
    (project / ".zlayout").mkdir()
    (project / ".zlayout" / "history.db").symlink_to(canary.with_name("none"))
    assert "ZL051" in ask("plan").err
    (project / ".zlayout" / "history.db").unlink()
    for ending in ("-wal", "-shm", "-journal"):
        link = project / ".zlayout" / f"history.db{ending}"
        link.symlink_to(canary.with_name("none"))
        ask("plan")
        link.unlink()


def test_every_other_writer_is_known() -> None:
    """A new one fails this test: it must use zlayout.session.files, or be listed with the reason."""
    found = set()
    for path in SOURCES:
        for node in nodes(path):
            if isinstance(node, ast.Call) and _writes(node):
                found.add(path.relative_to(PACKAGE).as_posix())
    assert found <= set(OTHER_WRITERS)
    assert all((PACKAGE / name).exists() for name in OTHER_WRITERS)


def _writes(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name) and call.func.value.id == "os":
        return name in ("open", "replace", "rename", "link", "symlink")
    if name != "open":
        return name in WRITING
    modes = [a.value for a in (*call.args, *(k.value for k in call.keywords)) if isinstance(a, ast.Constant)]
    return any(isinstance(mode, str) and set(mode) & set("wax+") and set(mode) <= set("rwaxbt+") for mode in modes)
