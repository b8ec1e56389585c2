"""`zlayout rollback` in a process that dies at a named point: python killed_rollback.py POINT VICTIM FOLDER.

See `killed_apply` for the arguments. FOLDER tells the format: that of the Delta table is in a folder `delta`.
"""

import sys
from functools import partial
from pathlib import Path

from spark.kills.deadly import Moment, Targets, install
from spark.kills.killed_apply import kill
from spark.projects import DELTA, ICEBERG

from zlayout.cli.main import main as zlayout
from zlayout.formats.delta.write import transaction as delta
from zlayout.formats.delta.write.transaction import Log
from zlayout.formats.iceberg.write import jvm as prepared
from zlayout.formats.iceberg.write import rollback as iceberg
from zlayout.spark.session import SparkRuntime

_READ = ((delta, "_adds"), (iceberg, "_require_current"))
_PREPARE = ((delta, "_missing"), (iceberg, "_properties"))
_SEND = ((Log, "commit"), (prepared, "settled"))
_END = ((SparkRuntime, "committed"),)
# name -> functions of either format, when, and at which call of them
POINTS: dict[str, tuple[Targets, Moment, int]] = {
    "before reading": (_READ, "before", 1),
    "prepared": (_PREPARE, "after", 1),
    "before the commit": (_SEND, "before", 1),
    "1 ms into the commit": (_SEND, 0.001, 1),
    "20 ms into the commit": (_SEND, 0.02, 1),
    "80 ms into the commit": (_SEND, 0.08, 1),
    "300 ms into the commit": (_SEND, 0.3, 1),
    "answer lost": (_SEND, "after", 1),
    "before the end": (_END, "before", 1),
}


if __name__ == "__main__":
    point, victim, folder = sys.argv[1:]
    install(*POINTS[point], partial(kill, victim), Path(folder))
    zlayout(["rollback", DELTA if "delta" in Path(folder).parts else ICEBERG, "--auto-approve"])
