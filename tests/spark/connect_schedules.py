"""Random schedules of what other writers do around a run over Spark Connect: `test_connect.py` runs them.

A seed decides the table, the changes, and the moment of each change: after the plan, directly before the statement of
the rewrite, while the server writes, and after its first commit. A ledger has what was committed. deltalake and
pyiceberg read the rows that are compared with it.
"""

from __future__ import annotations

import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder, write_deltalake
from deltalake.exceptions import CommitFailedError
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException
from pyspark.sql import SparkSession
from spark.connect_tables import CATALOG, URL

import zlayout
from zlayout.formats.base import Commit, GroupFailed, Progress, Stage
from zlayout.session.results import TableEvent
from zlayout.spark.connect import close_session

SCHEDULES, DAILY, PARTS, ROWS = 100, 3, 3, 40
MOMENTS = ("planned", "called", "writing", "committed")
# The conflicts of a run, which it states. None of them leaves a doubt whether it has committed.
CONFLICTS = {"ZL208", "ZL225", "ZL320", "ZL321", "ZL322"}
# A dropped table has no snapshot of the plan, and no place for new files.
DROPPED = {"ZL124", "ZL315"}
# Of a table that is gone, nothing can be read to settle an outcome.
GONE = DROPPED | {"ZL110", "ZL111", "ZL113", "ZL122", "ZL123", "ZL314", "ZL331"}
# What a writer gets if another commit came first. Its change is then not in the table.
REFUSED = ("DELTA_CONCURRENT_", "DELTA_METADATA_CHANGED", "ValidationException", "CommitFailedException")


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    session: Any = SparkSession.builder.remote(URL).create()
    yield session
    close_session(session)


@pytest.fixture(scope="module")
def schedules() -> Iterator[list[Schedule]]:
    """The schedules that were run. If few of their changes were committed during a run, they prove nothing."""
    run: list[Schedule] = []
    yield run
    made = sum(len(schedule.made) for schedule in run)
    refused = sum(change.endswith("refused") for schedule in run for change in schedule.made)
    counts = {
        "schedules": len(run),
        "changes": made,
        "committed": made - refused,
        "between plan and commit": sum(schedule.landed for schedule in run),
        "while the server wrote": sum(schedule.landed_while_writing for schedule in run),
        "conflicts": sum(bool(CONFLICTS.intersection(schedule.codes)) for schedule in run),
        "dropped": sum(schedule.table.gone for schedule in run),
    }
    sys.stderr.write(f"{counts}\n")  # shown by pytest -s
    assert counts["committed"] > 0.7 * made, counts
    assert counts["between plan and commit"] > 0.4 * made, counts
    if len(run) > DAILY:
        assert counts["while the server wrote"] > 2, counts
        assert counts["conflicts"] > 0, counts
        assert counts["dropped"] > 0, counts


@pytest.fixture(scope="module")
def writer() -> Iterator[SparkSession]:
    session: Any = SparkSession.builder.remote(URL).create()
    yield session
    close_session(session)


class Table:
    """A table, its project, and the ledger of its rows.

    Attributes:
        ledger: The rows by id.
        extra: The columns that no layout needs.
        gone: Whether the table was dropped for good.
    """

    partitioned_by = ""

    def __init__(self, root: Path, writer: SparkSession, random: Random) -> None:
        self.root, self.writer, self.random = root, writer, random
        self.ledger: dict[int, dict[str, int | None]] = {}
        self.extra: list[str] = []
        self.ids = 0
        self.gone = False
        self.describe()
        self.create()
        (root / "layouts").mkdir()
        (root / "zlayout.yaml").write_text(f"version: 1\ncatalogs: {self.catalogs()}\n")
        text = f"version: 1\ntable: {self.name}\nengine: native\nzorder: {{columns: [a, b], curve: zorder}}\n"
        (root / "layouts" / "t.yaml").write_text(text)

    name: str
    sql_name: str
    path: Path
    drops_columns = True
    client_appends: bool

    def describe(self) -> None:
        """Choose the kind of the table."""
        raise NotImplementedError

    def catalogs(self) -> str:
        raise NotImplementedError

    def clauses(self) -> str:
        raise NotImplementedError

    def read(self) -> list[dict[str, Any]]:
        raise NotImplementedError

    def append_by_client(self, rows: pa.Table) -> None:
        raise NotImplementedError

    def exists(self) -> bool:
        raise NotImplementedError

    def is_rewritten(self) -> bool:
        """Whether the run has committed a rewrite."""
        raise NotImplementedError

    def create(self) -> None:
        self.extra = ["c"]
        self.ledger = {}
        self.sql(
            f"CREATE TABLE {self.sql_name} (id BIGINT, part BIGINT, a BIGINT, b BIGINT, c BIGINT) {self.clauses()}"
        )

    def sql(self, text: str) -> None:
        self.writer.sql(text).collect()

    @property
    def columns(self) -> list[str]:
        return ["id", "part", "a", "b", *self.extra]

    def new_rows(self, random: Random) -> list[dict[str, int | None]]:
        self.ids += ROWS
        ids = range(self.ids - ROWS, self.ids)
        return [{name: random.randrange(1000) for name in self.columns} | {"id": i, "part": i % PARTS} for i in ids]

    def expected(self) -> list[dict[str, int | None]]:
        return [self.ledger[i] for i in sorted(self.ledger)]

    # The changes. Each changes the ledger after its commit.

    def append(self, random: Random) -> None:
        rows = self.new_rows(random)
        if random.random() < 0.4 and self.client_appends:
            self.append_by_client(pa.Table.from_pylist(rows))
        else:
            values = ", ".join(f"({', '.join(str(row[name]) for name in self.columns)})" for row in rows)
            self.sql(f"INSERT INTO {self.sql_name} ({', '.join(self.columns)}) VALUES {values}")
        self.ledger |= {int(row["id"] or 0): row for row in rows}

    def _some(self, random: Random) -> tuple[str, list[int]]:
        by, of = random.randrange(2, 6), random.randrange(2)
        part = random.choice([None, *range(PARTS)])
        test = f"id % {by} = {of}" + ("" if part is None else f" AND part = {part}")
        return test, [i for i in self.ledger if i % by == of and part in (None, i % PARTS)]

    def delete(self, random: Random) -> None:
        test, ids = self._some(random)
        self.sql(f"DELETE FROM {self.sql_name} WHERE {test}")
        for i in ids:
            del self.ledger[i]

    def update(self, random: Random) -> None:
        test, ids = self._some(random)
        self.sql(f"UPDATE {self.sql_name} SET b = b + 1000 WHERE {test}")
        for i in ids:
            self.ledger[i]["b"] = int(self.ledger[i]["b"] or 0) + 1000

    def add_column(self, random: Random) -> None:
        name = f"c{random.randrange(10**6)}"
        self.sql(f"ALTER TABLE {self.sql_name} ADD COLUMNS ({name} BIGINT)")
        self.extra.append(name)
        for row in self.ledger.values():
            row[name] = None

    def drop_column(self, random: Random) -> None:
        if not self.extra or not self.drops_columns:
            return self.add_column(random)
        name = random.choice(self.extra)
        self.sql(f"ALTER TABLE {self.sql_name} DROP COLUMN {name}")
        self.extra.remove(name)
        for row in self.ledger.values():
            del row[name]
        return None

    def replace(self, random: Random) -> None:
        """Replace the table by a new one of its name."""
        raise NotImplementedError

    def drop(self, random: Random) -> None:  # noqa: ARG002
        """Drop the table for good."""
        self.sql(f"DROP TABLE {self.sql_name}")
        self.gone = True

    CHANGES: ClassVar = {
        "append": 5,
        "delete": 4,
        "update": 4,
        "add_column": 2,
        "drop_column": 2,
        "replace": 1,
        "drop": 1,
    }


class Lake(Table):
    name = "lake.db.t"

    def describe(self) -> None:
        self.path = self.root / "lake" / "db" / "t"
        schema = f"n{uuid.uuid4().hex[:8]}"
        self.sql(f"CREATE SCHEMA {schema} LOCATION '{self.path.parent}'")
        self.sql_name = f"{schema}.t"  # a managed table, whose files DROP removes
        self.partitioned_by = self.random.choice(["", "PARTITIONED BY (part)", "PARTITIONED BY (part)"])
        self.drops_columns = self.random.random() < 0.6  # with column mapping, and with deletion vectors
        self.client_appends = not self.drops_columns  # deltalake does not write such tables

    def catalogs(self) -> str:
        return f"{{lake: {{format: delta, type: path, warehouse: {self.root / 'lake'}}}}}"

    def clauses(self) -> str:
        features = "'delta.enableDeletionVectors' = 'true', 'delta.columnMapping.mode' = 'name'"
        properties = f"TBLPROPERTIES ({features})" if self.drops_columns else ""
        return f"USING delta {self.partitioned_by} {properties}"

    def read(self) -> list[dict[str, Any]]:
        query = QueryBuilder().register("t", DeltaTable(str(self.path))).execute("SELECT * FROM t ORDER BY id")
        return pa.table(query.read_all()).to_pylist()

    def append_by_client(self, rows: pa.Table) -> None:
        write_deltalake(str(self.path), rows, mode="append")

    def exists(self) -> bool:
        return DeltaTable.is_deltatable(str(self.path))  # a rewrite that fails may leave new files without a log

    def is_rewritten(self) -> bool:
        return any(commit["operation"] == "OPTIMIZE" for commit in DeltaTable(str(self.path)).history())

    def replace(self, random: Random) -> None:
        rows = self.new_rows(random)  # of all columns
        names = ", ".join(f"CAST(col{at} AS BIGINT) AS {name}" for at, name in enumerate(self.columns, 1))
        values = ", ".join(str(tuple(row.values())) for row in rows)
        query = f"SELECT {names} FROM VALUES {values}"
        self.sql(f"CREATE OR REPLACE TABLE {self.sql_name} {self.clauses()} AS {query}")
        self.ledger = {int(row["id"] or 0): row for row in rows}


class Ice(Table):
    def describe(self) -> None:
        namespace = f"n{uuid.uuid4().hex[:8]}"
        self.name = self.sql_name = f"ice.{namespace}.t"
        warehouse = f"file://{CATALOG}/iceberg"
        self.files: Any = load_catalog("ice", type="sql", uri=f"sqlite:///{CATALOG}/ice.db", warehouse=warehouse)
        self.files.create_namespace(namespace)
        self.path = Path(CATALOG) / "iceberg" / namespace / "t"
        self.partitioned_by = self.random.choice(["", "PARTITIONED BY (part)", "PARTITIONED BY (bucket(3, id))"])
        mode = self.random.choice(["merge-on-read", "copy-on-write"])
        self.properties = {f"write.{kind}.mode": mode for kind in ("delete", "update")}
        self.properties["format-version"] = self.random.choice(["2", "3"])
        # pyiceberg writes neither version 3, nor buckets without another package
        self.client_appends = self.properties["format-version"] == "2" and "bucket" not in self.partitioned_by

    def catalogs(self) -> str:
        options = f"type: sql, uri: 'sqlite:///{CATALOG}/ice.db', warehouse: 'file://{CATALOG}/iceberg'"
        return f"{{ice: {{format: iceberg, {options}}}}}"

    def clauses(self) -> str:
        properties = ", ".join(f"'{key}' = '{value}'" for key, value in self.properties.items())
        return f"USING iceberg {self.partitioned_by} TBLPROPERTIES ({properties})"

    @property
    def loaded(self) -> Any:
        return self.files.load_table(self.name.removeprefix("ice."))

    def read(self) -> list[dict[str, Any]]:
        return list(self.loaded.scan().to_arrow().sort_by("id").to_pylist())

    def append_by_client(self, rows: pa.Table) -> None:
        self.loaded.append(rows)
        self.sql(f"REFRESH TABLE {self.sql_name}")  # the writer's session has cached the table

    def exists(self) -> bool:
        return bool(self.files.table_exists(self.name.removeprefix("ice.")))

    def is_rewritten(self) -> bool:
        return any(one.summary.operation.value == "replace" for one in self.loaded.metadata.snapshots)

    def replace(self, random: Random) -> None:
        self.sql(f"DROP TABLE {self.sql_name}")
        self.create()
        self.append(random)


class Schedule:
    """The changes of other writers by the moment of a run, in the order in which they are made.

    Attributes:
        made: The changes that were tried, with the word "refused" for those that a writer did not commit.
        landed: The number of changes that were committed after the plan and before the first commit of a rewrite.
        landed_while_writing: The number of those that were committed after the server wrote its first file.
    """

    def __init__(self, table: Table, seed: int) -> None:
        random = table.random
        self.table = table
        self.changes: dict[str, list[tuple[str, Random]]] = {moment: [] for moment in MOMENTS}
        for at in range(random.randint(1, 4)):
            (kind,) = random.choices([*table.CHANGES], [*table.CHANGES.values()])
            self.changes[random.choice(MOMENTS)].append((kind, Random(f"{seed} {at}")))
        self.made: list[str] = []
        self.landed = self.landed_while_writing = 0
        self.codes: list[str] = []
        self.errors: list[Exception] = []
        self._before: set[Path] = set()
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()

    def make(self, moment: str) -> None:
        while self.changes[moment] and not self.table.gone:
            kind, random = self.changes[moment].pop(0)
            try:
                is_early = not self.table.is_rewritten()
                getattr(self.table, kind)(random)
                self.made.append(f"{moment} {kind}")
                if is_early and (kind in ("replace", "drop") or not self.table.is_rewritten()):
                    self.landed += 1
                    self.landed_while_writing += moment == "writing"
            except (CommitFailedError, CommitFailedException):
                self.made.append(f"{moment} {kind} refused")
            except Exception as error:
                if not any(word in f"{type(error).__name__} {error}" for word in REFUSED):
                    self.errors.append(error)
                self.made.append(f"{moment} {kind} refused")

    def follow(self, event: Any) -> None:
        """For `on_event`: make the changes of each moment that the run reaches."""
        if isinstance(event, Progress) and event.stage is Stage.REWRITING and self._thread is None:
            self.make("called")
            self._before = set(self.table.path.rglob("*.parquet"))
            self._thread = threading.Thread(target=self._while_writing)
            self._thread.start()
        elif isinstance(event, TableEvent) and isinstance(event.event, Commit | GroupFailed):
            if isinstance(event.event, GroupFailed):
                self.codes.append(event.event.error.diagnostics[0].code)
            if self._thread is not None:
                self._thread.join()
                self.make("committed")

    def _while_writing(self) -> None:
        end = time.monotonic() + 60
        while not self._ended.is_set() and time.monotonic() < end:
            if set(self.table.path.rglob("*.parquet")) != self._before:
                break
            time.sleep(0.002)
        self.make("writing")

    def finish(self) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()


CASES = [
    pytest.param(seed, marks=() if seed < DAILY else pytest.mark.long, id=f"{('delta', 'iceberg')[seed % 2]}-{seed}")
    for seed in range(SCHEDULES)
]


@pytest.mark.parametrize("seed", CASES)
def test_concurrent_changes_are_neither_lost_nor_doubled(
    seed: int, tmp_path: Path, session: SparkSession, writer: SparkSession, schedules: list[Schedule]
) -> None:
    random = Random(seed)
    table = (Lake, Ice)[seed % 2](tmp_path, writer, random)
    for _ in range(2):
        table.append(random)
    schedule = Schedule(table, seed)
    plan = zlayout.plan(zlayout.load_project(tmp_path))
    schedule.make("planned")
    (result,) = zlayout.apply(plan, spark=session, on_event=schedule.follow).results.values()
    schedule.finish()
    schedules.append(schedule)
    codes = [*schedule.codes, *(problem.code for problem in result.problems)]
    story = f"{schedule.made} {codes}"
    assert schedule.errors == [], story
    replaced = any(made.endswith(" replace") for made in schedule.made)
    allowed = CONFLICTS | (GONE if table.gone else DROPPED if replaced else set())
    assert set(codes) <= allowed, story
    if table.gone:
        assert not table.exists(), story
        return
    assert table.read() == table.expected(), story
    quiet = zlayout.apply(zlayout.plan(zlayout.load_project(tmp_path)), spark=session)
    assert [result.problems for result in quiet.results.values()] in ([], [()]), story
    assert table.read() == table.expected(), story
    (planned,) = zlayout.plan(zlayout.load_project(tmp_path)).document.tables
    assert planned.status == "unchanged"
