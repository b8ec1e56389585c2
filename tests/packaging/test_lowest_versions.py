"""Unit tests on the lowest versions that pyproject.toml allows of every direct dependency.

Spark is linked from the installed environment instead of being downloaded again (450 MB): `test_oldest_spark` runs the
oldest one. What tests themselves need is as in requirements.lock.
"""

import os
import re
import sysconfig
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.environments import BIN, ROOT, environment, run

ENGINES = ("pyspark", "py4j")
EXTRAS = ("--extra", "report", "--extra", "metrics", "--extra", "sql")
TOOLS = ("pytest", "pytest-xdist", "hypothesis", "jsonschema", "lxml", "markdown-it-py", "moto", "pandas", "thrift")
# What calls most of the dependencies; the others use numpy and Arrow as these do.
DAILY = ("workload", "report", "cli/test_commands.py", "cli/test_advise.py")
OTHERS = ("spec", "formats", "predicate", "table", "curve", "planner", "rewrite", "session", "cli")


@pytest.mark.parametrize(
    "tests", [pytest.param(DAILY, id="some"), pytest.param(OTHERS, id="others", marks=pytest.mark.long)]
)
def test_unit_tests_pass_on_the_lowest_versions(tmp_path: Path, tests: Sequence[str]) -> None:
    lowest = tmp_path / "lowest.txt"
    # What these depend on is resolved together with the tools.
    options = ["--quiet", "--no-deps", "--resolution", "lowest-direct", *EXTRAS]
    compile_command = [BIN / "uv", "pip", "compile", *options]
    run([*compile_command, "--python", BIN / "python", ROOT / "pyproject.toml", "-o", lowest], tmp_path)
    for name, version in re.findall(r'^  "([a-z0-9-]+)[^">]*>=([0-9.]+)', (ROOT / "pyproject.toml").read_text(), re.M):
        assert re.search(rf"^{name}=={re.escape(version)}(\.0)*$", lowest.read_text(), re.M), f"{name} {version}"
    packages_of_tests = [*EXTRAS, "-r", ROOT / "pyproject.toml", *map(locked, TOOLS)]
    python = environment(tmp_path / "env", "--constraints", lowest, *packages_of_tests)
    packages = next((tmp_path / "env/lib").iterdir()) / "site-packages"
    for engine in ENGINES:
        os.symlink(Path(sysconfig.get_path("purelib")) / engine, packages / engine)
    options = ["-n", "2", "-p", "no:cacheprovider", "-W", "ignore::DeprecationWarning:typer"]  # of the newest click
    command = [python, "-m", "pytest", *options, *(f"tests/unit/{name}" for name in tests)]
    run(command, ROOT, PYTHONPATH=str(ROOT))


def locked(name: str) -> str:
    """The requirement of a package as requirements.lock has it, or its name alone."""
    found = re.search(rf"^{name}==\S+", (ROOT / "requirements.lock").read_text(), re.M)
    return found[0] if found else name
