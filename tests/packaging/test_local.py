"""The extra `local` brings everything: README's first commands lay out a table without Java, Spark and compilers."""

import os
import re
import shlex
import shutil
from pathlib import Path

import pytest
from support.environments import ROOT, environment, run

MAKE_TABLE = """
import pyarrow as pa, pyarrow.compute as pc
from deltalake import write_deltalake
for first in range(8):
    ids = pa.array([(first + 8 * n) * 7919 % 8000 for n in range(1000)])
    write_deltalake("warehouse/db/events", pa.table({"id": ids, "day": pc.divide(ids, 100)}), mode="append")
"""
HIDDEN = re.compile(r"java|jar$|spark|(.*-)?(gcc|g\+\+|c\+\+|cpp|clang|rustc|cargo|ld|as|make)\b|cc$|c89|c99|f77")
# The options with which README's commands ask nothing.
OPTIONS = {
    "init": "--format delta --table lake.db.events --columns id,day --warehouse warehouse --no-workflows",
    "plan": "",
    "apply": "--auto-approve",
}


def hidden(folder: Path) -> str:
    """A PATH with every program of this machine's PATH but Java, Spark and compilers."""
    folder.mkdir()
    for place in reversed(os.environ["PATH"].split(os.pathsep)):
        for program in Path(place).iterdir() if Path(place).is_dir() else ():
            if not HIDDEN.match(program.name) and not (folder / program.name).is_symlink():
                (folder / program.name).symlink_to(program)
    return str(folder)


def commands_of_readme() -> list[list[str]]:
    """The commands of the section that installs zlayout, up to the first table."""
    section = (ROOT / "README.md").read_text().partition("## Install\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", section, re.DOTALL)
    return [shlex.split(line, comments=True) for line in "".join(blocks).splitlines()]


def test_the_first_commands_of_the_readme_lay_out_a_table(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", hidden(tmp_path / "bin"))
    for name in ("JAVA_HOME", "ZLAYOUT_JRE", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    assert not any(map(shutil.which, ("java", "spark-submit", "cc", "gcc", "make")))
    (pip, *zlayout) = commands_of_readme()
    assert pip == ["pip", "install", "zlayout[local]"]
    assert [name for _, name in zlayout] == list(OPTIONS)
    python = environment(tmp_path / "env", f"zlayout[local] @ {wheel.as_uri()}")
    project = tmp_path / "project"
    project.mkdir()
    run([python, "-c", MAKE_TABLE], project)
    for program, name in zlayout:
        run([python.parent / program, name, *OPTIONS[name].split()], project)
    run([python.parent / "zlayout", "plan", "--detailed-exitcode"], project)  # exit code 0: nothing to do
