"""The arms of the rewrite benchmark: each rewrites the base table of its format, and is timed as a whole."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from lineitem import DELTA, ICEBERG, Bench, create_iceberg
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from zlayout.errors import Location
from zlayout.planner.diff import PlanOptions
from zlayout.session.apply import apply_table
from zlayout.session.plan import plan_table
from zlayout.session.results import new_run
from zlayout.spec.model import Layout, LayoutSpec, TableName, ZorderColumn

Keys = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Arm:
    """name and format as they stand in the results; run does it; laid_out: it orders the rows by the keys."""

    name: str
    format: str
    run: Callable[[Bench, Keys], None]
    laid_out: bool
    curve: str = ""


def target_size(bench: Bench, format: str) -> int:
    """Bytes a file, so that the table's bytes make as many files as it has now."""
    table = DELTA if format == "delta" else ICEBERG
    total = int(bench.backend(format).observe(table, ()).files.bytes.sum())
    return total // bench.files


def copy_delta(bench: Bench, _keys: Keys) -> None:
    _delta(bench).write.format("delta").save(str(bench.root / "delta" / "bench" / "copy"))


def shuffle_copy_delta(bench: Bench, _keys: Keys) -> None:
    _shuffled(bench, _delta(bench)).write.format("delta").save(str(bench.root / "delta" / "bench" / "copy"))


def copy_iceberg(bench: Bench, _keys: Keys) -> None:
    create_iceberg(bench.runtime.session.table(str(ICEBERG)), "ice.bench.copy")


def shuffle_copy_iceberg(bench: Bench, _keys: Keys) -> None:
    create_iceberg(_shuffled(bench, bench.runtime.session.table(str(ICEBERG))), "ice.bench.copy")


def delta_zorder(bench: Bench, keys: Keys) -> None:
    _optimize(bench, keys, {})


def delta_zorder_tuned(bench: Bench, keys: Keys) -> None:
    prefix = "spark.databricks.io.skipping.mdc"
    _optimize(
        bench,
        keys,
        {f"{prefix}.addNoise": "false", "spark.databricks.delta.optimize.zorder.fastInterleaveBits.enabled": "true"},
    )


def iceberg_zorder(bench: Bench, keys: Keys) -> None:
    iceberg_rewrite(bench, f"zorder({', '.join(keys)})")


def iceberg_rewrite(bench: Bench, order: str = "") -> None:
    """Rewrite in a sort order, or without one, by which rows only move to the partitions of the table.

    Iceberg limits the uncompressed size of a file: the maximum gives one file per task.
    """
    size = target_size(bench, "iceberg")
    options = {
        "rewrite-all": "true",
        "target-file-size-bytes": str(size),
        "max-file-size-bytes": str(64 * size),
        "max-file-group-size-bytes": str(2**50),
    }
    pairs = ", ".join(f"'{key}', '{value}'" for key, value in options.items())
    strategy = f"strategy => 'sort', sort_order => '{order}'" if order else "strategy => 'binpack'"
    bench.runtime.session.sql(
        f"CALL ice.system.rewrite_data_files(table => '{'.'.join(ICEBERG.identifier)}', {strategy}, "
        f"options => map({pairs}))"
    ).collect()


def zlayout_delta(bench: Bench, keys: Keys) -> None:
    _apply(bench, DELTA, "delta", keys)


def zlayout_iceberg(bench: Bench, keys: Keys) -> None:
    _apply(bench, ICEBERG, "iceberg", keys)


ARMS = (
    Arm("copy_delta", "delta", copy_delta, False),
    Arm("copy_iceberg", "iceberg", copy_iceberg, False),
    Arm("shuffle_copy_delta", "delta", shuffle_copy_delta, False),
    Arm("shuffle_copy_iceberg", "iceberg", shuffle_copy_iceberg, False),
    Arm("delta_zorder", "delta", delta_zorder, True, "zorder"),
    Arm("zlayout_delta", "delta", zlayout_delta, True, "kd"),
    Arm("delta_zorder_tuned", "delta", delta_zorder_tuned, True, "zorder"),
    Arm("zlayout_iceberg", "iceberg", zlayout_iceberg, True, "kd"),
    Arm("iceberg_zorder", "iceberg", iceberg_zorder, True, "zorder"),
)


def layout_spec(bench: Bench, table: TableName, format: str, keys: Keys) -> LayoutSpec:
    columns = tuple(ZorderColumn(key) for key in keys)
    layout = Layout(columns, "kd", 1000, False, target_size(bench, format), True, "zlayout")
    return LayoutSpec(table, layout, Location("benchmark"))


def _apply(bench: Bench, table: TableName, format: str, keys: Keys) -> None:
    """Do all that `zlayout apply` does after the start of Spark: plan, rewrite, commit, plan again."""
    backend = bench.backend(format)
    planned = plan_table(layout_spec(bench, table, format, keys), backend, PlanOptions())
    applied = new_run(planned)
    apply_table(planned, backend, PlanOptions(), applied, lambda _progress: None, lambda _table, _outcome: None)
    if applied.error is not None:
        raise applied.error
    if applied.after is None or applied.after.status != "unchanged":
        raise RuntimeError(f"{table} is not as declared after apply: {applied.after}")


def _optimize(bench: Bench, keys: Keys, conf: dict[str, str]) -> None:
    """Delta writes total // maxFileSize + 1 files."""
    spark = bench.runtime.session
    total = int(bench.backend("delta").observe(DELTA, ()).files.bytes.sum())
    conf = {"spark.databricks.delta.optimize.maxFileSize": str(total // bench.files + 1), **conf}
    for key, value in conf.items():
        spark.conf.set(key, value)
    try:
        spark.sql(f"OPTIMIZE delta.`{bench.work}` ZORDER BY ({', '.join(keys)})").collect()
    finally:
        for key in conf:
            spark.conf.unset(key)


def _delta(bench: Bench) -> DataFrame:
    return bench.runtime.session.read.format("delta").load(str(bench.base))


def _shuffled(bench: Bench, rows: DataFrame) -> DataFrame:
    """Shuffle once by an id that needs no computation: the minimum for any rewrite into other files."""
    return rows.repartitionById(bench.files, F.pmod(F.col("l_orderkey"), F.lit(bench.files)).cast("int"))
