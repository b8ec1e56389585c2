"""The example of a live session runs, in a session that has other things in it."""

from __future__ import annotations

from pathlib import Path

import live_session
import pytest
from pyspark.sql import SparkSession


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
