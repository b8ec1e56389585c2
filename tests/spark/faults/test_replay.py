"""Whatever others do to a table while it is rewritten, and whenever: nothing is lost, revived, doubled or undone."""

from collections.abc import Iterator
from itertools import cycle

import pytest
from _pytest.mark import ParameterSet
from reliability import count
from spark.faults.audit import audit, converge, promised
from spark.faults.disturbances import DISTURBANCES
from spark.faults.points import POINTS, run_with
from spark.faults.tables import DELTA, ICEBERG, Rows, Table, first_rows

from zlayout.errors import CommitConflict
from zlayout.session.results import Applied

ONE_PARTITION = {"delete", "update"}
BY_VECTORS = {"delete", "update", "merge"}
REBASED = {"delta-vectors", "delta-all", "iceberg-2-merge-on-read", "iceberg-3-merge-on-read"}
MAY_LEAVE_NOTHING_TO_DO = {"compact", "second zlayout"}


def expected_outcome(variant: str, disturbance: str, point: str) -> str:
    """conflict: the groups that it touched are dropped and planned anew. A code: the error that stops the run.

    rebased: the rows that it deleted by deletion vectors or position deletes are deleted from the new files.
    """
    format = variant.partition("-")[0]
    if variant in REBASED and disturbance in BY_VECTORS and point != "after commit":
        reads_newest = format == "delta" and point == "after plan"  # before the snapshot is pinned
        return "kept" if reads_newest else "rebased"
    if point == "after commit" or disturbance == "append":
        return "kept"
    if format == "iceberg" and disturbance in ("add column", "change partitioning"):
        return "kept"
    if format == "delta" and disturbance == "add column" and point == "after plan":
        return "kept"
    if format == "delta" and disturbance == "clean up":
        return "kept" if point in ("after plan", "before write") else "ZL316"
    if disturbance == "clean up":  # pinned already, its id still says where the history of later snapshots begins
        return "ZL124" if point == "after plan" else "kept"
    return "conflict"


def cases() -> Iterator[ParameterSet]:
    """Every disturbance at every point on every variant. `make test` has some, `make test-long` the others.

    `make test` tries every fourth pair of a disturbance and a point on Iceberg, and half as many others on Delta,
    where one takes much longer, each time on the next variant.
    """
    for turn, every, variants in ((0, 8, list(DELTA)), (1, 4, list(ICEBERG))):
        for start, disturbance in enumerate(DISTURBANCES):
            following = cycle(variants[start % len(variants) :] + variants[: start % len(variants)])
            for number, point in enumerate(POINTS):
                daily = next(following) if (start + number + turn) % every == 1 else ""
                for variant in variants:
                    name = f"{variant}-{disturbance}-{point}".replace(" ", "-")
                    marks = () if variant == daily else (pytest.mark.long,)
                    yield pytest.param(variant, disturbance, point, id=name, marks=marks)


@pytest.mark.parametrize(("unmade", "disturbance", "point"), list(cases()), indirect=["unmade"])
def test_nothing_is_lost(table: Table, monkeypatch: pytest.MonkeyPatch, disturbance: str, point: str) -> None:
    rows: Rows = first_rows()
    row_ids: dict[int, int | None] = {}
    born = table.row_ids() if point == "after commit" else {}

    def disturb() -> None:
        nonlocal rows, row_ids
        if point == "after commit":
            assert table.row_ids() == born, "the rewrite changed row ids"
        rows = DISTURBANCES[disturbance](table, rows)
        row_ids = table.row_ids()

    count("schedules_real")
    with promised():
        applied = run_with(table, point, disturb, monkeypatch)
        check_outcome(applied, expected_outcome(table.variant, disturbance, point), disturbance)
        converge(table)
        audit(table, rows, row_ids)


def check_outcome(applied: Applied, expected: str, disturbance: str) -> None:
    if expected.startswith("ZL"):
        assert applied.error.diagnostics[0].code == expected
        assert applied.commits == []
        return
    assert applied.error is None, applied.error
    assert applied.commits or disturbance in MAY_LEAVE_NOTHING_TO_DO
    assert (sum(commit.rebased for commit in applied.commits) > 0) == (expected == "rebased")
    if expected in ("kept", "rebased"):
        assert applied.failures == []
        return
    assert applied.failures, "the rewrite went on over somebody else's change"
    assert all(isinstance(failure.error, CommitConflict) for failure in applied.failures)
    if disturbance in ONE_PARTITION:
        assert len([group for failure in applied.failures for group in failure.groups]) == 1
