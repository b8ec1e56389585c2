"""Runs tests in an environment that has the client of Spark Connect alone, against a real server."""

from pathlib import Path

import pytest
from support.connect import TOKEN, both_formats, connect_server
from support.environments import ROOT, environment, run


@pytest.mark.parametrize(
    ("tests", "passed"), [("not long", 11), pytest.param("long", 114, marks=pytest.mark.long)], ids=["daily", "others"]
)
def test_a_client_without_java(tmp_path: Path, tests: str, passed: int) -> None:
    python = environment(tmp_path / "client", f"{ROOT}[connect,sql]", "pytest")
    catalog = tmp_path / "catalog"
    catalog.mkdir()
    with connect_server(tmp_path / "log", both_formats(catalog)) as server:
        given = {
            "CONNECT_PLACE": server.place,
            "CONNECT_TOKEN": TOKEN,
            "CONNECT_PROCESS": str(server.process.pid),
            "CONNECT_CATALOG": str(catalog),
            "PATH": str(python.parent),
        }
        # the last test of the second file kills the server
        files = [Path(__file__).with_name(f"connect_{name}.py") for name in ("schedules", "client")]
        settings = ("-c", ROOT / "pyproject.toml", "--noconftest", "-p", "no:cacheprovider")
        printed = run([python, "-m", "pytest", *settings, "--basetemp", "rows", "-m", tests, *files], tmp_path, **given)
    assert f"{passed} passed" in printed
