"""Measures `zlayout plan` as a whole process on a thousand Delta tables and 300 Iceberg tables. No JVM.

`python benchmarks/fleet.py [CASE...]` writes `results/fleet.json`: for each case the number of tables, the seconds of
the process, its CPU seconds, the seconds until its first output on a terminal, its peak memory, and the size of the
HTML report. The Delta tables are metadata only: no data file exists.
"""

from __future__ import annotations

import compileall
import json
import os
import pty
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.catalog import load_catalog
from results import replace_section

import zlayout

HERE = Path(__file__).parent
HEADING = "## A fleet of tables"
PROJECT = """\
version: 1
catalogs:
  lake: {format: delta, type: path, warehouse: ./delta}
  ice: {format: iceberg, type: sql, uri: "sqlite:///iceberg.db", warehouse: ./iceberg}
"""
LAYOUT = "version: 1\n{what}\nzorder: {{columns: [a, b]}}\nfiles: {{target_size: 64MiB}}\n"
DELTA_TABLES, ICEBERG_TABLES, FILES = 1000, 300, 12
UNSET = ("CI", "PYTHONDONTWRITEBYTECODE")  # variables that change what is printed, or how fast modules are imported
SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in ("a", "b", "c")],
    }
)


def make_delta(folder: Path, number: int) -> None:
    """Write the log of a table: one commit with the schema, two with data files that overlap on both columns."""
    log, random = folder / "_delta_log", np.random.default_rng(number)
    log.mkdir(parents=True)
    start: list[dict[str, Any]] = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": f"00000000-0000-0000-0000-{number:012}",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": SCHEMA,
                "partitionColumns": [],
                "configuration": {},
                "createdTime": 0,
            }
        },
    ]
    commits = [start, *([_add(random, f"{version}-{n}") for n in range(FILES // 2)] for version in (1, 2))]
    for version, actions in enumerate(commits):
        lines = [{"commitInfo": {"timestamp": 1000 * version, "operation": "WRITE"}}, *actions]
        (log / f"{version:020}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))


def _add(random: np.random.Generator, name: str) -> dict[str, Any]:
    ends = np.sort(random.integers(0, 10**6, (3, 2)), axis=1).tolist()
    low, high = ({c: e[at] for c, e in zip("abc", ends, strict=True)} for at in (0, 1))
    stats = {"numRecords": 10_000, "minValues": low, "maxValues": high, "nullCount": dict.fromkeys("abc", 0)}
    return {
        "add": {
            "path": f"part-{name}.parquet",
            "partitionValues": {},
            "size": 1 << 20,
            "modificationTime": 0,
            "dataChange": True,
            "stats": json.dumps(stats),
        }
    }


def make_iceberg(root: Path, tables: int, files: int = 2) -> None:
    """Create tables of some small files each in a SQLite catalog."""
    catalog = load_catalog("ice", type="sql", uri=f"sqlite:///{root}/iceberg.db", warehouse=f"file://{root}/iceberg")
    catalog.create_namespace("web")
    for number in range(tables):
        random = np.random.default_rng(number)
        rows = pa.table({name: random.integers(0, 10**6, 100) for name in "abc"})
        table = catalog.create_table(f"web.t{number:04}", rows.schema)
        for _ in range(files):
            table.append(rows)


def make_project(root: Path, layouts: Mapping[str, str]) -> None:
    (root / "layouts").mkdir()
    (root / "zlayout.yaml").write_text(PROJECT)
    for name, what in layouts.items():
        (root / "layouts" / f"{name}.yaml").write_text(LAYOUT.format(what=what))


def delta_by_layouts(root: Path) -> int:
    make_project(root, {f"t{n}": f"table: lake.sales.t{n:04}" for n in range(DELTA_TABLES)})
    for number in range(DELTA_TABLES):
        make_delta(root / f"delta/sales/t{number:04}", number)
    return DELTA_TABLES


def delta_by_rules(root: Path) -> int:
    make_project(root, {f"rule{n}": f"match: lake.sales.t0{n}*" for n in range(1, 4)} | {"all": "match: lake.sales.*"})
    for number in range(DELTA_TABLES):
        make_delta(root / f"delta/sales/t{number:04}", number)
    return DELTA_TABLES


def iceberg_by_rule(root: Path) -> int:
    make_project(root, {"all": "match: ice.web.*"})
    make_iceberg(root, ICEBERG_TABLES)
    return ICEBERG_TABLES


CASES: Mapping[str, tuple[Callable[[Path], int], tuple[str, ...]]] = {
    "1000 Delta tables, 1000 layouts": (delta_by_layouts, ("plan",)),
    "1000 Delta tables, 4 rules": (delta_by_rules, ("plan",)),
    "1000 Delta tables, 4 rules, HTML": (delta_by_rules, ("plan", "--report", "html=report.html")),
    "300 Iceberg tables, 1 rule": (iceberg_by_rule, ("plan",)),
}


def measure(root: Path, arguments: tuple[str, ...]) -> dict[str, Any]:
    """Run the command, and measure time, time to the first output and peak memory."""
    start = time.monotonic()
    screen, terminal = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name not in UNSET} | {"TERM": "xterm"}
    process = subprocess.Popen(
        [sys.executable, "-m", "zlayout", *arguments],
        cwd=root,
        stdout=subprocess.PIPE,
        stderr=terminal,
        env=environment,
    )
    os.close(terminal)
    assert process.stdout is not None
    first = None
    with selectors.DefaultSelector() as selector:
        for stream in (process.stdout.fileno(), screen):
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            for key, _ in selector.select():
                if not _read(key.fd):
                    selector.unregister(key.fd)
                elif first is None:
                    first = time.monotonic() - start
    os.close(screen)
    _, status, usage = os.wait4(process.pid, 0)  # the peak of this process alone
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, f"zlayout {' '.join(arguments)} exits with {process.returncode}"
    peak = usage.ru_maxrss / 1024
    html = root / "report.html"
    size = round(html.stat().st_size / 1e6, 2) if html.exists() else None
    seconds = time.monotonic() - start
    return {
        "seconds": round(seconds, 2),
        "cpu_s": round(usage.ru_utime + usage.ru_stime, 2),
        "first_output_s": round(first or seconds, 2),
        "peak_mb": round(peak),
        "html_mb": size,
    }


def _read(stream: int) -> bytes:
    try:
        return os.read(stream, 1 << 16)
    except OSError:  # the other end of a terminal was closed
        return b""


def section(results: list[dict[str, Any]]) -> str:
    """Return the section of RESULTS.md."""
    lines = [
        HEADING,
        "",
        "Made by `benchmarks/fleet.py`, which measures the whole process of `zlayout plan` on two processors, for "
        "Delta tables with three commits and 12 files, and Iceberg tables with two files in a SQLite catalog. The "
        "goals on a machine without other work are 8 s for 1,000 Delta tables, 5 s for 300 Iceberg tables, and 1 s for "
        "the first line of output. *Load* is the mean number of running processes when the measurement began. With a "
        "load above 1 the seconds are too large, and so are the CPU seconds, because processes share caches.",
        "",
        "The cases that begin with `night` are from `benchmarks/fleet_night.py`: 1,000 Delta tables that need a "
        "rewrite and 300 Iceberg tables that do not, under five rules, one of them for a REST catalog that never "
        "responds (`--timeout 5`), with a budget for 20 tables. The first `apply` is killed after its first commit; "
        "the rows of all Delta tables are the same after the night. These cases have no terminal, so that the first "
        "line is the plan itself.",
        "",
        "| case | seconds | CPU seconds | first line (s) | peak (MB) | HTML (MB) | load |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    columns = ("case", "seconds", "cpu_s", "first_output_s", "peak_mb", "html_mb", "load")
    lines += ["| " + " | ".join("" if r[c] is None else str(r[c]) for c in columns) + " |" for r in results]
    return "\n".join(lines) + "\n"


def store(measured: list[dict[str, Any]]) -> None:
    """Write these results to the file, keep those of other cases, and write the section of RESULTS.md."""
    results = HERE / "results" / "fleet.json"
    known = {r["case"]: r for r in json.loads(results.read_text())} if results.exists() else {}
    known |= {r["case"]: r for r in measured}
    results.write_text(json.dumps(list(known.values()), indent=1) + "\n")
    replace_section(HERE / "RESULTS.md", HEADING, section(list(known.values())))


def main(wanted: list[str]) -> int:
    measured = []
    compileall.compile_dir(Path(zlayout.__file__).parent, quiet=1)  # as pip does
    for case, (make, arguments) in CASES.items():
        if wanted and not any(word in case for word in wanted):
            continue
        with tempfile.TemporaryDirectory() as folder:
            tables = make(Path(folder))
            load = round(os.getloadavg()[0], 1)
            measured.append({"case": case, "tables": tables, **measure(Path(folder), arguments), "load": load})
        print(measured[-1], flush=True)
    store(measured)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
