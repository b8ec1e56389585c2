"""Measures `apply` with engine native over Spark Connect, beside a session with a JVM, on both formats.

The arms of a format alternate, each with a JVM of its own that stays up; one round is not counted. Time begins with the
plan and ends with the check after the commit, so that the start of Spark is not part of it. The client of the Connect
arm is a process of an environment without pyspark and py4j.

Writes RESULTS.md and results/connect.json beside this file.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import zlayout
from zlayout.spec.model import SparkConfig

HERE = Path(__file__).parent
SECTION = "## Engine native over Spark Connect"
SECONDS = "seconds "  # begins the line with the answer, whatever else an engine prints
HEAP = "3g"
JAVA = (f"-Xms{HEAP}", "-XX:+AlwaysPreTouch")
# The same in both sessions, where the server of the tests has settings for tiny tables.
CONF = {
    "spark.sql.shuffle.partitions": "200",
    "spark.databricks.delta.snapshotPartitions": "50",
    "spark.log.level": "WARN",
}
TABLES = {"delta": "lake.bench.t", "iceberg": "ice.bench.t"}
KEYS = ("l_shipdate", "l_partkey")
LAYOUT = """version: 1
table: {table}
engine: native
zorder: {{columns: [{keys}], curve: zorder}}
files: {{target_size: {size}}}
"""


def main() -> int:
    """Run all arms, or be one of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0, help="TPC-H scale factor")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--files", type=int, default=28, help="files in every table before, and about as many after")
    parser.add_argument("--folder", type=Path, default=HERE.parent / "build" / "bench-connect")
    parser.add_argument("--arm", choices=("classic", "connect"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    if arguments.arm:
        serve(folder, arguments.arm)
        return 0
    make(folder, arguments.scale, arguments.files)
    measured: dict[str, dict[str, Any]] = {}
    with ExitStack() as stack:
        arms = {name: stack.enter_context(arm(folder, name)) for name in ("classic", "connect")}
        for format in TABLES:
            walls: dict[str, list[float]] = {name: [] for name in arms}
            for turn in range(arguments.rounds + 1):
                for name, process in arms.items():
                    reset(folder, format)
                    seconds, files = ask(process, TABLES[format])
                    print(f"{format} {name} round {turn}: {seconds:.1f} s, {files} files", file=sys.stderr, flush=True)
                    if turn:
                        walls[name].append(seconds)
            measured[format] = {name: [round(wall, 2) for wall in found] for name, found in walls.items()}
    rounds = f"{arguments.rounds} round{'s' if arguments.rounds > 1 else ''}"
    about = (
        f"scale {arguments.scale:g}, {arguments.files} files, {rounds}, {os.cpu_count()} cores, {platform.machine()}, "
        f"{date.today().isoformat()}"
    )
    write(about, measured)
    return 0


def make(folder: Path, scale: float, files: int) -> None:
    """Write lineitem in random order to a table of each format, by deltalake and pyiceberg, and a project with both."""
    import numpy as np
    import pyarrow.parquet as pq
    from deltalake import write_deltalake
    from pyiceberg.catalog import load_catalog

    shutil.rmtree(folder, ignore_errors=True)
    (folder / "layouts").mkdir(parents=True)
    tool = str(Path(sys.executable).parent / "tpchgen-cli")
    command = [tool, "parquet", "-s", str(scale), "--tables=lineitem", f"--output-dir={folder / 'tpch'}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    rows = pq.read_table(folder / "tpch" / "lineitem.parquet")
    rows = rows.cast(_plain(rows.schema)).take(np.random.default_rng(1).permutation(len(rows)))
    options = {"uri": f"sqlite:///{folder}/ice.db", "warehouse": f"file://{folder}/iceberg"}
    catalog = load_catalog("ice", type="sql", **options)
    catalog.create_namespace("bench")
    table = catalog.create_table("bench.t", rows.schema)
    for part in range(files):
        slice_ = rows.slice(part * len(rows) // files, (part + 1) * len(rows) // files - part * len(rows) // files)
        write_deltalake(str(folder / "lake" / "bench" / "base"), slice_, mode="append")
        table.append(slice_)
    (folder / "kept.json").write_text(
        json.dumps(
            {"location": table.metadata_location, "files": [str(path) for path in (folder / "iceberg").rglob("*.*")]}
        )
    )
    (folder / "zlayout.yaml").write_text(
        f"version: 1\ncatalogs:\n  lake: {{format: delta, type: path, warehouse: lake}}\n"
        f"  ice: {{format: iceberg, type: sql, uri: '{options['uri']}', warehouse: '{options['warehouse']}'}}\n"
    )
    total = sum(path.stat().st_size for path in (folder / "lake").rglob("*.parquet"))
    for format, name in TABLES.items():
        layout = LAYOUT.format(table=name, keys=", ".join(KEYS), size=total // files)
        (folder / "layouts" / f"{format}.yaml").write_text(layout)


def _plain(schema: Any) -> Any:
    """Return the schema without types that a writer of the two does not know: views of strings."""
    import pyarrow as pa

    views = (pa.types.is_string_view, pa.types.is_large_string)
    return pa.schema([f.with_type(pa.string()) if any(is_(f.type) for is_ in views) else f for f in schema])


def reset(folder: Path, format: str) -> None:
    """Return a table to its first version."""
    if format == "delta":
        shutil.rmtree(folder / "lake" / "bench" / "t", ignore_errors=True)
        shutil.copytree(folder / "lake" / "bench" / "base", folder / "lake" / "bench" / "t", copy_function=os.link)
        return
    kept = json.loads((folder / "kept.json").read_text())
    with closing(sqlite3.connect(folder / "ice.db")) as database, database:
        database.execute("UPDATE iceberg_tables SET metadata_location = ?", (kept["location"],))
    for path in set(map(str, (folder / "iceberg").rglob("*.*"))) - set(kept["files"]):
        Path(path).unlink()


@contextmanager
def arm(folder: Path, name: str) -> Iterator[subprocess.Popen[str]]:
    """The process of an arm, which waits for its turns; for Connect, with its server."""
    sys.path.insert(0, str(HERE.parent / "tests"))
    from support.connect import both_formats, connect_server
    from support.environments import ROOT, environment

    command = [__file__, "--arm", name, "--folder", str(folder)]
    with ExitStack() as stack:
        python, environ = Path(sys.executable), dict(os.environ)
        if name == "connect":
            python = environment(folder / "client", f"{ROOT}[connect,sql]")
            server = stack.enter_context(
                connect_server(folder / "server.log", both_formats(folder) | CONF, (f"-Xmx{HEAP}", *JAVA))
            )
            environ["SPARK_REMOTE"] = server.url
        process = subprocess.Popen(
            [str(python), *command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ
        )
        try:
            yield process
        finally:
            process.communicate()


def ask(process: subprocess.Popen[str], table: str) -> tuple[float, int]:
    """Return the seconds that the arm took for a table, and the number of files afterwards."""
    assert process.stdin is not None
    assert process.stdout is not None
    print(table, file=process.stdin, flush=True)
    for line in process.stdout:
        if line.startswith(SECONDS):
            seconds, files = line.removeprefix(SECONDS).split()
            return float(seconds), int(files)
    raise RuntimeError("the arm failed: see above")


def serve(folder: Path, name: str) -> None:
    """Plan and apply the layout of each table that is named on stdin."""
    project, session = zlayout.load_project(folder), None
    with ExitStack() as stack:
        if name == "classic":
            from zlayout.spark.session import SparkRuntime

            heap = {"spark.driver.memory": HEAP, "spark.driver.extraJavaOptions": " ".join(JAVA)}
            spark = SparkConfig("local[2]", heap | CONF)
            session = stack.enter_context(SparkRuntime(replace(project, spark=spark))).session
        else:
            from zlayout.spark.connect import close_session, open_session

            session = open_session(os.environ["SPARK_REMOTE"])
            stack.callback(close_session, session)  # pyspark waits forever for a session that is left open
        for line in sys.stdin:
            begun = time.perf_counter()
            report = zlayout.apply(zlayout.plan(project, line.strip()), session)
            taken = time.perf_counter() - begun
            (result,) = report.results.values()
            assert result.outcome == "as_declared", result
            files = len(zlayout.plan(project, line.strip()).planned[0].state.files)
            print(f"{SECONDS}{taken} {files}", flush=True)


def write(about: str, measured: dict[str, dict[str, list[float]]]) -> None:
    """Write the results."""
    from results import replace_section

    (HERE / "results" / "connect.json").write_text(json.dumps({"run": about, **measured}, indent=1) + "\n")
    lines = [
        f"{SECTION}",
        "",
        "Made by `benchmarks/connect.py`. TPC-H lineitem in random order, z-order by l_shipdate and l_partkey: plan,",
        "`OPTIMIZE` or `rewrite_data_files`, and the plan afterwards. *classic*: in a session with a JVM; *connect*:",
        "from a client without Java, the server on the same machine, with the same heap. The arms alternate, each with",
        "a JVM that is up already; one round is not counted.",
        "",
        about,
        "",
        "| format | classic median s | range s | connect median s | range s | connect / classic |",
        "|---|---|---|---|---|---|",
    ]
    for format, walls in measured.items():
        medians = {name: statistics.median(found) for name, found in walls.items()}
        cells = [f"{medians[name]:.1f} | {min(found):.1f} to {max(found):.1f}" for name, found in walls.items()]
        lines.append(f"| {format} | {' | '.join(cells)} | {medians['connect'] / medians['classic']:.2f} |")
    replace_section(HERE / "RESULTS.md", SECTION, "\n".join(lines) + "\n")


if __name__ == "__main__":
    sys.exit(main())
