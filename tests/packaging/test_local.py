"""The extra `local` brings everything: without Java on the machine, two commands lay out a first table."""

import os
import shutil
from pathlib import Path

from support.environments import environment, run

MAKE_TABLE = """
import pyarrow as pa, pyarrow.compute as pc
from deltalake import write_deltalake
for first in range(8):
    ids = pa.array([(first + 8 * n) * 7919 % 8000 for n in range(1000)])
    write_deltalake("warehouse/db/events", pa.table({"id": ids, "day": pc.divide(ids, 100)}), mode="append")
"""
JAVA = ("java", "javac", "javaw")


def without_java(folder: Path) -> str:
    """A PATH with every program of this machine's PATH but Java."""
    folder.mkdir()
    for place in reversed(os.environ["PATH"].split(os.pathsep)):
        for program in Path(place).iterdir() if Path(place).is_dir() else ():
            if program.name not in JAVA and not (folder / program.name).is_symlink():
                (folder / program.name).symlink_to(program)
    return str(folder)


def test_a_first_table_is_laid_out_without_java_on_the_machine(wheel: Path, tmp_path: Path) -> None:
    python = environment(tmp_path / "env", f"zlayout[local] @ {wheel.as_uri()}")
    project, zlayout = tmp_path / "project", python.parent / "zlayout"
    project.mkdir()
    environ = {"PATH": without_java(tmp_path / "bin"), "JAVA_HOME": ""}
    assert shutil.which("java", path=environ["PATH"]) is None
    run([python, "-c", MAKE_TABLE], project, **environ)
    init = [
        "init",
        "--format",
        "delta",
        "--table",
        "lake.db.events",
        "--columns",
        "id,day",
        "--warehouse",
        "warehouse",
        "--no-workflows",
    ]
    run([zlayout, *init], project, **environ)
    run([zlayout, "apply", "--auto-approve"], project, **environ)
    run([zlayout, "plan", "--detailed-exitcode"], project, **environ)  # exit code 0: nothing to do
