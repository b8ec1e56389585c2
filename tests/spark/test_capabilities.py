"""What zlayout can do with the Spark and the formats at hand. `make matrix` shows the answers in docs/support.md.

Each test does something, or finds that it is refused by name, or that such a table cannot be made. With the newest
versions, the answer must be the expected one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import version
from typing import Any

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from spark.sample_tables import create_delta, create_iceberg
from spark.subjects import DeltaSubject, IcebergSubject
from spark.test_iceberg_types import JSON, POINT, add, append, create, rewritten_equal
from support.builders import make_layout
from support.jars import newest_tested

from zlayout.errors import Refused
from zlayout.formats.base import Commit
from zlayout.formats.delta.write.jvm import INTERNALS as DELTA
from zlayout.formats.iceberg.write.jvm import INTERNALS as ICEBERG
from zlayout.formats.kernel.execute import fallback_reason
from zlayout.spark import versions
from zlayout.spark.jvm import session_conf
from zlayout.spark.session import SESSION_CONF

Work = Callable[[], object]
INTERNALS = {"delta": DELTA, "iceberg": ICEBERG}
FEATURES = {
    "deletion vectors": "'delta.enableDeletionVectors'='true'",
    "row tracking": "'delta.enableRowTracking'='true'",
    "column mapping": "'delta.columnMapping.mode'='name'",
    "in-commit timestamps": "'delta.enableInCommitTimestamps'='true'",
}
DELTA_TYPES = {
    "variant": ("variant", """parse_json('{"k": ' || id || '}')""", "to_json(x)", "yes"),
    "collation": ("string collate utf8_lcase", "concat('A', id)", "x", "no"),
}


@pytest.fixture
def answer(record_property: Callable[[str, object], None]) -> Callable[[Work, Work, str], None]:
    """Record what is found: yes, no if the table cannot be made, or the code of a refusal.

    The arguments of the fixture's value make the table, work on it, and state the answer with the newest versions.
    """

    def record(make: Work, work: Work, expected: str = "yes") -> None:
        found = _found(make, work)
        record_property("answer", found)
        release = versions.installed()
        is_newest = version("pyspark") == newest_tested(release)
        if is_newest and release in (versions.NEWEST, versions.RELEASES[-1]):
            assert found == expected

    return record


def _found(make: Work, work: Work) -> str:
    try:
        make()
    except (PySparkException, Py4JError, TypeError):  # TypeError: a Java class that does not exist is called
        return "no"
    try:
        work()
    except Refused as refused:
        return refused.diagnostics[0].code
    return "yes"


@pytest.mark.parametrize("format", INTERNALS)
def test_engine_zlayout_runs(spark: SparkSession, format: str) -> None:
    assert fallback_reason(spark, INTERNALS[format]) is None


def test_shuffles_are_checked_by_checksums(spark: SparkSession, answer: Any) -> None:
    setting = "spark.sql.shuffle.orderIndependentChecksum.enableFullRetryOnMismatch"

    def known() -> None:
        spark.conf.unset(setting)  # which zlayout sets in every session
        try:
            spark.conf.get(setting)  # an error if Spark does not know it
        finally:
            spark.conf.set(setting, SESSION_CONF[setting])

    answer(known, lambda: None)


def fill(table: DeltaSubject, x: str = "id") -> None:
    """Two batches of rows with a column `x`, of which some are deleted."""
    for start in (0, 200):
        rows = table.spark.range(start, start + 200, 1, 2)
        table.append(rows.selectExpr("id", "id * 7919 % 600 a", "int(id % 60) b", f"{x} x"))
    table.sql(f"delete from {table} where id % 10 = 3")


def rewritten(table: DeltaSubject, columns: str) -> None:
    """Rewrite all files, and compare these columns."""
    state, before = table.observe("a", "b"), table.rows(columns)
    (done,) = table.run(state, verify="full")
    assert isinstance(done, Commit)
    assert (done.files_removed, done.rows) == (len(state.files), len(before))
    assert table.rows(columns) == before
    assert table.observe().files.deleted.sum() == 0


@pytest.mark.parametrize("feature", FEATURES)
def test_features_of_delta_are_kept(delta: DeltaSubject, feature: str, answer: Any) -> None:
    columns = "id bigint, a bigint, b int, x bigint"
    ids = ", _metadata.row_id, _metadata.row_commit_version" if feature == "row tracking" else ""

    def make() -> None:
        delta.sql(f"create table {delta} ({columns}) using delta tblproperties ({FEATURES[feature]})")
        fill(delta)
        vectors = delta.observe().files.deleted.sum()
        assert (vectors > 0) == (feature == "deletion vectors")

    answer(make, lambda: rewritten(delta, f"*{ids}"))


@pytest.mark.parametrize("kind", DELTA_TYPES)
def test_types_of_delta_are_kept_or_refused(delta: DeltaSubject, kind: str, answer: Any) -> None:
    name, value, read, expected = DELTA_TYPES[kind]

    def make() -> None:
        delta.sql(f"create table {delta} (id bigint, a bigint, b int, x {name}) using delta")
        fill(delta, value)

    answer(make, lambda: rewritten(delta, f"id, a, b, {read}"), expected)


def test_widened_types_of_delta_are_kept(delta: DeltaSubject, answer: Any) -> None:
    widening = "tblproperties ('delta.enableTypeWidening'='true')"

    def make() -> None:
        delta.sql(f"create table {delta} (id bigint, a bigint, b int, x int) using delta {widening}")
        fill(delta, "int(id)")
        delta.sql(f"alter table {delta} alter column x type bigint")
        delta.sql(f"insert into {delta} values (1000, 1, 1, 5000000000)")

    answer(make, lambda: rewritten(delta, "*"))


def test_a_rewrite_of_delta_is_rolled_back(delta: DeltaSubject, answer: Any) -> None:
    def work() -> None:
        files, rows = set(delta.observe().files.path.to_pylist()), delta.rows("*, _metadata.row_id")
        delta.run()
        backend = delta.backend
        commit = backend.roll_back(backend.undo(delta.name, None), "undo", {}, lambda _: None)
        assert commit.kind == "rollback"
        assert set(delta.observe().files.path.to_pylist()) == files
        assert delta.rows("*, _metadata.row_id") == rows

    answer(lambda: create_delta(delta, 100), work)


def test_types_of_iceberg_are_kept_or_refused_variant(iceberg: IcebergSubject, answer: Any) -> None:
    def make() -> None:
        create(iceberg, "variant")
        append(iceberg, 0, f"{JSON} x")
        append(iceberg, 100, "cast(null as variant) x")

    answer(make, lambda: rewritten_equal(iceberg, "to_json(x)"))


def test_types_of_iceberg_are_kept_or_refused_geometry(iceberg: IcebergSubject, answer: Any) -> None:
    def make() -> None:
        create(iceberg)
        append(iceberg, 0)
        add(iceberg, iceberg.jvm.iceberg.types.Types.GeometryType.crs84())
        append(iceberg, 100, f"st_setsrid(st_geomfromwkb({POINT}), 4326) x")

    with session_conf(iceberg.spark, {"spark.sql.geospatial.enabled": "true"}):
        answer(make, lambda: rewritten_equal(iceberg, "st_asbinary(x), st_srid(x)"))


def test_types_of_iceberg_are_kept_or_refused_default(iceberg: IcebergSubject, answer: Any) -> None:
    def make() -> None:
        create(iceberg)
        append(iceberg, 0)
        jvm = iceberg.jvm.iceberg
        add(iceberg, jvm.types.Types.StringType.get(), "", jvm.expressions.Expressions.lit("old"))
        append(iceberg, 100, "if(id % 2 = 0, 'new', null) x")
        assert {row[0] for row in iceberg.rows("distinct x")} == {"old", "new", None}

    answer(make, lambda: rewritten_equal(iceberg, "x"))


def test_engine_native_rewrites_a_branch_of_iceberg_or_refuses_it(iceberg: IcebergSubject, answer: Any) -> None:
    audit = iceberg.on("audit")

    def make() -> None:
        create_iceberg(iceberg)
        iceberg.sql(f"alter table {iceberg} create branch audit")

    def work() -> None:
        main, rows = iceberg.observe().version, audit.rows()
        done = audit.run(layout=replace(make_layout("a", "b", engine="native"), curve="linear"))
        assert any(isinstance(each, Commit) for each in done)
        assert (iceberg.observe().version, audit.rows()) == (main, rows)

    answer(make, work)
