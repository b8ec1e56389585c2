"""Conditions through joins from the event logs of the running Spark: no file with a needed row counts as skipped."""

import random
from pathlib import Path

import duckdb
import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from spark.event_logs import event_log
from spark.subjects import DeltaSubject, IcebergSubject, SparkSubject
from unit.advisor.test_joins_property import FILES, ROWS_PER_FILE, Writer, bounds, column_of, star

from zlayout.advisor.joins import Evaluation, NotEvaluatedError, Rows
from zlayout.predicate.model import Predicate
from zlayout.predicate.prune import may_match
from zlayout.workload.event_log import _events, _scans

# Broadcast joins, sort-merge joins, and plans that show which exchanges Spark reuses.
SETTINGS = {
    "broadcast": {},
    "sort-merge": {"spark.sql.autoBroadcastJoinThreshold": "-1"},
    "not adaptive": {"spark.sql.adaptive.enabled": "false"},
}


def check(subject: SparkSubject, seed: int, setting: str, folder: Path, queries: int) -> tuple[int, int, int]:
    """Run random star queries; returns the number that Spark ran, of used conditions, and of files that they skip."""
    rng, spark = random.Random(seed), subject.spark
    tables, duck = star(rng), duckdb.connect()
    for name, rows in tables.items():
        duck.register(name, rows)
        pq.write_table(rows, file := folder / f"{name}.parquet")
        table = f"{subject}_{name}" if "`" not in str(subject) else f"{str(subject)[:-1]}_{name}`"
        spark.sql(f"create table {table} using {subject.catalog.format} as select * from parquet.`{file}`")
        spark.sql(f"create or replace temp view {name} as select * from {table}")
    expected: dict[str, tuple[str, set[int]]] = {}
    spark.sparkContext.setJobDescription("")
    for key, value in SETTINGS[setting].items():
        spark.conf.set(key, value)
    try:
        with event_log(spark, folder / "log"):
            for number in range(queries):
                writer = Writer(rng)
                query = writer.query() if rng.random() < 0.9 else writer.correlated()
                needed = duck.execute(query.replace("LEFT SEMI", "SEMI").replace("LEFT ANTI", "ANTI")).fetchall()
                rows_of = [found if isinstance(found, list) else [found] for (found,) in needed]
                files = {row // ROWS_PER_FILE for found in rows_of for row in found if row is not None}
                spark.sparkContext.setJobDescription(f"query {number}")
                try:
                    spark.sql(query.replace("list(", "collect_list(")).collect()
                except PySparkException:
                    continue
                expected[f"query {number}"] = query, files
    finally:
        spark.sparkContext.setJobDescription("")
        for key in SETTINGS[setting]:
            spark.conf.unset(key)
        for name in tables:
            spark.catalog.dropTempView(name)
    max_ranges = (1, 5, 64)[seed % 3]

    def read(name: str, columns: frozenset[str]) -> Rows:
        rows = tables[name.rpartition("_")[2]]
        return Rows(column_of(rows), {c: rows[c].combine_chunks() for c in rows.column_names if c in columns})

    evaluation, of_fact, own = Evaluation(read, max_ranges), bounds(tables["fact"]), column_of(tables["fact"])
    count = np.full(FILES, ROWS_PER_FILE, np.int64)
    used = skipped = 0
    seen = set()
    (log,) = (folder / "log").iterdir()
    for _, event in _events(log, lambda _line: None):
        if event.get("description") not in expected:
            continue
        query, files = expected[event["description"]]
        scans = [scan for scan in _scans(event["sparkPlanInfo"]) if scan[0].endswith("_fact")]
        if not scans:  # a part of the query that Spark runs by itself, or one that needs no rows
            continue
        seen.add(query)
        opened = np.zeros(FILES, bool)
        for _, _, _, through in scans:  # without its own conditions, which other tests check
            parts: list[Predicate] = []
            for predicate in through:
                try:
                    parts.append(evaluation.on_columns(predicate, own))
                    used += 1
                except NotEvaluatedError:
                    continue
            opened |= np.logical_and.reduce([np.ones(FILES, bool), *(may_match(p, of_fact, count) for p in parts)])
        missed = files - set(np.flatnonzero(opened).tolist())
        assert not missed, f"seed {seed}: files {sorted(missed)} are skipped by\n{query}\n{scans}"
        skipped += FILES - int(opened.sum())
    return len(seen), used, skipped


@pytest.mark.long
@pytest.mark.parametrize("setting", SETTINGS)
def test_joins_of_iceberg(setting: str, iceberg: IcebergSubject, tmp_path: Path) -> None:
    ran, used, skipped = check(iceberg, 11 + len(setting), setting, tmp_path, 80)
    assert (ran > 40, used > 10, skipped > 2 * FILES) == (True, True, True), (ran, used, skipped)


@pytest.mark.long
@pytest.mark.parametrize("setting", SETTINGS)
def test_joins_of_delta(setting: str, delta: DeltaSubject, tmp_path: Path) -> None:
    ran, used, skipped = check(delta, 21 + len(setting), setting, tmp_path, 40)
    assert (ran > 20, used > 5, skipped > FILES) == (True, True, True), (ran, used, skipped)
