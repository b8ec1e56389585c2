"""SIGKILL to a run, or to its S3 store, in the middle of a write or a commit: the table has whole commits only.

A proxy in front of the store holds one request of a run in a process of its own, before the store has carried it out or
after. Then it kills the JVM, Python or both, or the store, which comes back a few seconds later.
"""

import json
import threading
from itertools import product
from pathlib import Path

import pytest
from reliability import count
from spark.faults.audit import audit, converge, promised
from spark.faults.store import Store
from spark.faults.store_apply import StoreApply, store_apply
from spark.faults.tables import Table, first_rows
from spark.faults.test_store_faults import REQUESTS, VARIANTS
from support.s3_proxy import Failure, Fault

VICTIMS = ("jvm", "python", "both")
MOMENTS = {"before": Failure.RESET, "after": Failure.LOST_ANSWER}  # the store has carried out the request
AWAY = 3.0  # seconds until the store is back. Its clients repeat a request for longer
DAILY_KILLS = {("delta", "commit", "after", "both"), ("iceberg", "write manifest", "before", "jvm")}
DAILY_RESTARTS = {("iceberg", "commit", Failure.DIES_AFTER)}
KILLS = [
    pytest.param(
        VARIANTS[format],
        request,
        moment,
        victim,
        id=f"{format}-{request}-{moment}-{victim}".replace(" ", "-"),
        marks=() if (format, request, moment, victim) in DAILY_KILLS else (pytest.mark.long,),
    )
    for format in REQUESTS
    for request, moment, victim in product(REQUESTS[format], MOMENTS, VICTIMS)
    if request != "read data"
]
RESTARTS = [
    pytest.param(
        VARIANTS[format],
        request,
        failure,
        id=f"{format}-{request}-{failure}".replace(" ", "-"),
        marks=() if (format, request, failure) in DAILY_RESTARTS else (pytest.mark.long,),
    )
    for format in REQUESTS
    for request, failure in product(REQUESTS[format], (Failure.DIES, Failure.DIES_AFTER))
]


@pytest.mark.parametrize(("s3_table", "request_", "moment", "victim"), KILLS, indirect=["s3_table"])
def test_a_killed_run_leaves_whole_commits_only(
    s3_table: Table, store: Store, tmp_path: Path, request_: str, moment: str, victim: str
) -> None:
    table = s3_table
    row_ids, version = table.row_ids(), table.backend.observe(table.name, ()).version
    running: list[StoreApply] = []

    def kill() -> None:
        running[0].kill(victim)

    count("kills")
    with promised(), store_apply(table, tmp_path) as applying:
        running.append(applying)
        pattern = REQUESTS[table.format][request_]
        with store.failing(Fault(pattern, MOMENTS[moment], then=kill)) as fault:
            code, out, err = applying.finished()
        assert fault.met, (out[-2000:], err[-2000:])
        assert "Traceback" not in err, err[-3000:]
        now = table.backend.observe(table.name, ()).version
        if victim == "jvm":
            assert json.loads(out.splitlines()[-1])["type"] == "change_summary", out[-2000:]
            # observing a table needs no JVM: a run whose commit is there ends well without it
            assert code == (0 if now != version else 1), out[-2000:]
        else:
            assert code == -9
        if request_ == "commit" and moment == "after" and table.format == "delta":
            assert now != version, "the store has the commit"
        elif victim != "python":  # the JVM can no longer commit
            assert now == version, "what was not sent was committed"
        audit(table, first_rows(), row_ids)
        converge(table)
        audit(table, first_rows(), row_ids)


@pytest.mark.parametrize(("s3_table", "request_", "failure"), RESTARTS, indirect=["s3_table"])
def test_a_store_that_comes_back_costs_nothing(
    s3_table: Table, store: Store, tmp_path: Path, request_: str, failure: Failure
) -> None:
    table = s3_table
    row_ids, version = table.row_ids(), table.backend.observe(table.name, ()).version

    def come_back() -> None:
        threading.Timer(AWAY, setattr, (store.proxy, "away", False)).start()

    count("faults")
    with promised(), store_apply(table, tmp_path) as applying:
        with store.failing(Fault(REQUESTS[table.format][request_], failure, then=come_back)) as fault:
            code, out, err = applying.finished()
        assert fault.met, (out[-2000:], err[-2000:])
        assert code == 0, out[-2000:]
        assert table.backend.observe(table.name, ()).version != version
        audit(table, first_rows(), row_ids)
        converge(table)
        audit(table, first_rows(), row_ids)
