"""Measures the time to plan many small tables at a distance from their S3 store: benchmarks/results/distance.json.

The store (moto) is on this machine, behind a proxy that adds 30 ms to each request and to each new connection and
counts the requests. The store and the proxy share the processors with the planning process, so that times without
the delay are those of the store as much as of zlayout. No JVM.
"""

# ruff: noqa: E402
from __future__ import annotations

from zlayout.process import tune_process

tune_process()  # before numpy and Arrow are imported, as the command does

import argparse
import json
import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from results import replace_section
from support.s3_proxy import kinds, s3_proxy
from support.s3_tables import BUCKET, make_project, write_config
from support.servers import CREDENTIALS, free_port, s3_server

from zlayout.session.session import plan
from zlayout.spec.load import load_project

FOLDER = Path(__file__).parent
ROUND_TRIP = 0.03  # seconds
SELECTIONS = {"delta": "lake.*", "iceberg": "ice.*", "both": ()}


def measure(tables: int, commits: int, repeat: int) -> list[dict[str, Any]]:
    """Return times and requests for `tables` tables of each format."""
    os.environ.update(CREDENTIALS)
    with (
        tempfile.TemporaryDirectory() as folder,
        s3_server(port := free_port(), BUCKET) as store,
        s3_proxy(port) as (proxy, url),
    ):
        root = Path(folder)
        make_project(root, store, tables, tables, commits)
        write_config(root, {"endpoint": url, "region": "us-east-1"})
        project = load_project(root, os.environ)
        plan(project)  # imports, the first connections
        found = []
        for name, selection in SELECTIONS.items():
            times: dict[float, list[float]] = {0.0: [], ROUND_TRIP: []}
            requests: dict[str, int] = {}
            for _ in range(repeat):
                for proxy.round_trip, seconds in times.items():
                    with proxy.counting() as counted:
                        start = time.monotonic()
                        planned = plan(project, selection)
                        seconds.append(time.monotonic() - start)
                    requests = dict(sorted(kinds(counted).items()))
            near, far = (median(seconds) for seconds in times.values())
            limit = 3 * near + 10 * ROUND_TRIP
            found.append(
                {
                    "tables": name,
                    "count": len(planned.tables),
                    "commits": commits,
                    "requests": requests,
                    "requests_per_table": round(sum(requests.values()) / len(planned.tables), 1),
                    "near_s": round(near, 2),
                    "far_s": round(far, 2),
                    "limit_s": round(limit, 2),
                    "within_limit": far <= limit,
                }
            )
            print(json.dumps(found[-1]), flush=True)
        return found


def section(results: list[dict[str, Any]]) -> str:
    """Return the section of RESULTS.md."""
    lines = [
        "## Planning at a distance",
        "",
        "Made by `benchmarks/distance.py`, which plans tables of a few kilobytes with three commits on S3 (moto behind "
        "a proxy on this machine). *Near* is without delay; for *far*, the proxy adds 30 ms to each request and each "
        "new connection. The goal is at most three times the near time plus ten round trips. Store, proxy and zlayout "
        "share two processors.",
        "",
        "| tables | number | requests per table | near (s) | far (s) | goal (s) | met |",
        "|---|---:|---:|---:|---:|---:|---|",
    ]
    for r in results:
        met = "yes" if r["within_limit"] else "**no**"
        lines.append(
            f"| {r['tables']} | {r['count']} | {r['requests_per_table']} | {r['near_s']} | {r['far_s']} "
            f"| {r['limit_s']} | {met} |"
        )
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=25, help="of each format")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    results = measure(options.tables, 3, options.repeat)
    (FOLDER / "results" / "distance.json").write_text(json.dumps(results, indent=1) + "\n")
    replace_section(FOLDER / "RESULTS.md", "## Planning at a distance", section(results))
