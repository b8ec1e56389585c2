"""Small tables on S3, made without a JVM: projects of Delta tables by location and Iceberg tables in SQLite."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
from deltalake import PostCommitHookProperties, write_deltalake
from pyiceberg.catalog import load_catalog

BUCKET = "zlayout-distance"
NAMESPACE = "db"


def make_project(root: Path, endpoint: str, delta: int, iceberg: int, commits: int = 3) -> None:
    """Make a project of so many tables, each with a layout. commits: how many times each table was appended to."""
    storage = {"endpoint": endpoint, "region": "us-east-1"}
    write_config(root, storage)
    options = {"aws_endpoint_url": endpoint, "aws_region": "us-east-1", "aws_allow_http": "true"}
    hooks = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
    for number in range(delta):
        for commit in range(commits):
            write_deltalake(
                f"s3://{BUCKET}/delta/{NAMESPACE}/t{number}",
                _rows(commit),
                mode="append",
                storage_options=options,
                post_commithook_properties=hooks,
            )
        _layout(root, f"lake.{NAMESPACE}.t{number}")
    if not iceberg:
        return
    catalog = load_catalog(
        "ice",
        type="sql",
        uri=f"sqlite:///{root}/ice.db",
        warehouse=f"s3://{BUCKET}/iceberg",
        **{"s3.endpoint": endpoint, "client.region": "us-east-1"},
    )
    catalog.create_namespace(NAMESPACE)
    for number in range(iceberg):
        table = catalog.create_table(f"{NAMESPACE}.t{number}", _rows(0).schema)
        for commit in range(commits):
            table.append(_rows(commit))
        _layout(root, f"ice.{NAMESPACE}.t{number}")


def write_config(root: Path, storage: dict[str, str]) -> None:
    """Write zlayout.yaml with another access to the store."""
    (root / "layouts").mkdir(exist_ok=True)
    catalogs = {
        "lake": {"format": "delta", "type": "path", "warehouse": f"s3://{BUCKET}/delta", "storage": storage},
        "ice": {
            "format": "iceberg",
            "type": "sql",
            "uri": f"sqlite:///{root}/ice.db",
            "warehouse": f"s3://{BUCKET}/iceberg",
            "storage": storage,
        },
    }
    (root / "zlayout.yaml").write_text(json.dumps({"version": 1, "catalogs": catalogs}))


def _layout(root: Path, table: str) -> None:
    layout = {"version": 1, "table": table, "zorder": {"columns": ["a", "b"]}, "files": {"target_size": "64KiB"}}
    (root / "layouts" / f"{table}.yaml").write_text(json.dumps(layout))


def _rows(seed: int, count: int = 500) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table({"a": random.integers(0, 1 << 40, count), "b": random.integers(0, 1 << 40, count)})
