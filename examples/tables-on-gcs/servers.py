"""Start an emulator of Google Cloud Storage on this machine, with a Delta and an Iceberg table.

The emulator is that of zlayout's tests. README.md has the commands that use it.
"""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
from deltalake import write_deltalake
from pyiceberg.catalog import load_catalog

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests"))

from support.gcs import gcs_server, upload  # noqa: E402

from zlayout import load_project  # noqa: E402
from zlayout.spec.client_options import pyiceberg_properties  # noqa: E402
from zlayout.spec.model import CatalogConfig  # noqa: E402

ROWS, FILES = 40_000, 8


def main() -> None:
    project = load_project(HERE)
    lake, ice = (project.catalogs[name] for name in ("lake", "ice"))
    root = Path(str(ice.options["uri"]).removeprefix("sqlite:///")).parent
    root.mkdir(parents=True)
    store, location = urlsplit(lake.options["storage"]["endpoint"]), urlsplit(lake.options["warehouse"])
    try:
        with gcs_server(store.port, root, location.netloc) as url:
            rows = orders()
            parts = [rows.slice(start, ROWS // FILES) for start in range(0, ROWS, ROWS // FILES)]
            make_delta(url, location.netloc, f"{location.path.strip('/')}/sales/orders", parts)
            make_iceberg(ice, parts)
            print("ready", flush=True)
            with suppress(KeyboardInterrupt):
                signal.pause()
    finally:
        shutil.rmtree(root)


def orders() -> pa.Table:
    random, day = np.random.default_rng(1), np.datetime64("2026-01-01")
    return pa.table(
        {
            "order_id": np.arange(ROWS),
            "customer_id": random.integers(0, 50_000, ROWS),
            "order_date": day + random.integers(0, 365, ROWS),
        }
    )


def make_delta(url: str, bucket: str, name: str, parts: list[pa.Table]) -> None:
    """Write a Delta table to a local folder, and upload its files. deltalake cannot write to the emulator."""
    with tempfile.TemporaryDirectory() as folder:
        for part in parts:
            write_deltalake(folder, part, mode="append")
        for path in Path(folder).rglob("*"):
            if path.is_file():
                upload(url, bucket, f"{name}/{path.relative_to(folder)}", path.read_bytes())


def make_iceberg(config: CatalogConfig, parts: list[pa.Table]) -> None:
    catalog = load_catalog(config.name, **pyiceberg_properties(config))
    catalog.create_namespace("sales")
    table = catalog.create_table("sales.orders", parts[0].schema)
    for part in parts:
        table.append(part)


if __name__ == "__main__":
    main()
