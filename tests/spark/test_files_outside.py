"""Files outside the location of a table: their rows are copied only if the catalog permits their location."""

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from spark.subjects import DeltaSubject, IcebergSubject, SparkSubject
from support.builders import make_layout, make_spec

import zlayout
from zlayout.errors import Refused
from zlayout.formats.iceberg.write.commit import rewrite
from zlayout.session.plan import ProjectPlan

ROWS, VICTIM = 200, 1_000_000  # the ids of the victim begin at VICTIM


def planned(table: SparkSubject, *permitted: str, engine: str = "zlayout", **changes: Any) -> ProjectPlan:
    """Plan the table with a layout that rewrites it. permitted: the locations outside that its catalog permits."""
    spec = make_spec(make_layout("a", target_size=4096, curve="linear", engine=engine), table.name, **changes)
    options: Mapping[str, Any] = table.catalog.options
    if permitted:
        options = {**options, "file_locations": {".".join(table.name.identifier): list(permitted)}}
    catalogs = {**table.project.catalogs, table.catalog.name: replace(table.catalog, options=options)}
    return zlayout.plan(replace(table.project, catalogs=catalogs, layouts=(spec,)), str(table.name))


def refused(plan: ProjectPlan, table: SparkSubject, count: int) -> str:
    """Require that the plan counts the files and refuses the table, and that apply changes nothing."""
    (found,) = plan.tables
    assert (found.status, found.files_outside) == ("refused", count)
    assert [d.code for d in found.diagnostics if d.severity == "refused"] == ["ZL242"]
    version, rows = table.observe().version, table.rows("id")
    with pytest.raises(Refused):
        zlayout.apply(plan, table.spark)
    assert (table.observe().version, table.rows("id")) == (version, rows)
    return str(found.diagnostics[0])


def applied(plan: ProjectPlan, table: SparkSubject) -> None:
    result = zlayout.apply(plan, table.spark).results[str(table.name)]
    assert result.succeeded, result.problems


def victim_file(folder: Path) -> Path:
    """A Parquet file of another tenant."""
    folder.mkdir(parents=True)
    ids = pa.array(range(VICTIM, VICTIM + ROWS), pa.int64())
    pq.write_table(pa.table({"id": ids, "a": ids}), folder / "secret.parquet")
    return folder / "secret.parquet"


def own_rows(table: SparkSubject) -> None:
    table.append(table.spark.range(0, ROWS, 1, 2).selectExpr("id", "id * 7919 % 1009 a"))  # type: ignore[attr-defined]


@pytest.fixture
def delta_of_writer(delta: DeltaSubject) -> DeltaSubject:
    own_rows(delta)
    return delta


def commit(delta: DeltaSubject, path: str, size: int, **more: Any) -> None:
    """Append a commit that adds a file, as any writer of the table can."""
    log = delta.path / "_delta_log"
    version = max(int(found.stem) for found in log.glob("*.json")) + 1
    stats = json.dumps({"numRecords": ROWS, "minValues": {"a": 0}, "maxValues": {"a": 9}, "nullCount": {"a": 0}})
    add = {"path": path, "partitionValues": {}, "size": size, "modificationTime": 1, "dataChange": True, "stats": stats}
    actions = [{"commitInfo": {"timestamp": 1, "operation": "WRITE"}}, {"add": add | more}]
    (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)) + "\n")


@pytest.mark.parametrize(
    ("engine", "path"),
    [("zlayout", "file:{victim}"), ("zlayout", "link.parquet"), ("native", "../{name}/secret.parquet")],
)
def test_a_delta_log_cannot_name_files_of_another_tenant(delta_of_writer: DeltaSubject, engine: str, path: str) -> None:
    delta = delta_of_writer
    victim = victim_file(delta.path.parent / f"victim-of-{delta.path.name}")
    if path == "link.parquet":
        os.symlink(victim, delta.path / path)
    plan = planned(delta, engine=engine)
    commit(delta, path.format(name=victim.parent.name, victim=victim), victim.stat().st_size)
    assert len(delta.rows("id", f"id >= {VICTIM}")) == ROWS, "Spark reads the file"
    message = refused(planned(delta, engine=engine), delta, 1)
    assert f"1 file is outside of the table's location '{delta.path}', below '{victim.parent}'" in message
    refused(planned(delta, f"{victim.parent}2", engine=engine), delta, 1)
    result = zlayout.apply(plan, delta.spark).results[str(delta.name)]  # from before the file was added
    assert [problem.code for problem in result.problems] == ["ZL242"]
    assert delta.observe().files_outside == 1, "the file was not rewritten"


def test_optimize_does_not_use_another_list_of_sidecars(delta: DeltaSubject) -> None:
    """Delta reads the sidecars that `_last_checkpoint` lists, and deltalake those that the checkpoint lists."""
    properties = "'delta.checkpointPolicy' = 'v2', 'delta.checkpointInterval' = '2'"
    delta.sql(f"create table {delta} (id bigint, a bigint) using delta tblproperties ({properties})")
    own_rows(delta)
    own_rows(delta)
    log, victim = delta.path / "_delta_log", victim_file(delta.path.parent / f"victim-of-{delta.path.name}")
    (sidecar,) = (log / "_sidecars").glob("*.parquet")
    actions = pq.read_table(sidecar)
    stolen = actions.slice(0, 1).to_pylist()[0]
    stolen["add"] |= {"path": f"file:{victim}", "size": victim.stat().st_size}
    pq.write_table(pa.concat_tables([actions, pa.Table.from_pylist([stolen], actions.schema)]), log / "_sidecars/x")
    last = json.loads((log / "_last_checkpoint").read_text())
    del last["checksum"]
    size = (log / "_sidecars/x").stat().st_size
    last["v2Checkpoint"]["sidecarFiles"] = [{"path": "x", "sizeInBytes": size, "modificationTime": 1}]
    (log / "_last_checkpoint").write_text(json.dumps(last))
    for checksum in log.rglob("*.crc"):
        checksum.unlink()
    delta.spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    rows = delta.rows("id", "id is not null and a is not null")
    for engine, code in (("zlayout", "ZL320"), ("native", "ZL242")):
        plan = planned(delta, engine=engine)
        assert (plan.tables[0].status, plan.tables[0].files_outside) == ("changes", 0)
        result = zlayout.apply(plan, delta.spark).results[str(delta.name)]
        assert [problem.code for problem in result.problems] == [code]
        assert not result.commits
    assert delta.rows("id", "id is not null and a is not null") == rows


@pytest.mark.long
def test_a_permitted_shallow_clone_is_laid_out(delta_of_writer: DeltaSubject) -> None:
    source = delta_of_writer
    source.sql(f"alter table {source} set tblproperties ('delta.enableDeletionVectors' = 'true')")
    source.sql(f"delete from {source} where id = 7")
    clone = replace(source, name=replace(source.name, name=f"{source.name.name}_clone"))
    clone.sql(f"create table {clone} shallow clone {source}")
    rows = clone.rows("id")
    refused(planned(clone), clone, 3)  # two files, and a deletion vector
    plan = planned(clone, str(source.path))
    (table,) = plan.tables
    assert table.files_outside == 3
    assert [(d.severity, d.code) for d in table.diagnostics if d.code == "ZL447"] == [("note", "ZL447")]
    applied(plan, clone)
    assert clone.rows("id") == rows == source.rows("id")
    (again,) = planned(clone).tables
    assert (again.status, again.files_outside, again.actions) == ("unchanged", 0, ())


@pytest.mark.parametrize("engine", ["zlayout", "native"])
def test_an_iceberg_manifest_cannot_name_files_of_another_tenant(iceberg: IcebergSubject, engine: str) -> None:
    iceberg.sql(f"create table {iceberg} (id bigint, a bigint) using iceberg")
    own_rows(iceberg)
    plan = planned(iceberg, engine=engine)
    victim = victim_file(iceberg.project.root / f"victim-of-{iceberg.name.name}")
    SqlCatalog("ice", **iceberg.catalog.options).load_table(iceberg.identifier).add_files([f"file://{victim}"])
    assert len(iceberg.rows("id", f"id >= {VICTIM}")) == ROWS, "Spark reads the file"
    message = refused(planned(iceberg, engine=engine), iceberg, 1)
    assert f"below '{victim.parent}'" in message
    result = zlayout.apply(plan, iceberg.spark).results[str(iceberg.name)]  # from before the file was added
    assert [problem.code for problem in result.problems] == ["ZL242"]
    assert iceberg.observe().files_outside == 1, "the file was not rewritten"


def test_an_iceberg_table_with_permitted_paths_is_laid_out(iceberg: IcebergSubject, tmp_path: Path) -> None:
    """Data and metadata are elsewhere, as are files that were added from a former table."""
    elsewhere, former = tmp_path / "data", victim_file(tmp_path / "former")
    paths = {"write.data.path": elsewhere / "t", "write.metadata.path": elsewhere / "m"}
    properties = ", ".join(f"'{key}'='file://{path}'" for key, path in paths.items())
    iceberg.sql(f"create table {iceberg} (id bigint, a bigint) using iceberg tblproperties ({properties})")
    own_rows(iceberg)
    SqlCatalog("ice", **iceberg.catalog.options).load_table(iceberg.identifier).add_files([f"file://{former}"])
    rows = iceberg.rows("id")
    (table,) = planned(iceberg).tables
    assert (table.status, [d.code for d in table.diagnostics]) == ("refused", ["ZL242"])
    location = f"{iceberg.catalog.options['warehouse']}/db/{iceberg.name.name}"
    permitted = [f"file://{elsewhere}", str(former.parent), location]
    (table,) = planned(iceberg, *permitted[:1], location).tables
    assert (table.status, table.files_outside) == ("refused", 3)
    plan = planned(iceberg, *permitted)
    (table,) = plan.tables
    assert (table.status, table.files_outside) == ("changes", 3)
    applied(plan, iceberg)
    assert iceberg.rows("id") == rows
    (again,) = planned(iceberg, *permitted).tables
    assert (again.status, again.actions) == ("unchanged", ())
    assert again.files_outside > 0, "new files are where the property states"


@pytest.mark.parametrize("engine", ["zlayout", "native"])
def test_a_commit_deletes_no_file_that_the_metadata_of_an_iceberg_table_names(
    iceberg: IcebergSubject, engine: str
) -> None:
    """With the property below, Iceberg deletes what the log of former metadata files no longer contains."""
    iceberg.sql(f"create table {iceberg} (id bigint, a bigint) using iceberg")
    own_rows(iceberg)
    victim = victim_file(iceberg.project.root / f"victim-of-{iceberg.name.name}")
    state = iceberg.observe("a")
    work = iceberg.work(state, make_layout("a"))
    name_former_file(iceberg, victim)
    plan = planned(iceberg, engine=engine)
    assert [d.code for d in plan.tables[0].diagnostics if d.severity == "refused"] == ["ZL242"]
    with pytest.raises(Refused, match="1 file is, which a commit would delete as former metadata, outside"):
        zlayout.plan_rollback(iceberg.project, str(iceberg.name))
    if engine == "zlayout":  # from before the metadata was changed
        with pytest.raises(Refused, match="ZL242"):
            list(rewrite(iceberg.jvm, iceberg.catalog, work, lambda _: None, state.files))
    assert victim.exists()
    applied(planned(iceberg, str(victim.parent), engine=engine), iceberg)
    assert not victim.exists(), "Iceberg deletes it"


def name_former_file(iceberg: IcebergSubject, path: Path) -> None:
    """Change the metadata of a table, as its writers can."""
    table = SqlCatalog("ice", **iceberg.catalog.options).load_table(iceberg.identifier)
    metadata = Path(table.metadata_location.removeprefix("file:"))
    document = json.loads(metadata.read_text())
    document["metadata-log"] = [{"timestamp-ms": 1, "metadata-file": f"file:{path}"}]
    document["properties"] |= {
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "1",
    }
    metadata.write_text(json.dumps(document))
    metadata.with_name(f".{metadata.name}.crc").unlink(missing_ok=True)
