"""What must hold after a run, whatever happened to it."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from reliability import count
from spark.faults.points import OPTIONS, run
from spark.faults.tables import Rows, Table

from zlayout.session.plan import plan_table


@contextmanager
def promised() -> Iterator[None]:
    """Count a violation when what is checked here does not hold."""
    try:
        yield
    except BaseException:
        count("violations")
        raise


def audit(table: Table, rows: Rows, row_ids: Mapping[int, int | None]) -> None:
    """The table holds exactly `rows`, with these row ids; every reader agrees; every live file is there, once."""
    expected = sorted((id, *values) for id, values in rows.items())
    rows_and_ids = table.rows()
    plain = [row[:-1] for row in rows_and_ids]
    for reader, found in (("Spark", plain), ("another reader", table.rows_elsewhere())):
        more, less = Counter(found) - Counter(expected), Counter(expected) - Counter(found)
        assert not more, f"{reader} finds rows twice, or that were deleted or changed: {more}"
        assert not less, f"{reader} finds rows lost: {less}"
    if table.has_row_ids:
        assert {row[0]: row[-1] for row in rows_and_ids} == row_ids, "row ids changed"
    live = table.files()
    assert len({path for path, _ in live}) == len(live), "a file is in the table twice"
    for path, size in live:
        stored = table.stored_size(path)
        assert stored is not None, f"{path} is gone"
        assert stored == size, f"{path} has another size than the table says"


def converge(table: Table) -> None:
    """At most one more apply, and nothing is left to do."""
    if plan_table(table.spec, table.backend, OPTIONS).plan.status == "unchanged":
        return
    again = run(table)
    assert again.error is None, again.error
    assert not again.failures, again.failures
    assert again.after.status == "unchanged", again.after
