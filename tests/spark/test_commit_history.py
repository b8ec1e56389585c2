"""What other tools read of a rewrite: operation metrics and commit properties."""

import json
from typing import Any

import pytest
from spark.sample_tables import create_delta
from spark.subjects import DeltaSubject, IcebergSubject
from support.builders import make_layout

PROPERTIES = {"team": "data", "git_commit": 'quote \' and "✓"'}


def audited(table: Any, engine: str = "zlayout", files: int = 2) -> list[Any]:
    layout = make_layout("a", "b", engine=engine, curve="zorder" if engine == "native" else "kd")
    work = table.work(layout=layout, files=files, commit_properties=PROPERTIES)
    return [event for event in table.execute(work) if event.kind == "rewrite"]


def test_history_shows_the_metrics_that_optimize_has(delta: DeltaSubject) -> None:
    create_delta(delta, 400, "'delta.enableDeletionVectors'='true'")
    delta.sql(f"delete from {delta} where id in (9, 10)")
    before = delta.observe()
    (commit,) = audited(delta, files=3)
    delta.sql(f"delete from {delta} where id = 11")
    delta.sql(f"optimize {delta}").collect()
    history = delta.history()
    ours, optimize = (history[v].operationMetrics for v in (commit.version, max(history)))
    assert set(ours) == set(optimize), "the same names as OPTIMIZE of Delta itself"
    assert history[commit.version].operation == history[max(history)].operation == "OPTIMIZE"
    sizes = sorted(
        file["size"]
        for line in (delta.path / "_delta_log" / f"{commit.version:020}.json").read_text().splitlines()
        if (file := json.loads(line).get("add"))
    )
    assert len(sizes) == commit.files_added
    assert ours == {
        "numRemovedFiles": str(len(before.files)),
        "numRemovedBytes": str(before.files.bytes.sum()),
        "numAddedFiles": str(len(sizes)),
        "numAddedBytes": str(sum(sizes)),
        "minFileSize": str(sizes[0]),
        "p25FileSize": str(sizes[len(sizes) // 4]),
        "p50FileSize": str(sizes[len(sizes) // 2]),
        "p75FileSize": str(sizes[len(sizes) * 3 // 4]),
        "maxFileSize": str(sizes[-1]),
        "numDeletionVectorsRemoved": str((before.files.deleted > 0).sum()),
    }


@pytest.mark.parametrize("engine", ["zlayout", "native"])
def test_user_metadata_has_the_commit_properties(delta: DeltaSubject, engine: str) -> None:
    create_delta(delta, 60)
    (commit,) = audited(delta, engine)
    stored = json.loads(delta.history()[commit.version].userMetadata)
    assert stored.pop("zlayout.run").startswith("run-")
    assert stored == PROPERTIES
    assert delta.spark.conf.get("spark.databricks.delta.commitInfo.userMetadata", None) is None


@pytest.mark.parametrize("engine", ["zlayout", "native"])
def test_snapshot_summaries_have_the_commit_properties(iceberg: IcebergSubject, engine: str) -> None:
    iceberg.sql(f"create table {iceberg} as select id, id * 7 % 60 a, id * 11 % 60 b from range(60)")
    (commit,) = audited(iceberg, engine)
    summary = dict(iceberg.java_table().snapshot(commit.version).summary())
    assert summary.items() >= PROPERTIES.items()
    assert summary["zlayout.run"].startswith("run-")
    assert summary["added-records"] == summary["deleted-records"] == "60"
    assert int(summary["added-data-files"]) == commit.files_added
