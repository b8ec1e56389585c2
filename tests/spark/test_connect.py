"""Runs `connect_client.py` in an environment that has the client of Spark Connect alone, against a real server."""

from pathlib import Path

from support.connect import TOKEN, connect_server
from support.environments import ROOT, environment, run


def test_a_client_without_java(tmp_path: Path) -> None:
    python = environment(tmp_path / "client", f"{ROOT}[connect]", "pytest")
    with connect_server(tmp_path / "log") as server:
        given = {
            "CONNECT_PLACE": server.place,
            "CONNECT_TOKEN": TOKEN,
            "CONNECT_PROCESS": str(server.process.pid),
            "PATH": str(python.parent),
        }
        tests = Path(__file__).with_name("connect_client.py")
        options = ("-c", ROOT / "pyproject.toml", "--noconftest", "-p", "no:cacheprovider", "--basetemp", "rows")
        printed = run([python, "-m", "pytest", *options, tests], tmp_path, **given)
    assert "12 passed" in printed
