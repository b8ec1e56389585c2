"""The example of a live session runs in a session that has other things in it; examples with servers, by themselves."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import live_session
import pytest
from pyspark.sql import SparkSession
from support.gcs import CREDENTIALS as GCS_CREDENTIALS
from support.gcs import emulator
from support.servers import CREDENTIALS, free_port

EXAMPLES = Path(__file__).parents[2] / "examples"
# With the variables of their ports and the number of their tables.
EXAMPLES_WITH_SERVERS = [
    pytest.param("catalogs-on-s3", ("S3_PORT", "REST_PORT", "HIVE_PORT"), 3, id="catalogs-on-s3"),
    pytest.param("nessie-on-s3", ("S3_PORT", "NESSIE_PORT"), 1, id="nessie-on-s3"),
    pytest.param("standalone-cluster", ("MASTER_PORT",), 2, id="standalone-cluster"),
    pytest.param(
        "tables-on-gcs",
        ("GCS_PORT",),
        2,
        id="tables-on-gcs",
        marks=pytest.mark.skipif(not emulator(), reason="needs fake-gcs-server, which make servers-long builds"),
    ),
]


def settings(spark: SparkSession) -> dict[str, str]:
    """All settings but the one that Delta sets when the example itself writes its table."""
    return {k: v for k, v in spark.conf.getAll.items() if k != "spark.databricks.delta.lastCommitVersionInSession"}


def test_plan_and_apply_in_an_existing_session(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = settings(spark)
    report = live_session.main(spark, tmp_path)
    (result,) = report.results.values()
    assert result.succeeded
    assert settings(spark) == before
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("lake.sales.orders: changes, 1 groups")
    assert lines[-1] == f"lake.sales.orders: as_declared, 8 -> {result.files_added} files"
    assert any(line.startswith("lake.sales.orders: commit ") and line.endswith("(rewrite)") for line in lines)
    assert spark.range(3).count() == 3


@pytest.mark.long
@pytest.mark.parametrize(("example", "ports", "tables"), EXAMPLES_WITH_SERVERS)
def test_the_commands_of_an_example_with_servers(
    tmp_path: Path, example: str, ports: tuple[str, ...], tables: int
) -> None:
    """Those of its README, with other ports and another folder."""
    folder = EXAMPLES / example
    environment = os.environ | CREDENTIALS | GCS_CREDENTIALS | {name: str(free_port()) for name in ports}
    environment["LAKE"] = str(tmp_path / "lake")

    def zlayout(*arguments: str) -> str:
        command = [sys.executable, "-m", "zlayout", *arguments]
        done = subprocess.run(command, cwd=folder, env=environment, text=True, capture_output=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    servers = subprocess.Popen(
        [sys.executable, "servers.py"], cwd=folder, env=environment, text=True, stdout=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # background jobs ignore it
    )  # fmt: skip
    with servers:
        try:
            assert servers.stdout is not None
            assert "ready\n" in servers.stdout
            zlayout("doctor")
            assert f"{tables} table" in zlayout("plan")
            zlayout("apply", "--auto-approve")
            zlayout("plan", "--detailed-exitcode")
        finally:
            servers.send_signal(signal.SIGINT)
    assert servers.returncode == 0
