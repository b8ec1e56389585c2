"""`inspect` prints what the last apply predicted and measured, as stored in the table."""

from dataclasses import replace

from zlayout.cli.inspect import _last_run
from zlayout.formats.base import RunColumn, RunCost, RunMetrics
from zlayout.planner.model import QueryCost


def test_predicted_measured_and_their_ratio() -> None:
    columns = (RunColumn("l_shipdate", 4.7, 4.1), RunColumn("b", 120.0, 0.0), RunColumn("c", None, 2.5))
    lines = list(_last_run(RunMetrics("run", 17, columns), "version"))
    assert lines[0] == ""
    assert "(version 17)" in lines[1]
    assert [line.split() for line in lines[2:]] == [
        ["column", "predicted", "measured", "ratio"],
        ["l_shipdate", "4.7", "4.1", "1.15"],
        ["b", "120", "0"],
        ["c", "not", "known", "2.5"],
    ]


def test_what_the_run_rewrote_in_which_time() -> None:
    run = RunMetrics("run", 17, (RunColumn("a", None, 2.5),), RunCost(3 * 2**30, 750.0))
    assert list(_last_run(run, "version"))[2] == "  rewrote 3 GiB in 12 min"


def test_what_a_query_of_the_workload_opens() -> None:
    run = RunMetrics("run", 17, (RunColumn("a", None, 2.5),), None, QueryCost(2.5, 2**20))
    now = QueryCost(3.0, 2**21)
    assert list(_last_run(run, "version", now))[2] == (
        "  a query of the workload opens 3 files, 2 MiB now; predicted 2.5 files, 1 MiB"
    )
    assert list(_last_run(replace(run, query_cost=None), "version", now))[2].endswith(
        "3 files, 2 MiB now; not predicted"
    )


def test_the_id_of_a_snapshot_fits_in_80_columns() -> None:
    columns = (RunColumn("l_shipdate", 4.7, 4.1),)
    assert max(map(len, _last_run(RunMetrics("run", 2**63 - 1, columns), "snapshot"))) <= 80


def test_nothing_before_the_first_apply() -> None:
    assert list(_last_run(None, "version")) == []
