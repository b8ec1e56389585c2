"""Measures a night of 1,000 Delta and 300 Iceberg tables under five rules, from plan to drift.

`python benchmarks/fleet_night.py` runs `plan`, `apply` with a budget for about 20 tables (killed once after its first
commit, and started again), `history`, the page, and `drift` with a report, each as a process of its own. One of
the rules is for a REST catalog that accepts connections and never answers. All tables have data files; the rows of the
Delta tables are compared before and after. It adds one entry for each step to `results/fleet.json`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import DeltaTable, write_deltalake
from fleet import DELTA_TABLES, ICEBERG_TABLES, make_iceberg, store

FILES, ROWS = 12, 200
BUDGET_TABLES = 20
TIMEOUT = 5
RULES = {
    "first": "match: lake.sales.t00*",
    "second": "match: lake.sales.t01*",
    "others": "match: lake.sales.*",
    "web": "match: ice.web.*",
    "slow": "match: slow.db.*",
}
LAYOUT = "version: 1\n{what}\nzorder: {{columns: [a, b]}}\nfiles: {{target_size: 16KiB}}\n"


def make_project(root: Path, hung: int) -> None:
    """Write the project, and its tables with data files that overlap on both columns."""
    (root / "layouts").mkdir()
    for name, what in RULES.items():
        (root / "layouts" / f"{name}.yaml").write_text(LAYOUT.format(what=what))
    (root / "zlayout.yaml").write_text(
        "version: 1\ncatalogs:\n"
        "  lake: {format: delta, type: path, warehouse: ./delta}\n"
        '  ice: {format: iceberg, type: sql, uri: "sqlite:///iceberg.db", warehouse: ./iceberg}\n'
        f'  slow: {{format: iceberg, type: rest, uri: "http://127.0.0.1:{hung}"}}\n'
        "history: {keep: 30d}\n"
    )
    for number in range(DELTA_TABLES):
        make_delta(root / f"delta/sales/t{number:04}", number)
    make_iceberg(root, ICEBERG_TABLES, files=1)  # which is as declared: one file cannot be laid out better


def make_delta(folder: Path, number: int) -> None:
    """Write a table: an empty first version, and one commit with FILES files of random keys."""
    random = np.random.default_rng(number)
    schema = pa.schema([(name, pa.int64()) for name in "abc"])
    write_deltalake(folder, schema.empty_table())
    adds = []
    for at in range(FILES):
        rows = pa.table({name: random.integers(0, 10**6, ROWS) for name in "abc"}, schema)
        path = folder / f"part-{at}.parquet"
        pq.write_table(rows, path)
        ends = [{name: end(rows[name]).as_py() for name in "abc"} for end in (pc.min, pc.max)]
        nulls = dict.fromkeys("abc", 0)
        stats = {"numRecords": ROWS, "minValues": ends[0], "maxValues": ends[1], "nullCount": nulls}
        add = {"path": path.name, "partitionValues": {}, "size": path.stat().st_size, "modificationTime": 0}
        adds.append({"add": add | {"dataChange": True, "stats": json.dumps(stats)}})
    lines = [{"commitInfo": {"timestamp": 1000, "operation": "WRITE"}}, *adds]
    (folder / "_delta_log" / f"{1:020}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))


def rows_of(root: Path, number: int) -> pa.Table:
    """Return the rows of a Delta table in a fixed order."""
    table = DeltaTable(root / f"delta/sales/t{number:04}").to_pyarrow_table()
    return table.sort_by([(name, "ascending") for name in "abc"]).combine_chunks()


@contextmanager
def hung_server() -> Iterator[int]:
    """Listen, and never answer. Yields the port."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as server:
        yield server.getsockname()[1]


class Night:
    """The steps of the night and their results."""

    def __init__(self, root: Path) -> None:
        self.root, self.results = root, list[dict[str, Any]]()
        self.environment = os.environ | {"NO_COLOR": "1"}

    def run(self, step: str, *arguments: str, code: int, kill_after: str = "") -> str:
        """Run a command and record it. kill_after: the text in its output after which it and its JVM are killed."""
        start, first, lines = time.monotonic(), None, list[str]()
        with subprocess.Popen(
            [sys.executable, "-m", "zlayout", *arguments],
            cwd=self.root,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            assert process.stdout is not None
            for line in process.stdout:
                first = first or time.monotonic() - start
                lines.append(line)
                if kill_after and kill_after in line:
                    os.killpg(process.pid, signal.SIGKILL)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        text = "".join(lines)
        assert process.returncode == code, f"{step}: exit code {process.returncode}\n{text[-3000:]}"
        self.results.append(
            {
                "case": f"night: {step}",
                "tables": DELTA_TABLES + ICEBERG_TABLES,
                "seconds": round(time.monotonic() - start, 1),
                "cpu_s": round(usage.ru_utime + usage.ru_stime, 1),
                "first_output_s": round(first or 0.0, 1),
                "peak_mb": round(usage.ru_maxrss / 1024),
                "html_mb": None,
                "load": round(os.getloadavg()[0], 1),
            }
        )
        print(self.results[-1], flush=True)
        return text


def main() -> int:
    with tempfile.TemporaryDirectory() as folder, hung_server() as port:
        root = Path(folder)
        make_project(root, port)
        before = [rows_of(root, number) for number in range(DELTA_TABLES)]
        night, limit = Night(root), ("--timeout", str(TIMEOUT))
        planned = night.run("plan", "plan", *limit, code=1)
        assert "slow.db.*" in planned, "the rule of the hung catalog is named"
        size = sum(path.stat().st_size for path in (root / "delta/sales/t0000").glob("*.parquet"))
        budget = ("apply", "--auto-approve", "--max-rewrite-bytes", str(size * BUDGET_TABLES + size // 2), *limit)
        night.run("apply, killed after its first commit", *budget, code=-signal.SIGKILL, kill_after=": commit ")
        applied = night.run("apply within the budget", *budget, code=1)
        done = [line.split()[0] for line in applied.splitlines() if " commit, " in line]
        assert BUDGET_TABLES - 2 <= len(done) <= BUDGET_TABLES, f"{len(done)} tables were rewritten"
        for number, rows in enumerate(before):
            assert rows_of(root, number) == rows, f"the rows of table {number} are the same"
        shown = night.run("history of one table", "history", done[0], code=0)
        assert "apply" in shown
        night.run("page", "plan", *limit, "--report", "html=report.html", code=1)
        night.results[-1]["html_mb"] = round((root / "report.html").stat().st_size / 1e6, 2)
        night.run("drift with a report", "drift", *limit, "--report", "markdown=drift.md", code=1)
        assert "lake.sales." in (root / "drift.md").read_text()
    store(night.results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
