"""What queries open after rows move to partitions of a new partition spec is predicted too."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyiceberg.catalog import load_catalog
from pyiceberg.transforms import BucketTransform
from support.projects import write_project

import zlayout

PROJECT = """\
version: 1
catalogs:
  ice: {{format: iceberg, type: sql, uri: "sqlite:///{root}/ice.db", warehouse: "file://{root}/w"}}
"""
LAYOUT = "version: 1\ntable: ice.db.t\nzorder: {columns: [a, b]}\nfiles: {target_size: 8KiB}\n"


def test_files_of_an_older_partition_spec_have_a_forecast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for folder in ("layouts", "workloads"):
        Path(folder).mkdir()
    Path("zlayout.yaml").write_text(PROJECT.format(root=tmp_path))
    Path("layouts/t.yaml").write_text(LAYOUT)
    Path("workloads/q.sql").write_text("SELECT * FROM t WHERE a BETWEEN 100 AND 200")
    catalog = load_catalog("ice", type="sql", uri=f"sqlite:///{tmp_path}/ice.db", warehouse=f"file://{tmp_path}/w")
    catalog.create_namespace("db")
    random = np.random.default_rng(1)
    columns = {"id": np.arange(6000), "a": random.integers(0, 1000, 6000), "b": random.integers(0, 365, 6000)}
    rows = pa.table(columns)
    table = catalog.create_table("db.t", rows.schema)
    for part in range(6):
        table.append(rows.slice(part * 1000, 1000))
    with table.update_spec() as spec:
        spec.add_field("id", BucketTransform(2), "id_bucket")
    catalog.close()
    (plan,) = zlayout.plan(zlayout.load_project(), sample=True).tables
    assert "ZL414" not in [diagnostic.code for diagnostic in plan.diagnostics]
    # each of the two buckets has three files, of which the values of `a` are in one or two
    assert 2 <= plan.workload.predicted.files < plan.workload.now.files == 6


@pytest.mark.parametrize(("before", "declared", "files"), [([], "[region]", 6), (["region"], "[]", 24)])
def test_a_full_rewrite_of_a_delta_table_has_a_forecast(
    before: list[str], declared: str, files: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A partition column is not in the files of a Delta table. Each of the four regions has a quarter of the rows."""
    random, rows = np.random.default_rng(1), 24_000
    columns = {"id": np.arange(rows), "item": random.integers(0, 1000, rows), "region": np.arange(rows) % 4}
    write_deltalake(str(tmp_path / "tables/db/orders"), pa.table(columns), partition_by=before or None)
    layout = "version: 1\ntable: lake.db.orders\nzorder: {columns: [item]}\nfiles: {target_size: 1GiB}\n"
    write_project(tmp_path, monkeypatch, f"{layout}partition_by: {declared}\n")
    Path("workloads").mkdir()
    Path("workloads/q.sql").write_text("SELECT * FROM orders WHERE region = 2")
    size = zlayout.plan(zlayout.load_project(), allow_full_rewrite=True).tables[0].rewrite_bytes
    Path("layouts/orders.yaml").write_text(f"{layout.replace('1GiB', str(size // 24))}partition_by: {declared}\n")
    (plan,) = zlayout.plan(zlayout.load_project(), allow_full_rewrite=True, sample=True).tables
    found = plan.workload
    assert "ZL414" not in [diagnostic.code for diagnostic in plan.diagnostics]
    assert found.predicted.files == pytest.approx(files, abs=1)
    assert found.low.files <= files <= found.high.files
    assert found.high.bytes < 1.35 * found.predicted.bytes, "the size of new files is estimated"
    (refused,) = zlayout.plan(zlayout.load_project(), sample=True).tables
    assert refused.workload.predicted is None
