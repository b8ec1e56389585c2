"""Whatever others do to a table while it is rewritten, and whenever: nothing is lost, revived, doubled or undone."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from reliability import count
from spark.faults.audit import audit, converge, promised
from spark.faults.disturbances import DISTURBANCES
from spark.faults.points import POINTS, run_with
from spark.faults.tables import VARIANTS, Rows, Table, first_rows

from zlayout.applying import Applied
from zlayout.errors import CommitConflict

ONE_PARTITION = {"delete", "update"}


def expected_outcome(format: str, disturbance: str, point: str) -> str:
    """conflict: the groups that it touched are dropped and planned anew. stopped: nothing is committed at all."""
    if point == "after commit" or disturbance == "append":
        return "kept"
    if format == "iceberg" and disturbance in ("add column", "change partitioning"):
        return "kept"
    if format == "delta" and disturbance == "clean up":
        return "kept" if point == "before write" else "stopped"
    return "conflict"


def is_long(variant: int, disturbance: int, point: int) -> bool:
    """Whether a case is left to `make test-long`: each disturbance at each point is tried on four of the variants.

    Which ones moves on with both, so that every variant meets every disturbance, and every point. Two will do before
    the commit: little happens between that and the moment when it is sent.
    """
    tried = 2 if POINTS[point] == "before commit" else 4
    return (2 * variant + disturbance + 4 * point) % len(VARIANTS) >= tried


CASES = [
    pytest.param(
        variant,
        disturbance,
        point,
        id=f"{variant}-{disturbance}-{point}".replace(" ", "-"),
        marks=[pytest.mark.long] if is_long(v, d, p) else [],
    )
    for v, variant in enumerate(VARIANTS)
    for d, disturbance in enumerate(DISTURBANCES)
    for p, point in enumerate(POINTS)
]


@pytest.mark.parametrize(("variant", "disturbance", "point"), CASES)
def test_nothing_is_lost(
    create: Callable[[str], Table], monkeypatch: pytest.MonkeyPatch, variant: str, disturbance: str, point: str
) -> None:
    table = create(variant)
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
        check_outcome(applied, expected_outcome(table.format, disturbance, point), disturbance)
        converge(table)
        audit(table, rows, row_ids)


def check_outcome(applied: Applied, expected: str, disturbance: str) -> None:
    if expected == "stopped":
        assert applied.error is not None
        assert applied.error.diagnostics[0].code == "ZL316"
        assert applied.commits == []
        return
    assert applied.error is None, applied.error
    assert applied.commits or disturbance == "second zlayout", "the other one may have left nothing to do"
    if expected == "kept":
        assert applied.failures == []
        return
    assert applied.failures, "the rewrite went on over somebody else's change"
    assert all(isinstance(failure.error, CommitConflict) for failure in applied.failures)
    if disturbance in ONE_PARTITION:
        assert len([group for failure in applied.failures for group in failure.groups]) == 1
