"""The kept corpus, and what cannot be kept in Git, each in a process of its own: little memory, little time."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hostile.asking import CODE, EXIT_CODES, ask, broken_promises_count
from reliability import count

CORPUS = Path(__file__).parent / "corpus"
PROJECT = "version: 1\ncatalogs:\n  lake: {format: delta, warehouse: w}\n"
LAYOUT = "version: 1\ntable: lake.a.b\nzorder:\n  columns: "
MEGABYTES = 200
ENTRY = """
import re, sys
from zlayout.cli.main import run
code = run(sys.argv[1:])
assert not {"pyspark", "py4j"} & set(sys.modules), "an engine was reached"
peak = re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]
print("PEAK", int(peak) // 1024, file=sys.stderr)
sys.exit(code)
"""
MANY = 260_000
LARGE_YAML = {
    "brackets": "[" * MANY,
    "bad_columns": LAYOUT + "[" + "1," * 85_000 + "1]",
    "lists_as_tags": LAYOUT + "[a]\ntags: [" + "[]," * 60_000 + "a]",
    "one_key": "a" * MANY + ": 1",
    "digits": LAYOUT + "[a]\nfiles: {target_size: " + "9" * 200_000 + "}",
    "where": LAYOUT + "[a]\nwhere: " + "(" * 9_990,
    "where_power": LAYOUT + "[a]\nwhere: a = 1e999999999BD",
}
LARGE_PLANS = {
    "brackets": "[" * 10_000_000,
    "lists": '{"format_version":1,"x":[' + "[]," * 3_300_000 + "1]}",
    "numbers": '{"format_version":1,"x":[' + "12345671234567," * 690_000 + "1]}",
    "keys": '{"format_version":1,' + ",".join(f'"{n:012x}":1' for n in range(580_000)) + "}",
    "strings": '{"format_version":1,"x":[' + '"abcdefghijkl",' * 690_000 + "1]}",
    "one_number": '{"format_version":' + "9" * 10_000_000 + "}",
    "deep": '{"format_version":1,"x":' + '{"a":' * 100_000 + "1" + "}" * 100_000 + "}",
}


def alone(folder: Path, *arguments: str) -> str:
    """What zlayout says about these arguments in a process of its own, held to its memory and time."""
    count("bad_inputs")
    with broken_promises_count():
        done = subprocess.run(
            [sys.executable, "-c", ENTRY, *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode in EXIT_CODES, done.stderr[-2000:]
        assert "Traceback" not in done.stderr, done.stderr[-2000:]
        assert CODE.search(done.stderr) or done.returncode == 0
        assert int(done.stderr.split()[-1]) < MEGABYTES
    return done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "layouts").mkdir()
    (tmp_path / "zlayout.yaml").write_text(PROJECT)
    return tmp_path


@pytest.mark.parametrize("name", LARGE_YAML)
def test_large_layouts(name: str, folder: Path) -> None:
    (folder / "layouts" / "a.yaml").write_text(LARGE_YAML[name])
    alone(folder, "validate")


@pytest.mark.parametrize("name", LARGE_PLANS)
def test_large_plan_files(name: str, folder: Path) -> None:
    (folder / "plan.json").write_text(LARGE_PLANS[name])
    alone(folder, "show", "plan.json")


@pytest.mark.parametrize("path", sorted(CORPUS.glob("layout/*")), ids=lambda p: p.name)
def test_kept_layouts(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (folder / "layouts" / "a.yaml").write_bytes(path.read_bytes())
    answer = ask("validate")
    assert answer.code == (0 if path.name.startswith("fine_") else 1)


@pytest.mark.parametrize("path", sorted(CORPUS.glob("project/*")), ids=lambda p: p.name)
def test_kept_projects(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    (folder / "layouts" / "a.yaml").write_text("version: 1\ntable: lake.db.t\nzorder: {columns: [a]}\n")
    assert ask("validate").code == 0  # so that what is wrong is in the kept file
    (folder / "zlayout.yaml").write_bytes(path.read_bytes())
    assert ask("validate").code == 1
    assert ask("plan").code == 1


@pytest.mark.parametrize("path", sorted(CORPUS.glob("plan/*")), ids=lambda p: p.name)
def test_kept_plan_files(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert ask("show", str(path)).code in (1, 3)
    assert ask("apply", str(path), "--auto-approve").code in (1, 3)


def _fifo(path: Path) -> None:
    os.mkfifo(path)


ODD: dict[str, Callable[[Path], None]] = {
    "a pipe": _fifo,
    "a folder": Path.mkdir,
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nothing": lambda path: path.symlink_to("nowhere"),
    "an endless device": lambda path: path.symlink_to("/dev/zero"),
    "a link out": lambda path: path.symlink_to("/etc/passwd"),
    "a link up": lambda path: path.symlink_to("../../../../../../etc/hostname"),
    "a link to the terminal": lambda path: path.symlink_to("/dev/tty"),
    "unreadable": lambda path: (path.write_text("x"), path.chmod(0))[1],
}


@pytest.mark.parametrize("kind", ODD)
def test_what_is_no_file_of_the_project(kind: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is waited for, and no word of what lies outside comes out."""
    monkeypatch.chdir(folder)
    ODD[kind](folder / "layouts" / "a.yaml")
    ODD[kind](folder / "plan.json")
    said = alone(folder, "show", "plan.json") if kind in ("a pipe", "an endless device") else ""
    for arguments in (["validate"], ["show", "plan.json"]):
        said += ask(*arguments).err
    (folder / "zlayout.yaml").unlink()
    ODD[kind](folder / "zlayout.yaml")
    said += ask("validate", "--project", "zlayout.yaml").err
    assert "root:" not in said
    if kind in ("a link out", "a link up"):
        assert said.count("ZL026") >= 2
