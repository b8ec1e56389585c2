"""`init`: a project to start from. Never overwrites a file."""

from __future__ import annotations

from pathlib import Path

from zlayout.cli.console import Console
from zlayout.errors import SpecError

CATALOGS = {
    "delta": """\
  lake:
    format: delta
    type: path
    warehouse: ./warehouse          # a table lake.sales.orders lives in ./warehouse/sales/orders
""",
    "iceberg": """\
  lake:
    format: iceberg
    type: sql                       # or rest, glue, hive
    uri: sqlite:///catalog.db
    warehouse: ./warehouse
""",
}

PROJECT = """\
# Catalogs, Spark and defaults of this project; `zlayout schema project` prints the schema of this file.
version: 1
layouts: [layouts/**/*.yaml]
catalogs:
{catalog}spark:
  master: local[*]
"""

LAYOUT = """\
# How one table should be laid out; `zlayout schema layout` prints the schema of this file.
version: 1
table: lake.sales.orders            # catalog.namespace.table
zorder:
  columns: [order_date, customer_id]  # what queries filter on; order is significant
files:
  target_size: 128MiB
"""

WORKFLOW = """\
# Pull requests see what their layouts would do.
name: zlayout
on: [pull_request]
concurrency: zlayout-${{ github.ref }}
permissions:
  contents: read
jobs:
  plan:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: actions/setup-python@v5
        with: {python-version: "3.12"}
      - run: pip install zlayout
      - run: zlayout validate
      - run: zlayout plan --out plan.json
      - uses: actions/upload-artifact@v4
        with: {name: plan, path: plan.json}
"""


def write_project(folder: Path, format: str, console: Console) -> int:
    """Write the starting files. Raises SpecError ZL047 for a file that is there, ZL048 for an unknown format."""
    if format not in CATALOGS:
        raise SpecError.of("ZL048", f"unknown format {format!r}, expected one of {', '.join(CATALOGS)}")
    files = {
        folder / "zlayout.yaml": PROJECT.format(catalog=CATALOGS[format]),
        folder / "layouts" / "orders.yaml": LAYOUT,
        folder / ".github" / "workflows" / "zlayout.yml": WORKFLOW,
    }
    for path in files:
        if path.exists():
            raise SpecError.of("ZL047", f"{path} exists already", hint="init never overwrites; choose another folder")
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        console.result(f"wrote {path}\n")
    console.say("Next: put your catalog and table in, then `zlayout validate` and `zlayout plan`.")
    return 0
