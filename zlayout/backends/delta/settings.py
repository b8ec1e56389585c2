"""Table properties that the plan sets, and nothing more."""

from __future__ import annotations

import pyarrow.fs as pa_fs

from zlayout.backends.base import Commit, Work
from zlayout.backends.delta.failures import spark_errors
from zlayout.backends.delta.jvm import DeltaJvm, session_conf
from zlayout.backends.delta.literals import string_literal
from zlayout.backends.delta.native import optimize_conf
from zlayout.backends.delta.run_history import run_commits
from zlayout.backends.delta.schema import quoted


def set_properties(delta: DeltaJvm, storage: pa_fs.FileSystem, work: Work, version: int) -> Commit:
    """ALTER TABLE SET TBLPROPERTIES, signed with the run's id. `version`: the table's, just before. EngineError."""
    pairs = ", ".join(f"{string_literal(name)} = {string_literal(value)}" for name, value in work.properties)
    with (
        spark_errors(str(work.table), "setting table properties"),
        session_conf(delta.spark, optimize_conf(work.layout, work.run_id)),
    ):
        delta.spark.sql(f"ALTER TABLE delta.{quoted(delta.location)} SET TBLPROPERTIES ({pairs})").collect()
    done = list(run_commits(storage, work.run_id, version))
    return Commit("settings", done[-1].version if done else version)
