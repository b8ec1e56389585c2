"""Writers append and delete in a Delta and an Iceberg table while `apply` runs every few seconds: is anything lost?

Each writer keeps the set of ids that its table must hold, from the operations that succeeded. At the end the rows are
read without Spark and compared. Writes results/soak.json: {table: {expected, found, lost, revived, doubled, appends,
deletes, writer_retries, applies, commits, conflicts, failed, longest_state, last_state, files, plan}} and the peak
memory of both processes. Exits with 1 when a row is lost, revived or doubled, or the last plan is not empty.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deltalake import DeltaTable, QueryBuilder
from peak import peak_mb
from pyspark.sql import SparkSession

from zlayout.errors import CommitConflict
from zlayout.formats.iceberg.read.catalog import load_table
from zlayout.formats.iceberg.read.state_property import PROPERTY
from zlayout.formats.registry import backend_for
from zlayout.planner.work import PlanOptions
from zlayout.session.apply import apply_table
from zlayout.session.plan import plan_table
from zlayout.session.results import new_run
from zlayout.spark.session import SparkRuntime
from zlayout.spec.load import load_project
from zlayout.spec.model import LayoutSpec, Project

OUT = Path(__file__).parent / "results" / "soak.json"
PROJECT = """\
version: 1
catalogs:
  lake: {{format: delta, warehouse: "{root}/delta"}}
  ice: {{format: iceberg, type: sql, uri: "sqlite:///{root}/ice.db", warehouse: "file://{root}/iceberg"}}
spark: {{master: "local[2]", conf: {{spark.sql.shuffle.partitions: "2"}}}}
"""
LAYOUT = "version: 1\ntable: {name}\nzorder: {{columns: [a, b]}}\nfiles: {{target_size: 64KiB}}\n"
TABLES = ("lake.db.t", "ice.db.t")
BATCH = 2_000  # rows of an append
DELETE_EACH = 5  # appends
MODULUS = 37  # a delete takes about one row in so many
# What the formats say to a writer whose files another commit has replaced: it writes again.
LOST_RACE = ("DELTA_CONCURRENT", "ConcurrentModification", "ValidationException", "CommitFailedException")
OPTIONS = PlanOptions()


@dataclass
class Soaked:
    """One table: what it must hold, and what happened to it."""

    spec: LayoutSpec
    project: Project
    runtime: SparkRuntime
    writer: SparkSession  # of its own, as another program would have: settings of a session are not for two
    ids: set[int] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    next_id: int = 0

    @property
    def is_delta(self) -> bool:
        return self.spec.table.catalog == "lake"

    @property
    def location(self) -> str:
        return str(self.project.root / "delta" / "db" / "t")

    @property
    def in_sql(self) -> str:
        return f"delta.`{self.location}`" if self.is_delta else str(self.spec.table)

    def create(self) -> None:
        kind = (
            "delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
            if self.is_delta
            else "iceberg TBLPROPERTIES ('format-version' = '2', 'write.delete.mode' = 'merge-on-read')"
        )
        self.runtime.session.sql(f"CREATE TABLE {self.in_sql} (id BIGINT, a INT, b INT) USING {kind}")

    def append(self) -> None:
        first, last = self.next_id, self.next_id + BATCH
        rows = f"SELECT id, CAST(id * 7919 % 10007 AS INT), CAST(id * 104729 % 9973 AS INT) FROM RANGE({first}, {last})"
        self._until_it_succeeds(f"INSERT INTO {self.in_sql} {rows}")
        self.next_id = last
        self.ids.update(range(first, last))
        self.counts["appends"] += 1

    def delete(self) -> None:
        rest = self.counts["deletes"] % MODULUS
        self._until_it_succeeds(f"DELETE FROM {self.in_sql} WHERE id % {MODULUS} = {rest} AND id < {self.next_id}")
        self.ids = {id for id in self.ids if id % MODULUS != rest}
        self.counts["deletes"] += 1

    def _until_it_succeeds(self, statement: str) -> None:
        """Run a statement of a writer, and again after a conflict. A statement that failed has written nothing."""
        while True:
            try:
                self.writer.sql(statement).collect()
            except Exception as error:
                if not any(word in str(error) for word in LOST_RACE):
                    raise
                self.counts["writer_retries"] += 1
            else:
                return

    def apply(self) -> str:
        """Plan and apply once, and return the status of the next plan."""
        backend = backend_for(self.project.catalogs[self.spec.table.catalog], self.runtime)
        planned = plan_table(self.spec, backend, OPTIONS)
        applied = new_run(planned)
        apply_table(planned, backend, OPTIONS, applied, lambda _: None, lambda *_: None)
        self.counts["applies"] += 1
        self.counts["commits"] += len(applied.commits)
        self.counts["conflicts"] += sum(isinstance(f.error, CommitConflict) for f in applied.failures)
        others = [str(f.error) for f in applied.failures if not isinstance(f.error, CommitConflict)]
        self.failures += others + ([str(applied.error)] if applied.error is not None else [])
        return applied.after.status if applied.after else "unknown"

    def state(self) -> int:
        """Return the number of characters of the layout records in the table's own metadata."""
        if self.is_delta:
            return sum(
                len(value)
                for key, value in DeltaTable(self.location).metadata().configuration.items()
                if "zlayout" in key
            )
        table = load_table(self.project.catalogs["ice"], self.spec.table)
        return len(table.metadata.properties.get(PROPERTY, ""))

    def found(self) -> list[int]:
        """Return the ids in the table, read without Spark."""
        if self.is_delta:
            query = QueryBuilder().register("t", DeltaTable(self.location)).execute("SELECT id FROM t")
            return list(query.read_all()["id"].to_pylist())
        return list(load_table(self.project.catalogs["ice"], self.spec.table).scan().to_arrow()["id"].to_pylist())

    def files(self) -> int:
        return len(
            backend_for(self.project.catalogs[self.spec.table.catalog], self.runtime).observe(self.spec.table, ()).files
        )


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=10)
    options.add_argument("--every", type=float, default=3, help="seconds between two applies of a table")
    options.add_argument("--pause", type=float, default=2, help="seconds between two writes of a writer")
    options.add_argument("--out", type=Path, default=OUT)
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tables = _tables(Path(folder))
        try:
            results = _soak(tables, given.minutes * 60, given.every, given.pause)
        finally:
            tables[0].runtime.stop()
    results["minutes"] = given.minutes
    given.out.write_text(json.dumps(results, indent=1) + "\n")
    print(json.dumps(results, indent=1))
    broken = [name for name in TABLES if any(results[name][key] for key in ("lost", "revived", "doubled", "failed"))]
    return 1 if broken or any(results[name]["plan"] != "unchanged" for name in TABLES) else 0


def _tables(root: Path) -> list[Soaked]:
    (root / "layouts").mkdir()
    (root / "iceberg").mkdir()
    (root / "ice.db").touch()
    (root / "zlayout.yaml").write_text(PROJECT.format(root=root))
    for name in TABLES:
        (root / "layouts" / f"{name}.yaml").write_text(LAYOUT.format(name=name))
    project = load_project(root, os.environ)
    runtime = SparkRuntime(project)
    runtime.session.sql("CREATE NAMESPACE ice.db")
    tables = [
        Soaked(spec, project, runtime, runtime.session.newSession())
        for spec in sorted(project.layouts, key=lambda s: str(s.table), reverse=True)
    ]
    for table in tables:
        table.create()
        table.append()
    return tables


def _soak(tables: list[Soaked], seconds: float, every: float, pause: float) -> dict[str, Any]:
    end = time.monotonic() + seconds
    stopped: list[BaseException] = []
    longest: Counter[str] = Counter()

    def write(table: Soaked) -> None:
        try:
            while time.monotonic() < end:
                table.append()
                if table.counts["appends"] % DELETE_EACH == 0:
                    table.delete()
                time.sleep(pause)
        except BaseException as error:
            stopped.append(error)

    writers = [threading.Thread(target=write, args=(table,)) for table in tables]
    for writer in writers:
        writer.start()
    while time.monotonic() < end and not stopped:
        for table in tables:
            table.apply()
            name = str(table.spec.table)
            longest[name] = max(longest[name], table.state())
            print(f"{end - time.monotonic():5.0f} s left  {name}: {dict(table.counts)}", flush=True)
        time.sleep(every)
    for writer in writers:
        writer.join()
    if stopped:
        raise stopped[0]
    results: dict[str, Any] = {str(table.spec.table): _result(table, longest) for table in tables}
    jvm = tables[0].runtime.session.sparkContext._gateway.proc.pid
    results["peak_mb"] = {"python": peak_mb(), "jvm": peak_mb(jvm)}
    return results


def _result(table: Soaked, longest: Counter[str]) -> dict[str, Any]:
    status = table.apply()
    found = Counter(table.found())
    return {
        "expected": len(table.ids),
        "found": found.total(),
        "lost": len(table.ids - found.keys()),
        "revived": len(found.keys() - table.ids),
        "doubled": sum(times - 1 for times in found.values()),
        **{
            name: table.counts[name]
            for name in ("appends", "deletes", "writer_retries", "applies", "commits", "conflicts")
        },
        "failed": table.failures,
        "longest_state": max(longest[str(table.spec.table)], table.state()),
        "last_state": table.state(),
        "files": table.files(),
        "plan": status,
    }


if __name__ == "__main__":
    sys.exit(main())
