"""A REST catalog that is killed, or whose answer is lost, in the middle of a commit; and runs that are killed there.

The catalog receives a request, writes the new metadata file to the store, and then lets its database refer to this
file. A commit has arrived when the last step is done, whether the client gets an answer or not.
"""

import json
import threading
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest
from reliability import count
from spark.faults.audit import audit, converge, promised
from spark.faults.points import run
from spark.faults.store import RestStore
from spark.faults.store_apply import StoreApply, store_apply
from spark.faults.tables import Table, first_rows
from spark.faults.test_store_faults import REQUESTS
from spark.faults.test_store_kills import AWAY, MOMENTS, VICTIMS
from support.s3_proxy import Failure, Fault

from zlayout.errors import CommitUnknown

pytestmark = pytest.mark.long
COMMIT = r"^POST /v1/namespaces/[^/]+/tables/[^/]+$"


@dataclass(frozen=True)
class Moment:
    """When the catalog is killed: before the server of a proxy carries out a request, or after."""

    of_store: bool  # the request is one of the catalog to the store
    failure: Failure
    arrives: bool


KILLED = {
    "before the request": Moment(False, Failure.RESET, arrives=False),
    "before the metadata file": Moment(True, Failure.RESET, arrives=False),
    "after the metadata file": Moment(True, Failure.LOST_ANSWER, arrives=False),
    "before the answer": Moment(False, Failure.LOST_ANSWER, arrives=True),
}
# What happens to the request of a commit while the catalog is there, and whether the commit arrives.
ANSWERS = {
    Failure.RESET: False,
    Failure.ERROR: False,
    Failure.LOST_ANSWER: True,
    Failure.TRUNCATED: True,
}


@pytest.mark.parametrize("moment", [pytest.param(m, id=name.replace(" ", "-")) for name, m in KILLED.items()])
def test_a_catalog_that_is_killed_in_a_commit(rest_table: Table, rest_store: RestStore, moment: Moment) -> None:
    table, server = rest_table, rest_store.server
    row_ids, version = table.row_ids(), table.backend.observe(table.name, ()).version
    back: list[threading.Timer] = []

    def kill() -> None:
        server.kill()
        back.append(threading.Timer(AWAY, server.start))
        back[0].start()

    proxy, pattern = (rest_store.proxy, COMMIT)
    if moment.of_store:
        proxy, pattern = rest_store.store.proxy, REQUESTS["iceberg"]["commit"]
    count("kills")
    with promised():
        try:
            with proxy.failing(Fault(pattern, moment.failure, then=kill)) as fault:
                applied = run(table)
        finally:
            for timer in back:
                timer.join()
        assert fault.met, "no request was held"
        now = table.backend.observe(table.name, ()).version
        assert (now != version) is moment.arrives
        assert applied.commits == []
        assert isinstance(applied.error, CommitUnknown), applied.error
        audit(table, first_rows(), row_ids)
        converge(table)
        audit(table, first_rows(), row_ids)


@pytest.mark.parametrize(("failure", "arrives"), list(ANSWERS.items()), ids=[f.replace(" ", "-") for f in ANSWERS])
def test_a_lost_answer_is_settled_by_the_table(
    rest_table: Table, rest_store: RestStore, failure: Failure, arrives: bool
) -> None:
    table = rest_table
    row_ids, version = table.row_ids(), table.backend.observe(table.name, ()).version
    count("faults")
    with promised():
        with rest_store.proxy.failing(Fault(COMMIT, failure)) as fault:
            applied = run(table)
        assert fault.met, "no request was held"
        now = table.backend.observe(table.name, ()).version
        assert (now != version) is arrives
        if arrives:
            assert applied.error is None, applied.error
            assert [commit.version for commit in applied.commits] == [now]
        else:
            assert isinstance(applied.error, CommitUnknown), applied.error
            assert applied.commits == []
        audit(table, first_rows(), row_ids)
        converge(table)
        audit(table, first_rows(), row_ids)


@pytest.mark.parametrize(("moment", "victim"), list(product(MOMENTS, VICTIMS)))
def test_a_run_that_is_killed_in_its_commit(
    rest_table: Table, rest_store: RestStore, tmp_path: Path, moment: str, victim: str
) -> None:
    table = rest_table
    row_ids, version = table.row_ids(), table.backend.observe(table.name, ()).version
    running: list[StoreApply] = []

    def kill() -> None:
        running[0].kill(victim)

    count("kills")
    with promised(), store_apply(table, tmp_path) as applying:
        running.append(applying)
        with rest_store.proxy.failing(Fault(COMMIT, MOMENTS[moment], then=kill)) as fault:
            code, out, err = applying.finished()
        assert fault.met, (out[-2000:], err[-2000:])
        assert "Traceback" not in err, err[-3000:]
        now = table.backend.observe(table.name, ()).version
        assert (now != version) is (moment == "after")
        if victim == "jvm":
            assert json.loads(out.splitlines()[-1])["type"] == "change_summary", out[-2000:]
            assert code == (0 if moment == "after" else 1), out[-2000:]
        else:
            assert code == -9
        audit(table, first_rows(), row_ids)
        converge(table)
        audit(table, first_rows(), row_ids)
