"""Unit tests on the lowest versions that pyproject.toml allows of every direct dependency.

Spark is linked from the installed environment instead of being downloaded again (450 MB): `test_oldest_spark` runs the
oldest one. What tests themselves need is as in requirements.lock.
"""

from __future__ import annotations

import os
import re
import sysconfig
from pathlib import Path

from support.environments import BIN, ROOT, environment, run

ENGINES = ("pyspark", "py4j")
TOOLS = ("pytest", "pytest-xdist", "hypothesis", "lxml", "markdown-it-py", "pandas", "thrift")
# Everything that calls a dependency. The curve and planner packages use numpy and Arrow as the others do.
TESTS = ("spec", "predicate", "workload", "table", "formats", "report", "cli/test_commands.py", "cli/test_advise.py")


def test_unit_tests_pass_on_the_lowest_versions(tmp_path: Path) -> None:
    lowest = tmp_path / "lowest.txt"
    compile_command = [BIN / "uv", "pip", "compile", "--quiet", "--resolution", "lowest-direct", "--extra", "report"]
    run([*compile_command, "--python", BIN / "python", ROOT / "pyproject.toml", "-o", lowest], tmp_path)
    for name, version in re.findall(r'^  "([a-z0-9-]+)[^">]*>=([0-9.]+)', (ROOT / "pyproject.toml").read_text(), re.M):
        assert re.search(rf"^{name}=={re.escape(version)}(\.0)*$", lowest.read_text(), re.M), f"{name} {version}"
    python = environment(tmp_path / "env", "-r", lowest, *map(locked, TOOLS))
    packages = next((tmp_path / "env/lib").iterdir()) / "site-packages"
    for engine in ENGINES:
        os.symlink(Path(sysconfig.get_path("purelib")) / engine, packages / engine)
    command = [python, "-m", "pytest", "-n", "2", "-p", "no:cacheprovider", *(f"tests/unit/{name}" for name in TESTS)]
    run(command, ROOT, PYTHONPATH=str(ROOT))


def locked(name: str) -> str:
    """The requirement of a package as requirements.lock has it, or its name alone."""
    found = re.search(rf"^{name}==\S+", (ROOT / "requirements.lock").read_text(), re.M)
    return found[0] if found else name
