"""Rows whose keys are all null are divided evenly among files, although no layout can divide them by their keys."""

import json
from pathlib import Path
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from spark.subjects import SparkSubject

import zlayout
from zlayout.spark.arrow import from_arrow
from zlayout.table.state import TableState

LAYOUT = """\
version: 1
table: {table}
zorder: {{columns: [a, b], curve: {curve}}}
files: {{target_size: {size}B}}
"""
ROWS, FILES = 40_000, 50


def keys() -> pa.Table:
    """40,000 rows with two keys, of which each is null in 30 % of the rows, independently: both in 9 %."""
    random = np.random.default_rng(12)
    a, b = (pa.array(random.permutation(ROWS), mask=random.random(ROWS) < 0.3) for _ in "ab")
    return pa.table({"id": pa.array(np.arange(ROWS)), "a": a, "b": b, "pad": [f"{n:032x}" for n in range(ROWS)]})


def create(table: SparkSubject, root: Path, curve: str) -> zlayout.Project:
    """A project, and its table of four files in order of arrival."""
    table.sql(f"create table {table} (id bigint, a bigint, b bigint, pad string) using {table.catalog.format}")
    for start in range(0, ROWS, ROWS // 4):
        rows = from_arrow(table.spark, keys().slice(start, ROWS // 4)).coalesce(1)
        table.append(rows)  # type: ignore[attr-defined]
    size = int(table.observe().files.bytes.sum()) // FILES
    catalog = {"format": table.catalog.format, "type": table.catalog.type, **table.catalog.options}
    (root / "layouts").mkdir(parents=True)
    (root / "zlayout.yaml").write_text(json.dumps({"version": 1, "catalogs": {table.catalog.name: catalog}}))
    (root / "layouts/t.yaml").write_text(LAYOUT.format(table=table.name, curve=curve, size=size))
    return zlayout.load_project(root)


def contents(state: TableState) -> list[tuple[tuple[int, ...], bool]]:
    """The ids of each file in their order, and whether both keys are null in all of its rows."""
    found = []
    for path in state.files.path.to_pylist():
        local = [Path(unquote(one.removeprefix("file:"))) for one in (state.location, path)]
        file = pq.ParquetFile(local[0] / local[1]).read(["id", "a", "b"])
        nulls = file["a"].null_count == file["b"].null_count == len(file)
        found.append((tuple(file["id"].to_pylist()), nulls))
    return sorted(found)


@pytest.mark.parametrize("kind", [pytest.param("delta", marks=pytest.mark.long), "iceberg"])
@pytest.mark.parametrize("curve", ["kd", pytest.param("zorder", marks=pytest.mark.long)])
def test_rows_without_keys_become_files_of_the_usual_size(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str, curve: str
) -> None:
    table: SparkSubject = request.getfixturevalue(kind)
    project, results = create(table, tmp_path, curve), []
    for _ in range(2):
        plan = zlayout.plan(project, sample=True)
        events: list[object] = []
        report = zlayout.apply(plan, spark=table.spark, on_event=events.append)
        assert not report.failed
        assert "ZL402" not in str(events)
        (planned,) = plan.document.tables
        result = report.results[str(table.name)]
        assert planned.files_after is not None
        assert result.files_added == planned.files_after.predicted
        for column in result.columns:
            assert column.touched == pytest.approx(column.predicted, rel=0.1)
        (second,) = zlayout.plan(project).document.tables
        assert (second.status, second.groups) == (zlayout.Status.UNCHANGED, ())
        results.append(contents(table.observe()))
        zlayout.rollback(project, zlayout.plan_rollback(project, str(table.name)), table.spark)
    files, again = results
    assert again == files
    assert sorted(id_ for ids, _ in files for id_ in ids) == list(range(ROWS))
    assert max(len(ids) for ids, _ in files) < 1.4 * ROWS / FILES
    rows = keys()
    nulls = len(rows.filter(pc.and_(rows["a"].is_null(), rows["b"].is_null())))
    parts = [len(ids) for ids, without_keys in files if without_keys]
    assert sum(parts) == nulls
    assert len(parts) == pytest.approx(nulls / ROWS * FILES, abs=1)
    assert np.std(parts) < 0.1 * np.mean(parts)
