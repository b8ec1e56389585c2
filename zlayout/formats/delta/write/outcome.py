"""Sends the commits of a run to a Delta table, and settles the outcome of a commit after an error."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import pyarrow.fs as pa_fs

from zlayout.errors import EngineError
from zlayout.formats.delta.read.history import COMMIT_MARKER, RUN, RunCommit, run_commits, version_with_marker
from zlayout.formats.delta.write.jvm import DeltaJvm
from zlayout.formats.kernel.outcome import Failures, java_causes, java_errors, ran, settled
from zlayout.spark.jvm import session_conf

USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_COMMIT_CONF = {
    "spark.databricks.delta.commit.idempotencyCheck.enabled": "true",
    # A table feature that is enabled concurrently, such as liquid clustering, is a conflict. By default, it is not.
    "spark.databricks.delta.conflictChecker.enforceConcurrentFeatureEnablement.enabled": "true",
    # A change of metadata is a conflict too. By default, some are not, as when a catalog takes over the commits.
    "spark.databricks.delta.featureEnablement.conflictResolution.enabled": "false",
}

_CONSTRAINT_HINT = (
    "correct these rows by UPDATE or DELETE, or drop the constraint; if it depends on the time zone, set "
    "spark.sql.session.timeZone in zlayout.yaml to the time zone of the table's writers"
)
_GENERATED_HINT = (
    "if the generated column depends on the time zone, set spark.sql.session.timeZone in zlayout.yaml to the time zone "
    "of the table's writers; if not, correct the rows or the constraint"
)
_NULL_HINT = "replace the nulls by UPDATE, or ALTER TABLE ... ALTER COLUMN ... DROP NOT NULL"
_MISSING_HINT = (
    "older files lack the column, which must not be null: write its values by UPDATE or MERGE, or ALTER TABLE ... "
    "ALTER COLUMN ... DROP NOT NULL"
)
_ANSI_HINT = (
    "if a generated column or a constraint raises this error, and the writers of the table do not use the ANSI mode, "
    "which Spark 4 enables by default, set spark.sql.ansi.enabled to false by spark-submit or in spark-defaults.conf"
)
_ANSI_ERRORS = ("CAST_INVALID_INPUT", "CAST_OVERFLOW", "DIVIDE_BY_ZERO", "ARITHMETIC_OVERFLOW")
_NAMES_HINT = (
    "if all readers and writers of the table support column mapping, run ALTER TABLE ... SET TBLPROPERTIES "
    "('delta.columnMapping.mode' = 'name'); if not, rewrite the table with other column names"
)


def in_commit(error: Exception) -> bool:
    """Return whether an error may have been raised during a commit, according to the stack traces of its causes."""
    return any("ommit" in frame.getMethodName() for frame in _transaction_frames(error))


def refused_before_write(error: Exception) -> bool:
    """Return whether Delta refused a commit before it wrote any part of it, according to the stack traces."""
    methods = {frame.getMethodName() for frame in _transaction_frames(error)}
    return any("prepareCommit" in name for name in methods) and not any(
        part in name for name in methods for part in ("doCommit", "PostCommit")
    )


def _transaction_frames(error: Exception) -> list[Any]:
    frames = (frame for cause in java_causes(error) for frame in cause.getStackTrace())
    return [frame for frame in frames if "OptimisticTransaction" in frame.getClassName()]


FAILURES = Failures(
    conflicts=frozenset({"java.util.ConcurrentModificationException"}),
    history="DESCRIBE HISTORY of the table",
    # If the Python package `delta` is imported, pyspark raises its exceptions, all of which are conflicts.
    python_conflicts="delta.exceptions",
    hints={
        "CHECK constraint Generated Column": _GENERATED_HINT,
        "DELTA_VIOLATE_CONSTRAINT": _CONSTRAINT_HINT,
        "DELTA_NOT_NULL_CONSTRAINT_VIOLATED": _NULL_HINT,
        "Required column is missing in data file": _MISSING_HINT,
        # Other writers accept such names, and Delta checks them in each change of the metadata.
        "DELTA_INVALID_CHARACTERS_IN_COLUMN_NAMES": _NAMES_HINT,
        **dict.fromkeys(_ANSI_ERRORS, _ANSI_HINT),
    },
    unsent=refused_before_write,
    in_commit=in_commit,
)


def spark_errors(table: str, doing: str) -> AbstractContextManager[None]:
    """Translate the errors of Spark and Delta that the block raises. See `kernel.outcome.translated`."""
    return java_errors(f"{table}: {doing}", FAILURES)


def user_metadata(run_id: str, properties: Mapping[str, str]) -> str:
    """Return the userMetadata of a commit: the run id and the commit properties of the project as a JSON object.

    Delta reads it from the configuration of the session, in whose values Spark replaces `${...}`.
    """
    return json.dumps({RUN: run_id, **properties}).replace("${", "\\u0024{")


class Log:
    """Makes the commits of one run to the log of one table."""

    def __init__(
        self,
        delta: DeltaJvm,
        open_storage: Callable[[], pa_fs.FileSystem],
        table: str,
        run_id: str,
        properties: Mapping[str, str] | None = None,
    ) -> None:
        """Store the table and the run.

        Args:
            open_storage: A function that returns the file system, rooted at the table. Its credentials may expire while
                Spark works, so it is called again after each write.
            table: The name of the table, for messages.
            properties: The commit properties of the project, which each commit stores in its userMetadata.
        """
        self.open_storage = open_storage
        self.table = table
        self._metadata = {USER_METADATA: user_metadata(run_id, properties)} if properties else {}
        self._delta = delta
        self._run_id = run_id

    def commit(
        self, transaction: Any, actions: Any, operation: Any, doing: str, tags: Mapping[str, str] | None = None
    ) -> int:
        """Commit actions with the run id and a commit marker, and settle the outcome.

        Args:
            transaction: The transaction (py4j).
            actions: A Scala Seq of actions (py4j).
            operation: The operation that the history shows (py4j).
            doing: The operation, for messages.
            tags: Further tags of the commit.

        Returns:
            The version of the table that the commit made.

        Raises:
            CommitConflict, EngineError, CommitUnknown: See `zlayout.formats.kernel.outcome.settled`.
        """
        marker, base = uuid.uuid4().hex, int(transaction.snapshot().version())
        stored = {**(tags or {}), RUN: self._run_id, COMMIT_MARKER: marker}

        def send() -> int:
            with session_conf(self._delta.spark, _COMMIT_CONF | self._metadata):
                return self._delta.commit(transaction, actions, operation, stored)

        return settled(
            self._doing(doing), send, lambda: version_with_marker(self.open_storage(), marker, base), FAILURES
        )

    def run(
        self, statement: str, settings: Mapping[str, str], base: int, doing: str
    ) -> tuple[Sequence[RunCommit], EngineError | None]:
        """Run a statement that commits to the table with the run id.

        Args:
            settings: The session configuration for the statement, which contains the run id.
            base: The version directly before the statement.
            doing: The operation, for messages.

        Returns:
            The commits of the statement, and its error if it failed after the first commit.

        Raises:
            CommitConflict: ZL321, if it failed before its first commit because of a conflict.
            EngineError: ZL314, if it failed before its first commit for another reason.
            CommitUnknown: ZL331, if its outcome is unknown.
        """

        def run() -> None:
            with session_conf(self._delta.spark, settings):
                self._delta.spark.sql(statement).collect()

        def look() -> list[RunCommit]:
            return list(run_commits(self.open_storage(), self._run_id, base))

        commits, failure = ran(self._doing(doing), run, look, FAILURES)
        if failure is not None and not commits:
            raise failure
        return commits, failure

    def _doing(self, doing: str) -> str:
        return f"{self.table}: {doing} in run {self._run_id}"
