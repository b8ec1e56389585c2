"""Take the pictures of docs/reports.md: `python docs/pictures/report.py`, with Chromium on the PATH.

Real output: TPC-H lineitem as a Delta table in the order in which rows arrive, and orders by month; `zlayout plan`
writes the page, Chromium shows it. No JVM.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import write_deltalake
from playwright.sync_api import sync_playwright

from zlayout.cli.main import run

HERE = Path(__file__).parent
FILES = 24
PICTURES = {
    "report-light": (1100, "light", ""),
    "report-dark": (1100, "dark", "#table-2"),
    "report-400": (400, "light", ""),
}
PROJECT = "version: 1\ncatalogs:\n  lake: {format: delta, warehouse: tables}\n"
LINEITEM = """\
version: 1
table: lake.tpch.lineitem
zorder:
  columns: [l_shipdate, l_partkey]
files: {target_size: 128KiB}
"""
ORDERS = """\
version: 1
table: lake.tpch.orders
zorder:
  columns: [o_custkey, o_orderkey]
files: {target_size: 3KiB}
"""


def main() -> None:
    """Make the tables in a folder of their own, plan, and take the pictures."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        tables()
        assert run(["plan", "--sample", "--report", "html=report.html"]) == 0
        pictures(Path("report.html").absolute())
        os.chdir(HERE)


def tables() -> None:
    """lineitem: FILES files of rows in no order; orders: by month, the last year's twice as often appended to."""
    tool = Path(sys.executable).parent / "tpchgen-cli"
    command = [str(tool), "parquet", "-s", "0.05", "--tables=lineitem,orders", "--output-dir=tpch"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    lineitem = pq.read_table(
        "tpch/lineitem.parquet", columns=["l_orderkey", "l_partkey", "l_shipdate", "l_extendedprice"]
    )
    arrival = pc.bit_wise_and(pc.multiply(lineitem["l_orderkey"].cast(pa.int64()), 2654435761), 2**31 - 1)
    lineitem = lineitem.take(pc.sort_indices(arrival))
    for n in range(FILES):
        write_deltalake(
            "tables/tpch/lineitem", lineitem.slice(n * len(lineitem) // FILES, len(lineitem) // FILES), mode="append"
        )
    orders = pq.read_table("tpch/orders.parquet", columns=["o_orderkey", "o_custkey", "o_orderdate"])
    orders = orders.append_column("month", pc.strftime(orders["o_orderdate"], "%Y-%m"))
    for n in range(6):
        part = orders.slice(n * len(orders) // 6, len(orders) // 6)
        if n >= 2:
            part = part.filter(pc.greater_equal(part["month"], "1995-06"))
        write_deltalake("tables/tpch/orders", part, mode="append", partition_by=["month"])
    Path("layouts").mkdir()
    Path("zlayout.yaml").write_text(PROJECT)
    Path("layouts/lineitem.yaml").write_text(LINEITEM)
    Path("layouts/orders.yaml").write_text(ORDERS)


def pictures(report: Path) -> None:
    """One PNG for each of PICTURES."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, (width, scheme, table) in PICTURES.items():
            page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)  # type: ignore[arg-type]
            page.goto(report.as_uri() + table)
            page.screenshot(path=HERE / f"{name}.png", full_page=True)
        browser.close()


if __name__ == "__main__":
    main()
