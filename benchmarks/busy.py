"""Rewrites a table again and again while another program deletes, updates, merges and appends: which rewrites commit?

    python benchmarks/busy.py FOLDER --format delta --mib 2048 --rewrites 20 --every 1

FOLDER needs about six times the size of the table. An arm is one way to rewrite; each has its own table and writer:

- zlayout: `zlayout.apply` of a plan that rewrites the whole table, by other columns each time
- zlayout without rebases: the same, where a conflict throws the rewrite away
- the format's own rewrite by z-order: `OPTIMIZE ... ZORDER BY`, `CALL rewrite_data_files`
- liquid clustering of Delta: `CLUSTER BY` and `OPTIMIZE ... FULL`

The writer is a process with its own Spark, so that it shares nothing but the table and the two cores. Every `--every`
seconds, or as fast as it can, it deletes, updates or merges twenty random rows or appends twenty rows, and runs a
statement again that lost a race. It writes down each statement that succeeded. From these, numpy computes the rows that
each version must have. At every tenth version they are compared with what deltalake or pyiceberg read. Row ids are
compared in Spark, where the table has them.

Writes results/busy.json and its section of RESULTS.md.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date
from hashlib import sha224
from pathlib import Path
from typing import Any
from unittest.mock import patch

import large
import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import SparkSession
from results import replace_section

import zlayout
from zlayout.formats.iceberg.read.catalog import load_table
from zlayout.formats.kernel import rebase
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import TableName

OUT = Path(__file__).parent / "results" / "busy.json"
SECTION = "## Rewrites beside a writer"
PROJECT = large.PROJECT + '    spark.sql.shuffle.partitions: "4"\n'
LAYOUT = "version: 1\ntable: {table}\nzorder: {{columns: [{columns}]}}\nfiles: {{target_size: {target}MiB}}\n"
KEYS = ("a, b", "c, d")
ROW_BYTES = 90
CHANGED = 20  # rows of a statement
HASHED = 1_000_000  # rows of a version of which the column `note` is compared too
KINDS = ("delete", "update", "merge", "append")
LOST_RACE = (
    "DELTA_CONCURRENT",
    "ConcurrentModification",
    "ValidationException",
    "CommitFailedException",
    "SQLITE_BUSY",
)
# The columns of a row follow from its id, and `v` is the number of the statement that wrote it.
FACTORS = {"a": (7919, 1000003), "b": (104729, 999983), "c": (15485863, 999979), "d": (32452843, 999961)}
COLUMNS = {name: f"cast(id * {by} % {modulus} as int)" for name, (by, modulus) in FACTORS.items()}
COLUMNS["note"] = "sha2(cast(id as string), 224)"
VALUES = ", ".join(f"{value} as {name}" for name, value in COLUMNS.items())
DELTA = (
    "using delta tblproperties ('delta.enableDeletionVectors' = 'true', 'delta.enableRowTracking' = 'true', "
    "'delta.checkpointInterval' = '20')"
)
ICEBERG = (
    "using iceberg tblproperties ('format-version' = '{version}', 'write.delete.mode' = 'merge-on-read', "
    "'write.update.mode' = 'merge-on-read', 'write.merge.mode' = 'merge-on-read')"
)


@dataclass(frozen=True, slots=True)
class Table:
    """The table of one run."""

    root: Path
    format: str

    @property
    def is_delta(self) -> bool:
        return self.format == "delta"

    @property
    def name(self) -> str:
        return "lake.db.busy" if self.is_delta else "ice.db.busy"

    @property
    def path(self) -> Path:
        return self.root / "delta" / "db" / "busy"

    @property
    def in_sql(self) -> str:
        return f"delta.`{self.path}`" if self.is_delta else self.name

    def project(self) -> zlayout.Project:
        return zlayout.load_project(self.root)

    def create(self, spark: SparkSession, rows: int, files: int) -> None:
        if not self.is_delta:
            spark.sql("create namespace if not exists ice.db")
        kind = DELTA if self.is_delta else ICEBERG.format(version=self.format[-1])
        source = f"select id, 0L as v, {VALUES} from range(0, {rows}, 1, {files})"
        spark.sql(f"create table {self.in_sql} {kind} as {source}")

    def statements(self, spark: SparkSession) -> dict[int, int]:
        """Return the number of the last statement of the writer in each version, in the order of the versions."""
        if self.is_delta:
            rows = spark.sql(f"describe history {self.in_sql}").select("version", "userMetadata").collect()
            stated = sorted((row.version, row.userMetadata) for row in rows)
        else:
            rows = spark.sql(
                f"select snapshot_id, summary['statement'] n from {self.name}.snapshots order by committed_at"
            )
            stated = [(row.snapshot_id, row.n) for row in rows.collect()]
        last, found = 0, {}
        for version, number in stated:
            last = int(number or last)
            found[version] = last
        return found

    def read(self, version: int) -> pa.Table:
        """Return the rows of a version, read without Spark."""
        if self.is_delta:
            query = QueryBuilder().register("t", DeltaTable(str(self.path), version=version))
            return pa.table(query.execute(f"select id, v, {', '.join(COLUMNS)} from t").read_all())
        table = load_table(self.project().catalogs["ice"], TableName("ice", ("db",), "busy"))
        return table.scan(snapshot_id=version).to_arrow()

    def row_ids(self, spark: SparkSession, version: int) -> pa.Table | None:
        """Return `id` and the row id of each row; None if the table has no row ids."""
        if self.format == "iceberg2":
            return None
        column = "_metadata.row_id" if self.is_delta else "_row_id"
        found = spark.sql(f"select id, {column} as row_id from {self.in_sql} version as of {version}")
        return found.toArrow().sort_by("id")


class Ledger:
    """What the table must hold: `v` of each row by its id, -1 for a row that is deleted or not written yet."""

    def __init__(self, rows: int) -> None:
        self.v = np.zeros(rows, np.int64)

    def apply(self, number: int, kind: str, ids: list[int]) -> None:
        if kind == "append":
            self.v = np.concatenate([self.v, np.full(max(ids) + 1 - len(self.v), -1)])
        at = np.array(ids)
        deleted = at if kind == "delete" else at[at % 2 == 0] if kind == "merge" else at[:0]
        self.v[at] = number
        self.v[deleted] = -1

    def differences(self, rows: pa.Table) -> int:
        """Return how many rows are missing, additional, doubled or of other values."""
        ids, v = (rows[name].to_numpy() for name in ("id", "v"))
        expected = np.flatnonzero(self.v >= 0)
        if len(ids) != len(expected):
            return abs(len(ids) - len(expected)) + len(np.setxor1d(ids, expected))
        order = np.argsort(ids)
        wrong = (ids[order] != expected) | (v[order] != self.v[expected])
        for name, (by, modulus) in FACTORS.items():
            wrong |= rows[name].to_numpy()[order] != expected * by % modulus
        hashed = np.linspace(0, len(order) - 1, min(len(order), HASHED)).astype(np.int64)  # to hash all takes minutes
        notes = rows["note"].cast(pa.string()).take(pa.array(order[hashed])).to_pylist()
        wrong[hashed] |= [
            note != sha224(str(each).encode()).hexdigest() for note, each in zip(notes, expected[hashed], strict=True)
        ]
        return int(wrong.sum())


def write(table: Table, rows: int, every: float) -> None:
    """Change the table until the file `stop` exists, and write down what succeeded. The other process."""
    random = np.random.default_rng(7)
    ledger = Ledger(rows)
    with SparkRuntime(table.project()) as runtime, (table.root / "ledger").open("w", encoding="utf-8") as out:
        spark = runtime.session
        number = retries = 0
        while not (table.root / "stop").exists():
            begun, number = time.monotonic(), number + 1
            kind = KINDS[number % len(KINDS)]
            live = np.flatnonzero(ledger.v >= 0)
            first = len(ledger.v)
            ids = range(first, first + CHANGED) if kind == "append" else np.sort(random.choice(live, CHANGED, False))
            ids = [int(each) for each in ids]
            while True:
                try:
                    _run(table, spark, number, kind, ids)
                    break
                except Exception as error:
                    if not any(word in str(error) for word in LOST_RACE):
                        raise
                    retries += 1
            ledger.apply(number, kind, ids)
            taken = round(time.monotonic() - begun, 2)
            out.write(
                json.dumps({"number": number, "kind": kind, "ids": ids, "seconds": taken, "retries": retries}) + "\n"
            )
            out.flush()
            time.sleep(max(0.0, every - taken))


def _run(table: Table, spark: SparkSession, number: int, kind: str, ids: list[int]) -> None:
    listed = ", ".join(map(str, ids))
    values = ", ".join(f"({each})" for each in ids)
    statement = {
        "append": f"insert into {{t}} select id, {number}L as v, {VALUES} from range({ids[0]}, {ids[-1] + 1}, 1, 1)",
        "delete": f"delete from {{t}} where id in ({listed})",
        "update": f"update {{t}} set v = {number} where id in ({listed})",
        "merge": f"merge into {{t}} t using (select col1 as id from values {values}) s on t.id = s.id "
        f"and t.id in ({listed}) when matched and t.id % 2 = 0 then delete when matched then update set v = {number}",
    }[kind]
    key = "spark.databricks.delta.commitInfo.userMetadata"
    spark.conf.set(key if table.is_delta else "spark.sql.iceberg.snapshot-property.statement", str(number))
    spark.sql(statement.format(t=table.in_sql)).collect()


def _zlayout(table: Table, spark: SparkSession, number: int, target: int) -> dict[str, Any]:
    text = LAYOUT.format(table=table.name, columns=KEYS[number % len(KEYS)], target=target)
    (table.root / "layouts" / "busy.yaml").write_text(text)
    plan = zlayout.plan(table.project())
    results = zlayout.apply(plan, spark).results.values()
    if not results:
        return {"committed": False, "outcome": "empty plan", "rebased_rows": 0}
    (result,) = results
    return {
        "committed": result.outcome == "as_declared" or result.bytes_added > 0,
        "outcome": str(result.outcome),
        "rebased_rows": result.rebased_rows,
        "conflicts": [each.code for each in result.problems],
        "mib": round(result.bytes_added / 2**20, 1),
    }


def _without_rebases(table: Table, spark: SparkSession, number: int, target: int) -> dict[str, Any]:
    with patch.object(rebase, "MAX_REBASES", 0):
        return _zlayout(table, spark, number, target)


def _native(table: Table, spark: SparkSession, number: int, target: int) -> dict[str, Any]:
    columns = KEYS[number % len(KEYS)]
    if table.is_delta:
        statement = f"optimize {table.in_sql} zorder by ({columns})"
    else:
        statement = (
            f"call ice.system.rewrite_data_files(table => 'db.busy', strategy => 'sort', "
            f"sort_order => 'zorder({columns})', "
            f"options => map('rewrite-all', 'true', 'target-file-size-bytes', '{target << 20}'))"
        )
    try:
        spark.sql(statement).collect()
    except Exception as error:
        return {"committed": False, "outcome": " ".join(str(error).split())[:400]}
    return {"committed": True, "outcome": "committed"}


def _liquid(table: Table, spark: SparkSession, number: int, target: int) -> dict[str, Any]:  # noqa: ARG001
    try:
        spark.sql(f"alter table {table.in_sql} cluster by ({KEYS[number % len(KEYS)]})")
        spark.sql(f"optimize {table.in_sql} full").collect()
    except Exception as error:
        return {"committed": False, "outcome": " ".join(str(error).split())[:400]}
    return {"committed": True, "outcome": "committed"}


Arm = Callable[[Table, SparkSession, int, int], dict[str, Any]]
ARMS: dict[str, Arm] = {
    "zlayout": _zlayout,
    "zlayout without rebases": _without_rebases,
    "native z-order": _native,
    "liquid": _liquid,
}


def measure(root: Path, format: str, arm: str, given: argparse.Namespace) -> dict[str, Any]:
    """Run one arm on a new table, with a writer beside it, and verify the table."""
    shutil.rmtree(root, ignore_errors=True)
    for name in ("layouts", "iceberg", "delta/db", "shuffle"):
        (root / name).mkdir(parents=True)
    (root / "ice.db").touch()
    (root / "zlayout.yaml").write_text(PROJECT.format(root=root, heap=given.heap))
    table = Table(root, format)
    rows = (given.mib << 20) // ROW_BYTES
    with SparkRuntime(zlayout.load_project(root)) as runtime:
        spark = runtime.session
        table.create(spark, rows, given.files)
        runs = []
        writer = None
        if given.every >= 0:
            command = [sys.executable, __file__, str(root), "--format", format, "--write", str(rows), "--every"]
            writer = subprocess.Popen([*command, str(given.every)], stdout=sys.stderr)
            while not (root / "ledger").exists() or not (root / "ledger").read_text():
                time.sleep(0.5)
                assert writer.poll() is None
        try:
            for number in range(given.rewrites):
                begun = time.monotonic()
                run = ARMS[arm](table, spark, number, max(1, given.mib // given.files))
                run["seconds"] = round(time.monotonic() - begun, 1)
                run["load"] = round(os.getloadavg()[0], 1)
                print(format, arm, json.dumps(run), flush=True)
                runs.append(run)
        finally:
            (root / "stop").touch()
            assert writer is None or writer.wait() == 0
        return {
            "format": format,
            "arm": arm,
            "mib": given.mib,
            "rows": rows,
            "every": given.every,
            "rewrites": len(runs),
            "committed": sum(run["committed"] for run in runs),
            "runs": runs,
            **_verified(table, spark, rows),
            "day": str(date.today()),
        }


def _verified(table: Table, spark: SparkSession, rows: int) -> dict[str, Any]:
    path = table.root / "ledger"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    statements = {line["number"]: line for line in lines}
    ledger, applied, checked, wrong, moved = Ledger(rows), 0, 0, 0, 0
    versions = list(table.statements(spark).items())
    first = table.row_ids(spark, versions[0][0])
    for at, (version, number) in enumerate(versions):
        while applied < number:
            applied += 1
            ledger.apply(applied, statements[applied]["kind"], statements[applied]["ids"])
        if at % 10 == 0 or at == len(versions) - 1:
            checked += 1
            wrong += ledger.differences(table.read(version))
    last = table.row_ids(spark, versions[-1][0])
    if first is not None and last is not None:
        both = first.join(last, "id", right_suffix="_after", join_type="inner")
        moved = int((both["row_id"].to_numpy() != both["row_id_after"].to_numpy()).sum())
    seconds = [line["seconds"] for line in lines] or [0.0]
    return {
        "statements": len(lines),
        "statement_seconds": round(float(np.median(seconds)), 2),
        "writer_retries": lines[-1]["retries"] if lines else 0,
        "versions": len(versions),
        "checked": checked,
        "wrong_rows": wrong,
        "moved_row_ids": moved,
    }


def _section(results: list[dict[str, Any]]) -> Iterator[str]:
    yield SECTION
    yield ""
    yield "Made by `python benchmarks/busy.py`. Each arm rewrites its whole table again and again, by other columns"
    yield "each time, while a process with its own Spark deletes, updates, merges and appends 20 random rows, every so"
    yield "many seconds or as fast as it can. Both share two cores. *conflicts* are the rewrites of which zlayout"
    yield "wrote some groups again, or none. *wrong rows* compares every tenth version, as deltalake or pyiceberg read"
    yield "it, with a ledger."
    yield ""
    yield (
        "| format | arm | MiB | every s | committed | conflicts | seconds a rewrite | rows rebased | a statement, s "
        "| statements | its retries | versions checked | wrong rows | moved row ids |"
    )
    yield "|" + "---|" * 14
    for r in results:
        seconds = [run["seconds"] for run in r["runs"]]
        lost = sum(bool(run.get("conflicts", not run["committed"])) for run in r["runs"])
        rebased = sum(run.get("rebased_rows", 0) for run in r["runs"])
        cells = [r["format"], r["arm"], r["mib"], f"{r['every']:g}", f"{r['committed']} of {r['rewrites']}", lost]
        cells += [f"{min(seconds):.0f} to {max(seconds):.0f}", rebased, f"{r['statement_seconds']:.1f}"]
        cells += [r[name] for name in ("statements", "writer_retries", "checked", "wrong_rows")]
        cells.append("" if r["format"] == "iceberg2" else r["moved_row_ids"])
        yield f"| {' | '.join(map(str, cells))} |"


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("folder", type=Path)
    options.add_argument("--format", choices=("delta", "iceberg2", "iceberg3"), default="delta")
    options.add_argument("--arm", choices=ARMS, nargs="*", help="all that the format has by default")
    options.add_argument("--mib", type=int, default=2048)
    options.add_argument("--files", type=int, default=16)
    options.add_argument("--rewrites", type=int, default=20)
    options.add_argument("--every", type=float, default=1.0, help="seconds between two statements; -1: no writer")
    options.add_argument("--heap", default="4g")
    options.add_argument("--write", type=int, help="run as the writer of a table with so many rows")
    given = options.parse_args()
    root = given.folder.resolve()
    if given.write:
        write(Table(root, given.format), given.write, given.every)
        return 0
    results = json.loads(OUT.read_text()) if OUT.exists() else []
    for arm in given.arm or [arm for arm in ARMS if arm != "liquid" or given.format == "delta"]:
        result = measure(root, given.format, arm, given)
        print(json.dumps({key: value for key, value in result.items() if key != "runs"}), flush=True)
        same = [result[key] for key in ("format", "arm", "mib", "every")]
        results = [r for r in results if [r[key] for key in ("format", "arm", "mib", "every")] != same] + [result]
        OUT.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    replace_section(OUT.parent.parent / "RESULTS.md", SECTION, "\n".join(_section(results)) + "\n")
    return int(any(r["wrong_rows"] or r["moved_row_ids"] for r in results))


if __name__ == "__main__":
    sys.exit(main())
