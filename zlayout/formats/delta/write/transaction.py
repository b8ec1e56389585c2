"""Transactions on Delta tables: the commits of a run and their outcome, the pinned files, and rollbacks.

`Log` sends the commits of a run, and settles the outcome of a commit after an error. `require_no_silent_change` checks
a transaction directly before its commit.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pa_fs
from pyspark.sql import functions as F

from zlayout.errors import CommitConflict, EngineError
from zlayout.formats.base import Commit, Group, Notify, PlannedTable, Progress, Stage
from zlayout.formats.delta.read.history import COMMIT_MARKER, RUN, VACUUMED, RunCommit, run_commits, version_with_marker
from zlayout.formats.delta.write.by_sql import DeltaSql
from zlayout.formats.delta.write.jvm import DeltaJvm
from zlayout.formats.kernel.commits import Rewritten, new_files, positions_among
from zlayout.formats.kernel.execute import rollback_commit
from zlayout.formats.kernel.outcome import Failures, java_errors, ran, settled, stack_frames
from zlayout.formats.kernel.requirements import changed_files, paths_of, split_groups
from zlayout.formats.undo import ROLLBACK, Undo, not_stored
from zlayout.spark.arrow import from_arrow
from zlayout.spark.connect import statement_errors
from zlayout.spark.jvm import session_conf
from zlayout.table.state import FileTable, Int64, identities

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
    return any("ommit" in method for method in _transaction_methods(error))


def refused_before_write(error: Exception) -> bool:
    """Return whether Delta refused a commit before it wrote any part of it, according to the stack traces."""
    methods = _transaction_methods(error)
    return any("prepareCommit" in name for name in methods) and not any(
        part in name for name in methods for part in ("doCommit", "PostCommit")
    )


def _transaction_methods(error: Exception) -> set[str]:
    return {method for owner, method in stack_frames(error) if "OptimisticTransaction" in owner}


# The subclasses, because a server of Spark Connect does not name superclasses.
_CONFLICTS = (
    "ConcurrentWriteException",
    "MetadataChangedException",
    "ProtocolChangedException",
    "ConcurrentAppendException",
    "ConcurrentDeleteReadException",
    "ConcurrentDeleteDeleteException",
    "ConcurrentTransactionException",
)
FAILURES = Failures(
    conflicts=frozenset(
        {"java.util.ConcurrentModificationException", *(f"io.delta.exceptions.{name}" for name in _CONFLICTS)}
    ),
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
        delta: DeltaJvm | DeltaSql,
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
        self._delta: Any = delta
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
                return int(self._delta.commit(transaction, actions, operation, stored))

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
            with session_conf(self._delta.spark, settings), statement_errors(self._delta.spark):
                self._delta.spark.sql(statement).collect()

        def look() -> list[RunCommit]:
            return list(run_commits(self.open_storage(), self._run_id, base))

        commits, failure = ran(self._doing(doing), run, look, FAILURES)
        if failure is not None and not commits:
            raise failure
        return commits, failure

    def _doing(self, doing: str) -> str:
        return f"{self.table}: {doing} in run {self._run_id}"


# The AddFiles of pinned files, and their paths in the form of `_metadata.file_path`.


# Up to this number, paths are sent to the JVM as literals in a filter. More paths are sent as a table for a join.
_MAX_PATH_LITERALS = 1000
# Characters that java.net.URI escapes in a path. `_metadata.file_path` is such a URI as a string. Of the characters
# after U+00A0, these are the spaces.
_QUOTED_IN_URI = re.compile(
    r"[^A-Za-z0-9_\-!.~'()*/@&=+$,;:\u00a1-\U0010ffff]|[\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass(frozen=True, slots=True)
class PinnedFiles:
    """The pinned AddFiles of one snapshot.

    Attributes:
        adds: A java.util.List (py4j).
        path: string[files], their paths in the log.
    """

    adds: Any
    path: pa.Array

    def of(self, groups: Iterable[Group]) -> Int64:
        """Return the positions of the groups' files in `adds`, in their order."""
        return positions_among(self.path, paths_of(groups))


def still_live(work: PlannedTable, live: FileTable) -> tuple[list[Group], list[tuple[Group, int]]]:
    """Separate the groups whose files are unchanged from the other groups: see `split_groups`.

    A file is unchanged if it is live and has the planned deletion vector. If the rewrite can be rebased, a file may
    have another one: the group then has its files as they are now.

    Args:
        work: The planned table.
        live: The live files of the pinned snapshot.
    """
    same = pc.is_in(identities([group.files for group in work.groups]), value_set=live.identity())
    unchanged, changed = split_groups(work.groups, same.to_numpy(zero_copy_only=False))
    if not (changed and work.plan.rebases):
        return unchanged, changed
    path = live.path.cast(pa.string())
    others = [group for group, _ in changed]
    kept, changed = split_groups(others, pc.is_in(paths_of(others), value_set=path).to_numpy(zero_copy_only=False))
    at = np.split(positions_among(path, paths_of(kept)), np.cumsum([len(group.files) for group in kept])[:-1])
    groups = {group.id: group for group in unchanged}
    for group, index in zip(kept, at, strict=False):  # `split` returns one array for no group
        files = live.take(index)
        groups[group.id] = replace(group, files=files, target_files=files.target_files(work.layout.target_size))
    return [groups[group.id] for group in work.groups if group.id in groups], changed


def pinned_files(delta: DeltaJvm, snapshot: Any, table: str, groups: Sequence[Group], live: int) -> PinnedFiles:
    """Return the AddFiles of the groups' files in a snapshot.

    Args:
        snapshot: The snapshot (py4j).
        table: The name of the table, for messages.
        live: The number of live files in the snapshot.

    Raises:
        CommitConflict: ZL320, if a file is not in the snapshot or has another deletion vector than planned.
    """
    paths, vectors = (
        pa.concat_arrays([getattr(group.files, name).cast(pa.string()) for group in groups])
        for name in ("path", "version_key")
    )
    adds = delta.live_files(snapshot) if len(paths) == live else add_files_at(delta, snapshot, paths)
    return require_pinned(delta, adds, table, paths, vectors)


def require_pinned(delta: DeltaJvm, adds: Any, table: str, paths: pa.Array, vectors: pa.Array) -> PinnedFiles:
    """Check that AddFiles are exactly those with these paths and deletion vectors.

    Args:
        adds: The AddFiles, a java.util.List.
        table: The name of the table, for messages.
        paths: string[files], the paths in the log.
        vectors: string[files], the unique ids of the deletion vectors, '' for none.

    Raises:
        CommitConflict: ZL320, if a file is missing, additional, duplicate, or has another deletion vector.
    """
    found = delta.files.paths(adds)
    at = pc.index_in(paths, value_set=found)
    if (
        len(found) != len(paths)
        or pc.count_distinct(paths).as_py() != len(paths)
        or at.null_count
        or not delta.files.vectors(adds).take(at).equals(vectors)
    ):
        raise changed_files(table, "some", len(paths))
    return PinnedFiles(adds, found)


def add_files_at(delta: DeltaJvm, snapshot: Any, wanted: pa.Array) -> Any:
    """Return the live AddFiles with these paths, with complete statistics, as a java.util.List. wanted: string."""
    live = delta.all_files(snapshot)
    if len(wanted) <= _MAX_PATH_LITERALS:
        return delta.add_files(live.where(F.col("path").isin(wanted.to_pylist())))
    chosen = from_arrow(delta.spark, pa.table({"path": wanted}))
    return delta.add_files(live.join(F.broadcast(chosen), "path").select(live.columns))


def file_uris(base: str, paths: Iterable[str]) -> pa.Array:
    """Convert paths of the log to the form of `_metadata.file_path`.

    Args:
        base: The table's location as a URI in Hadoop's form.
        paths: URL-encoded paths relative to the table, or absolute URIs, as in a shallow clone.
    """
    return pa.array([_uri(base, path) for path in paths], pa.string())


def _uri(base: str, path: str) -> str:
    scheme = _SCHEME.match(path)
    if scheme:
        return scheme[0] + _quoted(unquote(path[scheme.end() :]))
    if path.startswith("/"):
        return (_SCHEME.match(base) or [""])[0] + _quoted(unquote(path))
    return f"{base.rstrip('/')}/{_quoted(unquote(path))}"


def _quoted(path: str) -> str:
    return _QUOTED_IN_URI.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), path)


# The transaction: its begin, the check before its commit, and its metrics.


def begin(delta: DeltaJvm, snapshot: Any, adds: Any) -> Any:
    """Begin a transaction that has read exactly these AddFiles, a java.util.List.

    For this transaction, a concurrent change of one of the files is a conflict, and a concurrent append is not.
    """
    transaction = delta.begin(snapshot)
    transaction.trackFilesRead(delta.seq(adds))
    transaction.trackReadPredicates(delta.seq([]), False, True)
    return transaction


def require_no_silent_change(delta: DeltaJvm, transaction: Any, table: str, hint: str) -> None:
    """Check for changes since the transaction's snapshot that must prevent the commit, but are no conflicts for Delta.

    Call this directly before the commit. It checks three changes:

    - Row tracking was enabled. Delta would give the rows new ids, although they have ids since that change.
    - The clustering columns were changed. Delta's conflict check ignores the domain metadata that contains them. (If a
      table is clustered for the first time, it gets a table feature, which is a conflict in the commit itself:
      `Log`.)
    - The catalog of the table has taken over its commits. Delta 4.4 would write the commit to the log without the
      catalog. Reading the newest snapshot is the check, because Delta refuses to read it in this case.

    Args:
        transaction: The transaction that will be committed (py4j).
        table: The name of the table, for messages.
        hint: What to do after a conflict.

    Raises:
        CommitConflict: ZL321.
        Py4JJavaError: If the catalog owns the commits now, or the log cannot be read.
    """
    before, now = transaction.snapshot(), delta.snapshot()
    if not delta.tracks_rows(before) and delta.tracks_rows(now):
        raise CommitConflict.of("ZL321", f"{table}: row tracking was enabled before the commit", hint=hint)
    clustering = delta.clustering(before)
    if clustering is not None and delta.clustering(now) != clustering:
        raise CommitConflict.of("ZL321", f"{table}: the clustering columns were changed before the commit", hint=hint)


def operation_metrics(rewritten: Sequence[Rewritten], vectors: int) -> dict[str, int]:
    """Return the metrics of the commit that replaces the files of these groups, which DESCRIBE HISTORY shows.

    vectors: the number of removed deletion vectors.

    Names and meaning are those of Delta's own OPTIMIZE: `DeltaOperationMetrics.OPTIMIZE` and `createMetrics` in Delta's
    `commands/OptimizeTableCommand.scala`.
    """
    removed = [each.group.files for each in rewritten]
    return replacement_metrics(np.concatenate([f.bytes for f in removed]), new_files(rewritten).bytes, vectors)


def replacement_metrics(removed: Int64, added: Int64, vectors: int) -> dict[str, int]:
    """Return the metrics of a replacement of files, given their sizes and the number of removed deletion vectors."""
    return {
        "numRemovedFiles": len(removed),
        "numRemovedBytes": int(removed.sum()),
        "numAddedFiles": len(added),
        "numAddedBytes": int(added.sum()),
        **_quartiles(np.sort(added)),
        "numDeletionVectorsRemoved": vectors,
    }


def _quartiles(sizes: Int64) -> dict[str, int]:
    """Return the quartiles of sorted sizes as Delta computes them: the elements at a quarter, a half and so on."""
    count = len(sizes)
    if not count:  # all rows of the groups were deleted, so no file was written
        return {}
    at = {"min": 0, "p25": count // 4, "p50": count // 2, "p75": count * 3 // 4, "max": count - 1}
    return {f"{name}FileSize": int(sizes[index]) for name, index in at.items()}


# The rollback: a transaction that removes the files of a run and adds those that the run replaced.
#
# RESTORE would also undo the later commits of other writers. This transaction has the conflict checks of a rewrite: it
# has read exactly the files that it removes, so a concurrent change of one of them is a conflict, and an append is not.


def roll_back(delta: DeltaJvm, log: Log, undo: Undo, notify: Notify) -> Commit:
    """Commit a rollback.

    Args:
        log: Makes the commit.
        undo: The rollback. Conflicts are checked from its version on.
        notify: Called with each stage.

    Raises:
        Refused: ZL233, if a file that returns is no longer on storage. Nothing was committed.
        CommitConflict: ZL320, ZL321.
        EngineError: ZL314.
        CommitUnknown: ZL331.
    """
    table = str(undo.table)
    notify(Progress(table, Stage.STARTING, "by reading the replaced files"))
    with spark_errors(table, "reading the replaced files"):
        snapshot = delta.snapshot_at(undo.version)
        removed = _adds(delta, snapshot, undo.removed, table)
        returned = delta.files.joined(
            [
                _adds(delta, delta.snapshot_at(version), _at(undo.returned, version), table)
                for version in pc.unique(undo.returned["version"]).to_pylist()
            ]
        )
        transaction = begin(delta, snapshot, removed)
    notify(Progress(table, Stage.COMMITTING))
    with spark_errors(table, "committing the rollback"):
        now = int(time.time() * 1000)
        old, new = (files["bytes"].to_numpy() for files in (undo.removed, undo.returned))
        delta.register_metrics(transaction, replacement_metrics(old, new, vectors=0))
        if missing := _missing(delta, returned):  # directly before the commit, because VACUUM may run
            raise not_stored(undo.table, missing, len(returned), VACUUMED)
        require_no_silent_change(delta, transaction, table, "run rollback again")
        actions = delta.seq(delta.files.replacing(returned, removed, now, data_change=False))
        tags = {ROLLBACK: undo.run_id}
        version = log.commit(transaction, actions, delta.optimize([]), "committing the rollback", tags)
    return rollback_commit(undo, version)


def _at(files: pa.Table, version: int) -> pa.Table:
    return files.filter(pc.equal(files["version"], version))


def _adds(delta: DeltaJvm, snapshot: Any, files: pa.Table, table: str) -> Any:
    """Return AddFiles as a java.util.List. In a snapshot, their `dataChange` is false. files: see `undo.FILES`."""
    paths, vectors = (files[name].cast(pa.string()).combine_chunks() for name in ("path", "version_key"))
    return require_pinned(delta, add_files_at(delta, snapshot, paths), table, paths, vectors).adds


def _missing(delta: DeltaJvm, files: Any) -> list[str]:
    changed = np.flatnonzero(delta.files.stored(files) != delta.files.sizes(files))
    return [*delta.files.paths(files).take(pa.array(changed)).to_pylist(), *delta.files.missing_vectors(files)]
