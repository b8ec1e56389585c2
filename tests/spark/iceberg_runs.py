"""Runs of the zlayout engine on an Iceberg table, step by step, and what readers see of its rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from pyspark.sql import SparkSession
from support.builders import make_layout

from zlayout.formats.base import Commit, GroupFailed
from zlayout.formats.iceberg.write.commit import commit_groups, write_groups
from zlayout.formats.iceberg.write.jvm import IcebergJvm
from zlayout.formats.iceberg.write.staging import staged
from zlayout.planner.work import Group, Work
from zlayout.spec.model import Project, TableName
from zlayout.table.state import TableState

LAYOUT = make_layout("a", "b")


def work(state: TableState, name: TableName, **changes: Any) -> Work:
    """All files of the state as one group for each partition, two files to be written for each."""
    groups = tuple(
        Group(f"g{i}", state.files.take(np.flatnonzero(state.files.partition == i)), 2)
        for i in np.unique(state.files.partition).tolist()
    )
    settings = {"properties": (), "partition_by": None, "groups": groups, "covers_table": True} | changes
    run_id = settings.pop("run_id", f"run-{name.name}")
    return Work(name, LAYOUT, run_id, state.version, **settings)


def race(
    spark: SparkSession, project: Project, name: TableName, state: TableState, between: Callable[[], Any]
) -> list[Commit | GroupFailed]:
    """Write, let the other one commit, then commit."""
    jvm, wanted = IcebergJvm(spark), work(state, name)
    with staged(jvm, jvm.load(wanted.table), wanted) as pinned:
        new, _ = write_groups(pinned, wanted)
        between()
        return list(commit_groups(pinned, project.catalogs["ice"], wanted, new))


def ids(spark: SparkSession, name: TableName) -> list[int]:
    return sorted(r.id for r in spark.table(str(name)).select("id").collect())


def lineage(spark: SparkSession, name: TableName) -> dict[int, tuple[int, int]]:
    found = spark.sql(f"select id, _row_id, _last_updated_sequence_number s from {name}").collect()
    return {r.id: (r._row_id, r.s) for r in found}
