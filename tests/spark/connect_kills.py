"""A client, its server, their connection or the server's disk ends during `apply`: `test_connect.py` runs these tests.

Afterwards deltalake and pyiceberg find the same rows, what `apply` has printed is true, and it ends what is left. The
server is given as in `spark.connect_tables`, and the command that starts another one by CONNECT_COMMAND.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from spark.connect_tables import (
    CATALOG,
    PARTS,
    URL,
    IcebergTable,
    Table,
    during_rewrite,
    rewrites,
    running,
    stopped,
)
from spark.faults.mounts import SmallDisk, small_disk
from support.connect import server_of

import zlayout
from zlayout.cli.main import run
from zlayout.formats.base import Progress, Stage

SCRIPT = Path(__file__).parent / "kills" / "killed_connect.py"
ALL = {Table: 1, IcebergTable: PARTS}  # the commits of a rewrite: one, or one for each partition
NONE_YET = {"before the mark", "after the mark", "before the statement"}
ALL_DONE = {"after the statement", "before the record", "after the record"}
# The codes that a client may state which has lost its server: the connection, the address, and an unknown outcome.
LOST = {"ZL305", "ZL331", "ZL342"}
_OF_ICEBERG = ("before the record", "after the record")
_OF_DELTA = ("before the mark", "after the mark")
_OF_BOTH = ("before the statement", "20 ms into the statement", "while the statement runs", "after the statement")
POINTS = {"client": _OF_BOTH, "server": _OF_BOTH, "connection": _OF_BOTH[:3]}
POINTS |= {"interrupted connection": _OF_BOTH[:3], "answer": ("while the statement runs",)}
CASES = [(kind, point, victim) for victim, points in POINTS.items() for point in points for kind in ALL]
CASES += [(Table, point, victim) for point in _OF_DELTA for victim in ("client", "connection")]
CASES += [(IcebergTable, point, victim) for point in _OF_ICEBERG for victim in ("client", "server")]
DAILY = {
    (IcebergTable, "while the statement runs", "client"),
    (Table, "while the statement runs", "answer"),
    (IcebergTable, "before the record", "client"),
}
MARKED = [pytest.param(*case, marks=() if case in DAILY else pytest.mark.long) for case in CASES]


class Ended(NamedTuple):
    """The process: its exit code, the events of its stdout, and its stderr."""

    code: int
    events: list[dict[str, object]]
    err: str

    def codes(self) -> set[str]:
        """The codes of the problems that it has printed."""
        found = [problem for event in self.events for problem in event.get("problems", ())]  # type: ignore[attr-defined]
        return {problem["code"] for problem in found}

    def rewrites(self) -> int:
        return sum(event["type"] == "commit" and event["kind"] == "rewrite" for event in self.events)


def ended(table: Table, point: str, victim: str, **environ: str) -> Ended:
    tests = str(Path(__file__).parents[1])
    command = [sys.executable, str(SCRIPT), point, victim, str(table.path)]
    outer = os.environ | {"PYTHONPATH": tests} | environ
    done = subprocess.run(command, cwd=table.root, env=outer, capture_output=True, text=True, check=False, timeout=300)
    assert (table.root / "killed").exists(), f"nothing was killed {point}: {done.stdout} {done.stderr[-3000:]}"
    return Ended(done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr)


@contextmanager
def another_server(folder: Path) -> Iterator[dict[str, str]]:
    """The variables of a server of its own, which may be killed."""
    command = [*json.loads(os.environ["CONNECT_COMMAND"]), "--conf", "spark.eventLog.enabled=false"]
    folder.mkdir()
    with server_of(command, folder / "log") as server:
        yield {"CONNECT_PLACE": server.place, "CONNECT_PROCESS": str(server.process.pid)}


def wait_until_idle(others: set[str]) -> None:
    """Wait for the statements of a client that is gone: the server carries them out."""
    end = time.monotonic() + 60
    while running("Finished", "Failed", "Canceled") - others:
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.parametrize(
    ("kind", "point", "victim"),
    [pytest.param(*case, marks=() if case in DAILY else pytest.mark.long) for case in CASES],
)
def test_rows_are_kept_and_what_was_printed_is_true(
    kind: type[Table], point: str, victim: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "project").mkdir()
    table, others = kind(tmp_path / "project"), running()
    rows = table.rows()
    if victim == "server":
        with another_server(tmp_path / "server") as its_own:
            found = ended(table, point, victim, **its_own)
    else:
        found = ended(table, point, victim)
        wait_until_idle(others)
    done = rewrites(table.path)
    assert "Traceback" not in found.err, found.err[-3000:]
    assert table.rows() == rows
    assert done in ({0} if point in NONE_YET and victim != "interrupted connection" else {*range(ALL[kind] + 1)})
    if point in ALL_DONE or victim in ("answer", "interrupted connection"):
        assert done == ALL[kind]

    if victim == "client":
        assert found.code == -9
    elif found.code == 0:
        assert (found.rewrites(), found.codes()) == (done, set())
        assert done == ALL[kind]
    else:
        assert found.code == 1
        assert found.codes() <= LOST, found.events[-3:]
        assert found.rewrites() == done or "ZL331" in found.codes(), found.events[-3:]
    if victim in ("answer", "interrupted connection"):
        assert found.code == 0, found.events[-3:]

    assert table.status() == ("unchanged" if done == ALL[kind] else "changes")
    monkeypatch.chdir(table.root)
    assert run(["apply", "--auto-approve", "--remote", URL]) == 0
    assert table.status() == "unchanged"
    assert rewrites(table.path) == ALL[kind]
    assert table.rows() == rows


class SmallTable(Table):
    """A Delta table on a small disk."""

    def __init__(self, root: Path, disks: ExitStack) -> None:
        self.disk = disks.enter_context(small_disk(root / "lake"))
        super().__init__(root)


class SmallIcebergTable(IcebergTable):
    """An Iceberg table on a small disk."""

    def __init__(self, root: Path, disks: ExitStack) -> None:
        self._disks = disks
        super().__init__(root)

    def create(self) -> None:
        self.disk = self._disks.enter_context(small_disk(Path(CATALOG) / "iceberg" / self.name.split(".")[1]))
        super().create()


@pytest.mark.long
@pytest.mark.parametrize("kind", [SmallTable, SmallIcebergTable])
@pytest.mark.parametrize(
    ("point", "strike", "repair"),
    [
        ("before the statement", SmallDisk.fill, SmallDisk.make_room),
        ("while the statement runs", SmallDisk.fill, SmallDisk.make_room),
        ("before the statement", SmallDisk.forbid_writing, SmallDisk.allow_writing),
    ],
    ids=["full before", "full while", "read-only before"],
)
def test_a_disk_on_which_the_server_cannot_write(
    kind: type[SmallTable] | type[SmallIcebergTable],
    point: str,
    strike: Callable[[SmallDisk], None],
    repair: Callable[[SmallDisk], None],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SPARK_REMOTE", URL)
    with ExitStack() as disks:
        table = kind(tmp_path, disks)
        rows, struck = table.rows(), list[bool]()

        def strike_once() -> None:
            with stopped():
                strike(table.disk)
            struck.append(True)

        def before(event: object) -> None:
            if isinstance(event, Progress) and event.stage is Stage.REWRITING and not struck:
                strike_once()

        follow = before if point == "before the statement" else during_rewrite(table, strike_once)
        (result,) = zlayout.apply(table.plan(), on_event=follow).results.values()
        assert struck
        assert {problem.code for problem in result.problems} <= {"ZL314", "ZL315", "ZL331"}
        assert len(result.problems) > 0
        assert rewrites(table.path) == 0
        assert table.rows() == rows
        repair(table.disk)
        (again,) = zlayout.apply(table.plan()).results.values()
        assert again.problems == ()
        assert table.rows() == rows
        assert table.status() == "unchanged"
