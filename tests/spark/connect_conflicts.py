"""Changes by other writers around a run over Spark Connect, each at one moment, with the code that the run states.

`test_connect.py` runs these tests. The writers are deltalake and pyiceberg, so that the server can be stopped while
they write: a change at the moment "writing" comes after the first file of the rewrite, and before its commit. Changes
that the server itself makes, with deletion vectors and position deletes, are in `connect_schedules.py`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType
from pyiceberg.types import LongType
from pyspark.sql import SparkSession
from spark.connect_tables import URL, IcebergTable, Table, during_rewrite, rewrites, stopped

import zlayout
from zlayout.formats.base import GroupFailed
from zlayout.session.results import TableEvent
from zlayout.spark.connect import close_session

Rows = list[dict[str, int]]


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    session: Any = SparkSession.builder.remote(URL).create()
    yield session
    close_session(session)


# The changes. Each returns the rows that the table has then.


def append(table: Table, _: Rows) -> Rows:
    table.append()
    return table.rows()


def delete(table: Table, rows: Rows) -> Rows:
    if isinstance(table, IcebergTable):
        table.loaded.delete("id < 100")
    else:
        DeltaTable(str(table.path)).delete("id < 100")
    return [row for row in rows if row["id"] >= 100]


def update(table: Table, rows: Rows) -> Rows:
    if isinstance(table, IcebergTable):
        changed = table.loaded.scan("id < 100").to_arrow()
        at = changed.column_names.index("b")
        table.loaded.overwrite(changed.set_column(at, "b", pc.add(changed["b"], 1000)), "id < 100")
    else:
        DeltaTable(str(table.path)).update({"b": "b + 1000"}, predicate="id < 100")
    return [row | {"b": row["b"] + 1000 * (row["id"] < 100)} for row in rows]


def add_column(table: Table, rows: Rows) -> Rows:
    if isinstance(table, IcebergTable):
        with table.loaded.update_schema() as schema:
            schema.add_column("extra", LongType())
    else:
        DeltaTable(str(table.path)).alter.add_columns(Field("extra", PrimitiveType("long")))
    return rows


def drop(table: Table, _: Rows) -> Rows:
    if isinstance(table, IcebergTable):
        table.files.drop_table(table.name.removeprefix("ice."))
    shutil.rmtree(table.path)
    return []


Change = Callable[[Table, Rows], Rows]
Codes = tuple[list[str], list[str]]  # of the conflicts after which the run planned again, and of its end
NONE: Codes = [], []
PLANNED_AGAIN: Codes = ["ZL321"], []
# By format and moment, for each change. OPTIMIZE reads the newest version, and commits again after a change of columns.
# Since the plan, other writers of an Iceberg table may only have appended. If the table is gone when the server
# commits, nothing can be read to settle the outcome.
CODES: dict[tuple[type[Table], str], dict[Change, Codes]] = {
    (Table, "planned"): {append: NONE, delete: NONE, update: NONE, add_column: NONE, drop: ([], ["ZL110"])},
    (Table, "writing"): {
        append: NONE,
        delete: PLANNED_AGAIN,
        update: PLANNED_AGAIN,
        add_column: NONE,
        drop: ([], ["ZL331"]),
    },
    (IcebergTable, "planned"): {
        append: NONE,
        delete: ([], ["ZL225"]),
        update: ([], ["ZL225"]),
        add_column: NONE,
        drop: ([], ["ZL122"]),
    },
    (IcebergTable, "writing"): {
        append: NONE,
        delete: PLANNED_AGAIN,
        update: PLANNED_AGAIN,
        add_column: NONE,
        drop: ([], ["ZL331"]),
    },
}
CASES = [(*place, change, codes) for place, of in CODES.items() for change, codes in of.items()]
DAILY = {(Table, "writing", append), (IcebergTable, "writing", update), (Table, "planned", delete)}


@pytest.mark.parametrize(
    ("kind", "moment", "change", "codes"),
    [pytest.param(*case, marks=() if case[:3] in DAILY else pytest.mark.long) for case in CASES],
    ids=["-".join((kind.__name__, moment, change.__name__)) for kind, moment, change, _ in CASES],
)
def test_the_change_stays_and_the_run_states_the_conflict(
    kind: type[Table], moment: str, change: Change, codes: Codes, tmp_path: Path, session: SparkSession
) -> None:
    table = kind(tmp_path, parts=1)
    plan, before, changed, errors = table.plan(), table.rows(), list[Rows](), list[Exception]()

    def make() -> None:
        try:
            with stopped():
                changed.append(change(table, before))
                assert change is drop or rewrites(table.path) == 0, "the change came too late"
        except Exception as error:
            errors.append(error)

    def follow(event: Any) -> None:
        if moment == "writing":
            watch(event)
        if isinstance(event, TableEvent) and isinstance(event.event, GroupFailed):
            conflicts.extend(problem.code for problem in event.event.error.diagnostics)

    conflicts, watch = list[str](), during_rewrite(table, make)
    if moment == "planned":
        make()
    (result,) = zlayout.apply(plan, spark=session, on_event=follow).results.values()
    assert errors == []
    assert (conflicts, [problem.code for problem in result.problems]) == codes
    if change is drop:
        assert not table.exists()
        return
    assert table.rows() == changed[0]
    again = zlayout.apply(table.plan(), spark=session)
    assert [result.problems for result in again.results.values()] in ([], [()])
    assert table.rows() == changed[0]
    assert table.status() == "unchanged"
    assert rewrites(table.path) > 0
