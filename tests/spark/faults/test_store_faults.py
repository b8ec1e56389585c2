"""An S3 store that fails while a table is rewritten: nothing is lost, doubled or half, and the next run finishes."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from _pytest.mark import ParameterSet
from reliability import count
from spark.faults.audit import audit, converge, promised
from spark.faults.points import run
from spark.faults.store import Store
from spark.faults.tables import Table, first_rows
from support.s3_proxy import Failure, Fault

from zlayout.errors import CommitUnknown

VARIANTS = {"delta": "delta-all", "iceberg": "iceberg-3-merge-on-read"}
# The requests of a rewrite, by format, in the order of a run. A rewrite reads data, writes data, and then commits.
REQUESTS = {
    "delta": {
        "read data": r"^GET .*\.parquet$",
        "write data": r"^(PUT|POST) .*\.parquet",
        "commit": r"^PUT .*_delta_log/\d+\.json$",
    },
    "iceberg": {
        "read data": r"^GET .*/data/.*\.parquet$",
        "write data": r"^(PUT|POST) .*/data/.*\.parquet",
        "write manifest": r"^PUT .*/metadata/[^/]*-m\d+\.avro$",
        "write manifest list": r"^PUT .*/metadata/snap-[^/]*\.avro$",
        "commit": r"^PUT .*\.metadata\.json$",
    },
}


@dataclass(frozen=True)
class Trouble:
    """A failure of the first matching requests (None: of all of them), and whether clients overcome it."""

    failure: Failure
    times: int | None
    overcome: bool

    def __str__(self) -> str:
        return f"{self.failure}, {self.times or 'always'}".replace(" ", "-")


ANY_REQUEST = (
    Trouble(Failure.ERROR, 1, True),
    Trouble(Failure.ERROR, None, False),
    Trouble(Failure.SLOW_DOWN, 1, True),
    Trouble(Failure.SLOW_DOWN, None, False),
    Trouble(Failure.RESET, 1, True),
)
WRITING = (
    *ANY_REQUEST,
    Trouble(Failure.LOST_ANSWER, 1, True),
    Trouble(Failure.LOST_ANSWER, None, False),
    Trouble(Failure.DIES, 1, False),
    Trouble(Failure.DIES_AFTER, 1, False),
)
READING = (
    *ANY_REQUEST,
    Trouble(Failure.TRUNCATED, 1, True),
    Trouble(Failure.TRUNCATED, None, False),
    Trouble(Failure.DIES, 1, False),
)
ENDS = (Failure.DIES, Failure.DIES_AFTER)
UNREACHABLE = ("ZL114", "ZL127")  # if the table is observed again before anything is written
# `make test` has these, more of them on Iceberg, where one takes less time; `make test-long` has all.
DAILY = {("write data", "dies,-1"), ("commit", "500,-1"), ("commit", "lost-answer,-1")}
DAILY_ON_ICEBERG = DAILY | {
    ("read data", "truncated,-1"),
    ("write data", "503,-1"),
    ("commit", "lost-answer,-always"),
    ("commit", "dies-after,-1"),
}


def cases() -> Iterator[ParameterSet]:
    for format, requests in REQUESTS.items():
        daily = DAILY_ON_ICEBERG if format == "iceberg" else DAILY
        for request in requests:
            for trouble in READING if request == "read data" else WRITING:
                marks = () if (request, str(trouble)) in daily else (pytest.mark.long,)
                name = f"{format}-{request}-{trouble}".replace(" ", "-")
                yield pytest.param(VARIANTS[format], request, trouble, id=name, marks=marks)


@pytest.mark.parametrize(("s3_table", "request_", "trouble"), list(cases()), indirect=["s3_table"])
def test_a_rewrite_is_whole_or_not_there(s3_table: Table, store: Store, request_: str, trouble: Trouble) -> None:
    table = s3_table
    row_ids, version = table.row_ids(), table.backend.observe(table.name, ()).version
    count("faults")
    with promised():
        with store.failing(Fault(REQUESTS[table.format][request_], trouble.failure, trouble.times)) as fault:
            applied = run(table)
        assert fault.met, "no request failed"
        if trouble.overcome:
            assert applied.error is None, applied.error
            assert applied.exit_code == 0
        now = table.backend.observe(table.name, ()).version
        assert [commit.version for commit in applied.commits] == ([now] if now != version else []) or isinstance(
            applied.error, CommitUnknown
        ), applied.error
        if applied.error is not None:
            assert applied.commits == []
            unreachable = UNREACHABLE if request_ != "commit" and trouble.failure in ENDS else ()
            assert applied.error.diagnostics[0].code in ("ZL314", "ZL331", *unreachable), applied.error
            assert request_ == "commit" or now == version, "what failed before the commit was committed"
        audit(table, first_rows(), row_ids)
        converge(table)
        audit(table, first_rows(), row_ids)
