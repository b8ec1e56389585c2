"""The demo: lay out two TPC-H tables as declared in `layouts/`, and count the files that Spark reads before and after.

Run it with `make demo`. The root of the repository is the project of the demo. The tables stay in `.demo/`, so that you
can continue with `.venv/bin/zlayout plan`.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from zlayout.errors import ZlayoutError
from zlayout.formats.delta.read.log import delta_location
from zlayout.spark.session import SparkRuntime, check_java
from zlayout.spec.load import load_project
from zlayout.spec.model import Project, TableName

ROOT = Path(__file__).resolve().parent.parent
DEMO = ROOT / ".demo"
ZLAYOUT = Path(sys.executable).parent / "zlayout"
FILES = 24
DELTA = TableName("lake", ("tpch",), "lineitem")
ICEBERG = TableName("ice", ("tpch",), "lineitem")
QUERIES = {
    "one day": "l_shipdate = DATE '1995-06-17'",
    "one part": "l_partkey = 12345",
    "parts of a quarter": "l_shipdate BETWEEN DATE '1996-01-01' AND DATE '1996-03-31' AND l_partkey < 2000",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.2, help="TPC-H scale factor")
    scale: float = parser.parse_args().scale
    try:
        check_java()
        os.chdir(ROOT)
        shutil.rmtree(DEMO, ignore_errors=True)
        generate(scale)
        project = load_project(ROOT, os.environ)
        make_tables(project)
        before = files_read(project)
    except ZlayoutError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    run("plan", "--sample")
    run("apply", "--auto-approve")
    run("plan", "--detailed-exitcode")
    for table in (DELTA, ICEBERG):
        run("inspect", str(table))
    after = files_read(project)
    show(before, after)
    return 0


def generate(scale: float) -> None:
    say(f"Generating TPC-H lineitem, scale factor {scale}")
    out = DEMO / "tpch"
    tool = Path(sys.executable).parent / "tpchgen-cli"
    command = [str(tool), "parquet", "-s", str(scale), "--tables=lineitem", f"--output-dir={out}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def make_tables(project: Project) -> None:
    """Create both tables from the same rows in an arbitrary but fixed order, as if they arrived over time."""
    say(f"Writing it in arrival order as a Delta and an Iceberg table of {FILES} files each")
    runtime = SparkRuntime(project)
    spark = runtime.session
    rows = spark.read.parquet(str(DEMO / "tpch" / "lineitem.parquet"))
    arrived = rows.selectExpr("*", "xxhash64(l_orderkey, l_linenumber) AS arrival").repartitionByRange(FILES, "arrival")
    arrived = arrived.drop("arrival")
    arrived.write.format("delta").save(delta_location(project.catalogs[DELTA.catalog], DELTA))
    spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {ICEBERG.catalog}.{ICEBERG.namespace[0]}")
    options = {"use-table-distribution-and-ordering": "false", "distribution-mode": "none", "fanout-enabled": "true"}
    arrived.writeTo(str(ICEBERG)).using("iceberg").options(**options).create()
    runtime.stop()


def files_read(project: Project) -> dict[tuple[TableName, str], int]:
    """Return, for each table and query, the number of data files that Spark reports as read."""
    runtime = SparkRuntime(project)
    spark = runtime.session
    spark.conf.set("spark.sql.adaptive.enabled", "false")
    counts = {}
    for table in (DELTA, ICEBERG):
        for name, condition in QUERIES.items():
            if table is DELTA:
                rows = spark.read.format("delta").load(delta_location(project.catalogs[DELTA.catalog], DELTA))
            else:
                rows = spark.table(str(table))
            query = rows.where(condition).selectExpr("count(*)", "sum(l_extendedprice)")
            query.collect()
            counts[table, name] = scanned_files(query._jdf.queryExecution().executedPlan())
    runtime.stop()
    return counts


def scanned_files(plan: Any) -> int:
    """Return the metric of the scan: numFiles for Delta, resultDataFiles for Iceberg."""
    leaves = plan.collectLeaves()
    metrics = leaves.apply(0).metrics()
    for name in ("numFiles", "resultDataFiles"):
        if metrics.contains(name):
            return int(metrics.apply(name).value())
    raise LookupError(f"no file count among the metrics of {leaves.apply(0).nodeName()}")


def run(*arguments: str) -> None:
    say("$ zlayout " + " ".join(arguments))
    done = subprocess.run([str(ZLAYOUT), *arguments], cwd=ROOT, check=False)
    if done.returncode:
        sys.exit(done.returncode)


def show(before: dict[tuple[TableName, str], int], after: dict[tuple[TableName, str], int]) -> None:
    say("Data files that Spark read for three queries, before and after")
    width = max(map(len, QUERIES))
    for (table, name), count in before.items():
        print(f"  {table!s:<20} {name:<{width}}  {count:>3} -> {after[table, name]:>3}")
    print("\nThe tables are in .demo/. Continue with: .venv/bin/zlayout plan -v")


def say(line: str) -> None:
    print(f"\n{line}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
