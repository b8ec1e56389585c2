"""What became of a commit. The one rule: after any error the log itself is asked, and what it cannot tell is unknown.

An error says little: a hook may have failed after the commit, the store may have answered too late, the gateway may
be gone. Found in the log is done. Not there because another commit won is a conflict. All else is unknown.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import pyarrow.fs as pa_fs

from zlayout.errors import CommitConflict, CommitUnknown, Diagnostic, EngineError
from zlayout.formats.delta.read.run_history import MARK, RUN, RunCommit, run_commits, version_marked
from zlayout.formats.delta.write.failures import connection_lost, in_commit, line_of, only_prepared, translated
from zlayout.formats.delta.write.jvm import DeltaJvm
from zlayout.spark.jvm import session_conf

_COMMIT_CONF = {
    "spark.databricks.delta.commit.idempotencyCheck.enabled": "true",
    # a feature that came meanwhile, liquid clustering say, is a conflict; Delta by itself lets it pass
    "spark.databricks.delta.conflictChecker.enforceConcurrentFeatureEnablement.enabled": "true",
}
NOT_YET = "the log does not have the commit yet"
Found = TypeVar("Found")


class Log:
    """Sends a run's commits to one table, and looks for them in its log after an error."""

    def __init__(self, delta: DeltaJvm, storage: pa_fs.FileSystem, table: str, run_id: str) -> None:
        self._delta = delta
        self._storage = storage
        self._table = table
        self._run_id = run_id

    def commit(self, transaction: Any, actions: Any, operation: Any, doing: str) -> int:
        """Commit a Scala Seq of actions. Returns the version, also when only the log told of it.

        Raises CommitConflict ZL321 (another commit won, this one is not in the log), EngineError ZL314 (Delta refused
        it before it wrote any of it), CommitUnknown ZL331.
        """
        mark, base = uuid.uuid4().hex, int(transaction.snapshot().version())
        try:
            with session_conf(self._delta.spark, _COMMIT_CONF):
                return self._delta.commit(transaction, actions, operation, {RUN: self._run_id, MARK: mark})
        except Exception as error:
            version = self._looked_up(lambda: version_marked(self._storage, mark, base), error)
            if version is not None:
                return version
            raise self._translated(error, doing, sent=True) from error

    def run(
        self, statement: str, settings: Mapping[str, str], base: int, doing: str
    ) -> tuple[list[RunCommit], EngineError | None]:
        """Run a statement of Delta's that signs its commits with the run's id. base: the version just before it.

        Returns its commits, and with them the error where it failed after the first. Raises CommitConflict ZL321 and
        EngineError ZL314 where it failed before any; CommitUnknown ZL331 where that cannot be told.
        """
        error = None
        try:
            with session_conf(self._delta.spark, settings):
                self._delta.spark.sql(statement).collect()
        except Exception as raised:
            error = raised
        commits = self._looked_up(lambda: list(run_commits(self._storage, self._run_id, base)), error)
        if error is None:
            return commits, None
        failure = self._translated(error, doing, sent=False)
        if not commits:
            raise failure from error
        return commits, failure

    def _translated(self, error: Exception, doing: str, *, sent: bool) -> EngineError:
        """The error of a commit that is not in the log: that another one won, that it never began, or unknown.

        sent: it came out of a call that does nothing but commit.
        """
        try:
            failure = translated(error, self._table, doing)
            known = isinstance(failure, CommitConflict) or only_prepared(error)
            began = sent or connection_lost(error) or in_commit(error)
        except Exception:  # Java has the reason and can no longer be asked
            return self._unknown(error, NOT_YET)
        return self._unknown(error, NOT_YET) if began and not known else failure

    def _looked_up(self, look: Callable[[], Found], error: Exception | None) -> Found:
        try:
            return look()
        except Exception as unread:
            reason = f"the log cannot be read ({line_of(unread)})"
            raise self._unknown(error, reason) from (error or unread)

    def _unknown(self, error: Exception | None, why: str) -> CommitUnknown:
        answer = f"committing gave no answer but {line_of(error)}, and " if error is not None else ""
        return CommitUnknown(
            Diagnostic(
                "ZL331",
                f"{self._table}: {answer}{why}",
                hint=f"look for run {self._run_id} in DESCRIBE HISTORY, delete no file; then plan again",
            )
        )
