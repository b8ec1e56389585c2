"""`zlayout apply` in a process that dies at a named point: python killed_apply.py POINT VICTIM FOLDER.

VICTIM: jvm, python or both, by SIGKILL. FOLDER: where the table's files are. Where Python lives, it exits as zlayout
does. Writes the JVM's process id to jvm.pid before anything dies, so that a test can wait for its end.
"""

import functools
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark import SparkContext
from spark.kills.deadly import Moment, Targets, install

from zlayout.cli.main import main as zlayout
from zlayout.formats.delta.write import commit as delta_commit
from zlayout.formats.delta.write import commit as delta_rebase
from zlayout.formats.delta.write import optimize as delta_settings
from zlayout.formats.delta.write.transaction import Log
from zlayout.formats.iceberg.write import commit as iceberg_commit
from zlayout.formats.iceberg.write import commit as iceberg_rebase
from zlayout.formats.iceberg.write import settings as iceberg_settings
from zlayout.formats.iceberg.write.staging import Staged
from zlayout.formats.kernel import rebase
from zlayout.rewrite import engine as shards
from zlayout.rewrite.gate import Gate
from zlayout.session import apply as applying

_SETTINGS = ((delta_settings, "set_properties"), (iceberg_settings, "change_settings"))
_SAMPLE = ((shards, "take_sample"),)
_PLACE = ((delta_commit, "place"), (iceberg_commit, "place"))
_WRITE = ((delta_commit, "write_with_stats"), (Staged, "write"))
_GATE = ((Gate, "check"),)
_SEND = ((Log, "commit"), (iceberg_commit, "commit_prepared"))  # of rewrites, not of settings
_LOOK = ((applying, "plan_table_in_time"),)
_REBASES = (delta_rebase.Rebase, iceberg_rebase.Rebase)
_COMMITTERS = (delta_commit.Committer, iceberg_commit.Committer)
# name -> functions of either format, when, and at which call of them
POINTS: dict[str, tuple[Targets, Moment, int]] = {
    "before settings": (_SETTINGS, "before", 1),
    "after settings": (_SETTINGS, "after", 1),
    "before sampling": (_SAMPLE, "before", 1),
    "while sampling": (_SAMPLE, 0.15, 1),
    "placed": (_PLACE, "after", 1),
    "while writing": (_WRITE, "new file", 1),
    "before the gate": (_GATE, "before", 1),
    "after the gate": (_GATE, "after", 1),
    "before the commit": (_SEND, "before", 1),
    "1 ms into the commit": (_SEND, 0.001, 1),
    "20 ms into the commit": (_SEND, 0.02, 1),
    "80 ms into the commit": (_SEND, 0.08, 1),
    "answer lost": (_SEND, "after", 1),
    "second group written": (_GATE, "after", 2),
    "second answer lost": (_SEND, "after", 2),
    "looking again": (_LOOK, "before", 1),
    "rebase: deletes found": (tuple((each, "_deleted_rows") for each in _REBASES), "after", 1),
    "rebase: rows found": (((rebase, "find_copies"),), "after", 1),
    "rebase: deletes written": (tuple((each, "_marked") for each in _REBASES), "after", 1),
    "rebase: after the gate": (((rebase, "require_same_difference"),), "after", 1),
    "rebase: before the commit": (((rebase.Rebase, "onto_newest"),), "after", 1),
    "rebase: answer lost": (tuple((each, "_commit") for each in _COMMITTERS), "after", 2),
}
# Another writer deletes these rows before the first commit of a run that is killed in a rebase.
REBASED, DELETED = "rebase: ", "id % 100 = 3"


def main(point: str, victim: str, folder: Path) -> None:
    targets, moment, at_call = POINTS[point]
    if point.startswith(REBASED):
        _delete_before_the_first_commit(folder)
    install(targets, moment, at_call, functools.partial(kill, victim), folder)
    zlayout(["apply", "--auto-approve", "--output", "json"])


def _delete_before_the_first_commit(folder: Path) -> None:
    is_delta = (folder / "_delta_log").exists()

    def enable_vectors(execute: Callable[..., Any], planned: Any, backend: Any, *others: Any) -> Any:
        if is_delta:
            properties = "'delta.enableDeletionVectors' = 'true'"
            backend.runtime.session.sql(f"alter table delta.`{folder}` set tblproperties ({properties})")
        return execute(planned, backend, *others)

    def delete_first(committed: Callable[..., Any], rebases: Any, *arguments: Any) -> Any:
        if not deleted:
            name = f"delta.`{folder}`" if is_delta else str(rebases._work.table)
            deleted.append(rebases._session.sql(f"delete from {name} where {DELETED}"))
        return committed(rebases, *arguments)

    deleted: list[Any] = []
    applying.execute = functools.partial(enable_vectors, applying.execute)
    until_committed = rebase.Rebase.until_committed
    rebase.Rebase.until_committed = lambda *given: delete_first(until_committed, *given)  # type: ignore[method-assign]


def kill(victim: str) -> None:
    jvm = SparkContext._active_spark_context._gateway.proc
    Path("jvm.pid").write_text(str(jvm.pid))
    if victim in ("jvm", "both"):
        jvm.kill()
    if victim in ("python", "both"):
        os.kill(os.getpid(), signal.SIGKILL)  # at once: the main thread may notice a dead JVM and end by itself
    jvm.wait()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
