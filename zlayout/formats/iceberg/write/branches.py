"""The branch of a Java table that a rewrite reads and commits to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from zlayout.errors import CommitConflict, Refused
from zlayout.spark.classes import JavaClasses
from zlayout.spec.model import TableName

if TYPE_CHECKING:
    from zlayout.formats.iceberg.write.jvm import IcebergJvm

_ACTION = "org.apache.iceberg.spark.actions.RewriteDataFilesSparkAction"


def head(table: Any, name: TableName) -> Any:
    """Return the newest Java snapshot of the branch of `name`; None if there is none, or no such branch."""
    return table.snapshot(name.branch) if name.branch else table.currentSnapshot()


def to_branch(change: Any, table: Any, name: TableName) -> None:
    """Direct a rewrite to the branch of `name`. Without this, Iceberg commits it to main.

    Iceberg would create a branch that does not exist, as a copy of main.

    Raises:
        CommitConflict: ZL320, if the table no longer has the branch, or has a tag of this name.
    """
    if not name.branch:
        return
    ref = table.refs().get(name.branch)
    if ref is None or not ref.isBranch():
        message = f"{name}: the branch was dropped since the plan"
        raise CommitConflict.of("ZL320", message, hint="nothing was written to the table; create the branch again")
    change.toBranch(name.branch)


def require_native(jvm: IcebergJvm, name: TableName) -> None:
    """Check that `rewrite_data_files` of the session's Iceberg can rewrite the branch of `name`.

    It rewrites nothing while main has no snapshot.

    Raises:
        Refused: ZL229.
    """
    if name.branch and "toBranch/1" not in (JavaClasses(jvm.session.sparkContext).find(_ACTION) or ()):
        found = jvm.iceberg.IcebergBuild.version()
        message = f"{name}: rewrite_data_files of Iceberg {found} rewrites main only, so engine native cannot be used"
        raise Refused.of("ZL229", message, hint="use Iceberg 1.11 or newer, or engine zlayout")
    if name.branch and jvm.load(name).currentSnapshot() is None:
        message = f"{name}: rewrite_data_files does nothing while main has no snapshot, so engine native cannot be used"
        raise Refused.of("ZL229", message, hint="use engine zlayout, or commit to main first")


@dataclass(frozen=True)
class Swap:
    """A prepared transaction that is committed only if the table's metadata has not changed since it was prepared.

    `Transaction.commitTransaction` applies a transaction again to changed metadata. If the branch was dropped in the
    meantime, Iceberg would create it again, as a copy of main.
    """

    operations: Any
    base: Any
    transaction: Any

    def commitTransaction(self) -> None:
        self.operations.commit(self.base, self.transaction.table().operations().current())
