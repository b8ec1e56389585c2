"""The benchmark's data: TPC-H lineitem in arrival order, as one Delta and one Iceberg table that arms start from."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from zlayout.errors import Location
from zlayout.formats.base import Backend
from zlayout.formats.delta.backend import DeltaBackend
from zlayout.formats.iceberg.backend import IcebergBackend
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import CatalogConfig, Project, SparkConfig, TableName

CODEC = "snappy"
HEAP = "3g"  # five of them at once
# Iceberg's own z-order cannot do decimals, so that the quantity is a bigint in all arms.
COLUMNS = "* EXCEPT (l_quantity), CAST(l_quantity AS BIGINT) AS l_quantity"
DELTA = TableName("lake", ("bench",), "work")
ICEBERG = TableName("ice", ("bench",), "lineitem")
STATE = "zlayout.state"


@dataclass(slots=True)
class Bench:
    """A folder with the base tables, one Spark session, and a way back to the start before each arm."""

    root: Path
    runtime: SparkRuntime
    project: Project
    files: int
    snapshot: int = 0

    @property
    def base(self) -> Path:
        return self.root / "delta" / "bench" / "base"

    @property
    def work(self) -> Path:
        return self.root / "delta" / "bench" / "work"

    def backend(self, format: str) -> Backend:
        if format == "delta":
            return DeltaBackend(self.project.catalogs["lake"], self.runtime)
        return IcebergBackend(self.project.catalogs["ice"], self.runtime)

    def reset_delta(self) -> None:
        """Reset `work` to `base`, by hard links, so that no byte is copied."""
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(self.base, self.work, copy_function=os.link)

    def reset_iceberg(self) -> None:
        """Return to the first snapshot, and remove the files of the previous arm from disk."""
        sql = self.runtime.session.sql
        sql(f"CALL ice.system.rollback_to_snapshot('{_inside(ICEBERG)}', {self.snapshot})")
        sql(f"ALTER TABLE {ICEBERG} UNSET TBLPROPERTIES IF EXISTS ('{STATE}')")
        kept = {row.file_path.removeprefix("file:") for row in sql(f"SELECT file_path FROM {ICEBERG}.files").collect()}
        for path in (self.root / "iceberg" / "bench" / "lineitem" / "data").rglob("*.parquet"):
            if str(path) not in kept:
                path.unlink()

    def drop_outputs(self) -> None:
        """Remove the tables that the copy arms wrote."""
        shutil.rmtree(self.root / "delta" / "bench" / "copy", ignore_errors=True)
        self.runtime.session.sql("DROP TABLE IF EXISTS ice.bench.copy PURGE")


def open_bench(root: Path, scale: float, files: int) -> Bench:
    """Generate the data, start Spark and write both base tables into `root`."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    bench = attach(root, files)
    _generate(root, scale)
    spark = bench.runtime.session
    spark.read.parquet(str(root / "tpch" / "lineitem.parquet")).createOrReplaceTempView("generated")
    write_base(bench, spark.sql(f"SELECT {COLUMNS} FROM generated"))
    return bench


def attach(root: Path, files: int, snapshot: int = 0) -> Bench:
    """Open a folder that `open_bench` made in another session. snapshot: that of the Iceberg base table."""
    place = Location("benchmark")
    catalogs = {
        "lake": CatalogConfig("lake", "delta", "path", {"warehouse": str(root / "delta")}, place),
        "ice": CatalogConfig(
            "ice",
            "iceberg",
            "sql",
            {"uri": f"sqlite:///{root / 'iceberg.db'}", "warehouse": f"file://{root / 'iceberg'}"},
            place,
        ),
    }
    conf = {
        # all of the heap from the start: one that has to grow costs a rewrite as much as 7 %
        "spark.driver.memory": HEAP,
        "spark.driver.extraJavaOptions": f"-Xms{HEAP} -XX:+AlwaysPreTouch",
        "spark.sql.parquet.compression.codec": CODEC,
    }
    project = Project(root, catalogs, SparkConfig("local[2]", conf), ())
    return Bench(root, SparkRuntime(project), project, files, snapshot)


def _generate(root: Path, scale: float) -> None:
    tool = str(Path(sys.executable).parent / "tpchgen-cli")
    command = [tool, "parquet", "-s", str(scale), "--tables=lineitem", f"--output-dir={root / 'tpch'}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def write_base(bench: Bench, rows: DataFrame) -> None:
    """Write the same rows in both formats, shuffled by a hash of the row, in as many files as the arms will write."""
    spark = bench.runtime.session
    arrived = rows.withColumn("arrival", F.xxhash64(*rows.columns))
    arrived = arrived.repartitionByRange(bench.files, "arrival").drop("arrival")
    arrived.write.format("delta").save(str(bench.base))
    spark.sql("CREATE NAMESPACE ice.bench")
    create_iceberg(arrived, str(ICEBERG))
    bench.snapshot = spark.sql(f"SELECT snapshot_id FROM {ICEBERG}.snapshots").first().snapshot_id


def create_iceberg(rows: DataFrame, name: str) -> None:
    writer = rows.writeTo(name).using("iceberg").option("distribution-mode", "none")
    writer.tableProperty("write.parquet.compression-codec", CODEC).tableProperty("format-version", "2").create()


def _inside(table: TableName) -> str:
    return ".".join(table.identifier)
