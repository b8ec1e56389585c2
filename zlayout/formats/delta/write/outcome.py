"""Sends a run's commits to a Delta table, and looks for them in its log after an error."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow.fs as pa_fs

from zlayout.errors import EngineError
from zlayout.formats.delta.read.run_history import MARK, RUN, RunCommit, run_commits, version_marked
from zlayout.formats.delta.write.failures import FAILURES
from zlayout.formats.delta.write.jvm import DeltaJvm
from zlayout.formats.kernel.outcome import ran, settled
from zlayout.spark.jvm import session_conf

_COMMIT_CONF = {
    "spark.databricks.delta.commit.idempotencyCheck.enabled": "true",
    # a feature that was enabled meanwhile, such as liquid clustering, is a conflict; Delta by itself lets it pass
    "spark.databricks.delta.conflictChecker.enforceConcurrentFeatureEnablement.enabled": "true",
}


class Log:
    """The log of one table, for the commits of one run."""

    def __init__(self, delta: DeltaJvm, storage: pa_fs.FileSystem, table: str, run_id: str) -> None:
        self._delta = delta
        self._storage = storage
        self._table = table
        self._run_id = run_id

    def commit(self, transaction: Any, actions: Any, operation: Any, doing: str) -> int:
        """Commit a Scala Seq of actions and return the version. Raises as `kernel.outcome.settled`."""
        mark, base = uuid.uuid4().hex, int(transaction.snapshot().version())

        def send() -> int:
            with session_conf(self._delta.spark, _COMMIT_CONF):
                return self._delta.commit(transaction, actions, operation, {RUN: self._run_id, MARK: mark})

        return settled(self._doing(doing), send, lambda: version_marked(self._storage, mark, base), FAILURES)

    def run(
        self, statement: str, settings: Mapping[str, str], base: int, doing: str
    ) -> tuple[Sequence[RunCommit], EngineError | None]:
        """Run a statement that signs its commits with the run's id.

        Args:
            statement: Spark SQL that commits to the table.
            settings: Spark settings for the statement.
            base: The version just before it.
            doing: What the statement does, for messages.

        Returns:
            Its commits, and the error if it failed after the first of them.

        Raises:
            CommitConflict: ZL321, if another commit won before any.
            EngineError: ZL314, if it failed before any.
            CommitUnknown: ZL331, if its outcome is not known.
        """

        def run() -> None:
            with session_conf(self._delta.spark, settings):
                self._delta.spark.sql(statement).collect()

        def look() -> list[RunCommit]:
            return list(run_commits(self._storage, self._run_id, base))

        commits, failure = ran(self._doing(doing), run, look, FAILURES)
        if failure is not None and not commits:
            raise failure
        return commits, failure

    def _doing(self, doing: str) -> str:
        return f"{self._table}: {doing} in run {self._run_id}"
