"""`zlayout apply --remote` in a process whose client, server or connection ends at a named point.

python killed_connect.py POINT VICTIM FOLDER. VICTIM is one of `VICTIMS`. FOLDER: where the table's files are. The
server is given as in `spark.connect_tables`.
"""

import os
import signal
import sys
import time
from pathlib import Path

from spark.connect_tables import PARTS, PLACE, TOKEN, rewrites
from spark.kills.deadly import Moment, Targets, install
from support.relay import Relay, relay

from zlayout.cli.main import main as zlayout
from zlayout.formats.delta.write import optimize as delta
from zlayout.formats.iceberg.write import by_sql as iceberg
from zlayout.spark import connect

# The client and the server die by SIGKILL. A connection is cut for good, or is cut and can be made again at once. Of an
# answer, nothing arrives: the connection is cut after all commits of the statement.
VICTIMS = ("client", "server", "connection", "interrupted connection", "answer")
_STATEMENT = ((delta, "run_native"), (iceberg, "settle"))
_ANSWERED = ((delta, "_require_only_planned"), (iceberg, "_are_those_of"))
# name -> functions of either format, when, and at which call of them
POINTS: dict[str, tuple[Targets, Moment, int]] = {
    "before the mark": (((delta, "mark_records"),), "before", 1),
    "after the mark": (((delta, "mark_records"),), "after", 1),
    "before the statement": (_STATEMENT, "before", 1),
    "20 ms into the statement": (_STATEMENT, 0.02, 1),
    "while the statement runs": (_STATEMENT, "new file", 1),
    "after the statement": (_ANSWERED, "before", 1),
    "before the record": (((iceberg, "_record"),), "before", 1),
    "after the record": (((iceberg, "_set"),), "after", 1),
}


def main(point: str, victim: str, folder: Path) -> None:
    connect._RETRIES = 2
    host, port = PLACE.split(":")
    with relay(int(port)) as to_server:
        install(*POINTS[point], lambda: kill(victim, to_server, folder), folder)
        remote = f"sc://{host}:{to_server.port}/;token={TOKEN}"
        zlayout(["apply", "--auto-approve", "--output", "json", "--remote", remote])


def kill(victim: str, to_server: Relay, folder: Path) -> None:
    Path("killed").touch()
    match victim:
        case "client":
            os.kill(os.getpid(), signal.SIGKILL)
        case "server":
            os.kill(int(os.environ["CONNECT_PROCESS"]), signal.SIGKILL)
        case "connection":
            to_server.cut()
        case "interrupted connection":
            to_server.interrupt()
        case "answer":
            to_server.hold()
            commits = 1 if (folder / "_delta_log").exists() else PARTS
            while rewrites(folder) < commits:
                time.sleep(0.05)
            to_server.cut()
        case _:
            raise ValueError(victim)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]))
