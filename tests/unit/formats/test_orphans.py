"""Files that no version of a table names are found; those of older versions, logs and deletion vectors are not."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table.statistics import StatisticsFile
from support.delta_logs import field, metadata, protocol

from zlayout.cli.main import run
from zlayout.errors import Location, Refused, TableError
from zlayout.formats.orphans import Orphans
from zlayout.formats.registry import backend_for
from zlayout.spec.model import CatalogConfig, TableName

PLACE = Location("zlayout.yaml")
ROWS = pa.table({"a": [1, 2, 3], "p": ["x y", "x/y", None]})
VECTOR = "ab^-aqEH.-t@S}K{vb[*k^"  # the example of the Delta protocol, "Deletion Vectors"
VECTOR_FILE = "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"


@pytest.fixture
def delta(tmp_path: Path) -> tuple[CatalogConfig, TableName, Path]:
    folder = tmp_path / "lake" / "db" / "t"
    write_deltalake(folder, ROWS, partition_by=["p"])
    return (
        CatalogConfig("lake", "delta", "path", {"warehouse": str(tmp_path / "lake")}, PLACE),
        TableName("lake", ("db",), "t"),
        folder,
    )


@pytest.fixture
def iceberg(tmp_path: Path) -> tuple[CatalogConfig, TableName, Path]:
    options = {"uri": f"sqlite:///{tmp_path}/c.db", "warehouse": f"file://{tmp_path}/ice"}
    catalog = SqlCatalog("ice", **options)
    catalog.create_namespace("db")
    table = catalog.create_table("db.t", ROWS.schema)
    table.append(ROWS)
    return (
        CatalogConfig("ice", "iceberg", "sql", options, PLACE),
        TableName("ice", ("db",), "t"),
        Path(table.metadata.location.removeprefix("file:")),
    )


def find_orphans(catalog: CatalogConfig, table: TableName) -> Orphans:
    no_spark: Any = None
    return backend_for(catalog, no_spark).orphans(table)


def _found(table: tuple[CatalogConfig, TableName, Path]) -> list[str]:
    return [orphan.path for orphan in find_orphans(table[0], table[1]).files]


def test_a_stray_file_in_a_delta_partition_is_an_orphan(delta: tuple[CatalogConfig, TableName, Path]) -> None:
    assert _found(delta) == []
    partition = next(p for p in delta[2].iterdir() if p.name.startswith("p="))
    (partition / "part-stray.parquet").write_bytes(b"12345")
    (orphan,) = find_orphans(*delta[:2]).files
    assert (orphan.path, orphan.bytes) == (f"{partition.name}/part-stray.parquet", 5)
    assert orphan.modified is not None


@pytest.mark.parametrize("owner", ["feature", "property"])
def test_files_of_commits_that_a_catalog_has_not_published_are_not_listed(
    delta: tuple[CatalogConfig, TableName, Path], owner: str
) -> None:
    """The log does not refer to them, and VACUUM by location would delete them."""
    log = delta[2] / "_delta_log" / f"{1:020}.json"
    new = protocol("inCommitTimestamp", reader=("catalogManaged",))
    if owner == "property":
        new = metadata([field("a", "long"), field("p", "string")], ["p"], **{"delta.coordinatedCommits.x": "y"})
    log.write_text(json.dumps({"commitInfo": {"timestamp": 1, "inCommitTimestamp": 1}}) + "\n" + json.dumps(new))
    with pytest.raises(Refused, match=r"ZL212 lake\.db\.t: .* files that the log does not name may be live"):
        _found(delta)


def test_files_of_older_versions_are_no_orphans(delta: tuple[CatalogConfig, TableName, Path]) -> None:
    write_deltalake(delta[2], ROWS, mode="overwrite")
    assert _found(delta) == []


def test_a_checkpoint_alone_names_its_files(delta: tuple[CatalogConfig, TableName, Path]) -> None:
    write_deltalake(delta[2], ROWS, mode="append")
    DeltaTable(delta[2]).create_checkpoint()
    for commit in (delta[2] / "_delta_log").glob("*.json"):
        commit.unlink()
    assert _found(delta) == []


@pytest.mark.parametrize("action", ["add", "remove"])
def test_a_deletion_vector_is_named_by_its_encoded_uuid(
    delta: tuple[CatalogConfig, TableName, Path], action: str
) -> None:
    (delta[2] / VECTOR_FILE).parent.mkdir()
    (delta[2] / VECTOR_FILE).write_bytes(b"vector")
    assert _found(delta) == [VECTOR_FILE]
    log = delta[2] / "_delta_log"
    vector = {"storageType": "u", "pathOrInlineDv": VECTOR, "offset": 1, "sizeInBytes": 6, "cardinality": 1}
    # beside the commits, so that the table stays as it is
    (log / "old.json").write_text(json.dumps({action: {"path": "x", "deletionVector": vector}}))
    assert _found(delta) == []


@pytest.mark.parametrize(
    "line",
    [
        '["path"]',
        '{"add": ["path"]}',
        '{"add": {"path": 1}}',
        '{"add": {"path": "x", "deletionVector": {"storageType": "u"}}}',
        '{"path": ' + "[" * 100_000 + "]" * 100_000 + "}",
    ],
)
def test_a_damaged_commit_before_the_checkpoint_is_an_error(
    delta: tuple[CatalogConfig, TableName, Path], line: str
) -> None:
    """deltalake does not read it."""
    DeltaTable(delta[2]).create_checkpoint()
    (delta[2] / "_delta_log" / f"{0:020}.json").write_text(line)
    with pytest.raises(TableError, match=r"ZL111 the log of lake\.db\.t .* 0{20}\.json is not a commit"):
        _found(delta)


def test_an_empty_checkpoint_names_no_file(delta: tuple[CatalogConfig, TableName, Path]) -> None:
    """A killed writer can leave it."""
    (delta[2] / "_delta_log" / f"{0:020}.checkpoint.parquet").touch()
    assert _found(delta) == []


def test_hidden_files_are_left_out(delta: tuple[CatalogConfig, TableName, Path]) -> None:
    (delta[2] / "_spark_metadata").mkdir()
    (delta[2] / "_spark_metadata" / "0").write_text("0")
    (delta[2] / ".part.crc").write_text("0")
    (delta[2] / "_change_data").mkdir()
    (delta[2] / "_change_data" / "cdc-stray.parquet").write_text("0")
    assert _found(delta) == ["_change_data/cdc-stray.parquet"]


def test_the_iceberg_metadata_of_a_uniform_table_is_left_out(delta: tuple[CatalogConfig, TableName, Path]) -> None:
    (delta[2] / "metadata").mkdir()
    (delta[2] / "metadata" / "v1.metadata.json").write_text("{}")
    assert _found(delta) == ["metadata/v1.metadata.json"]
    properties = {"delta.universalFormat.enabledFormats": "iceberg"}
    DeltaTable(delta[2]).alter.set_table_properties(properties, raise_if_not_exists=False)
    assert _found(delta) == []


def test_iceberg_names_the_files_of_every_retained_snapshot(iceberg: tuple[CatalogConfig, TableName, Path]) -> None:
    table = SqlCatalog("ice", **iceberg[0].options).load_table("db.t")
    table.overwrite(ROWS)
    table.delete("a = 1")
    assert _found(iceberg) == []
    for stray in ("data/stray.parquet", "metadata/stray-m0.avro"):
        (iceberg[2] / stray).write_text("12")
    assert sorted(_found(iceberg)) == ["data/stray.parquet", "metadata/stray-m0.avro"]


def test_characters_that_end_the_path_of_a_url_are_part_of_a_file_name(
    iceberg: tuple[CatalogConfig, TableName, Path],
) -> None:
    """Files that were added to a table may have any name. The test uses statistics, which pyiceberg does not open."""
    table = SqlCatalog("ice", **iceberg[0].options).load_table("db.t")
    for name in ("metadata/a#1", "metadata/b?2"):
        (iceberg[2] / name).write_text("1")
        table.append(ROWS)
        snapshot = table.current_snapshot()
        assert snapshot is not None
        sizes = {"file-size-in-bytes": 1, "file-footer-size-in-bytes": 1, "blob-metadata": []}
        path = {"snapshot-id": snapshot.snapshot_id, "statistics-path": f"{table.location()}/{name}"}
        with table.update_statistics() as update:
            update.set_statistics(StatisticsFile.model_validate(path | sizes))
    assert _found(iceberg) == []
    (iceberg[2] / "metadata" / "a#2").write_text("1")
    assert _found(iceberg) == ["metadata/a#2"]


def test_files_of_a_table_in_nessie_are_not_listed(iceberg: tuple[CatalogConfig, TableName, Path]) -> None:
    """Its metadata does not have the snapshots that Nessie keeps. This catalog says that it is Nessie."""
    catalog = replace(iceberg[0], options={**iceberg[0].options, "properties": {"nessie.is-nessie-catalog": "true"}})
    with pytest.raises(TableError, match=r"ZL129 ice\.db\.t: Nessie keeps"):
        find_orphans(catalog, iceberg[1])


def test_a_folder_without_a_table_is_refused(delta: tuple[CatalogConfig, TableName, Path]) -> None:
    with pytest.raises(TableError, match="ZL110"):
        find_orphans(delta[0], TableName("lake", ("db",), "none"))


def test_inspect_lists_them_and_says_what_removes_them(
    delta: tuple[CatalogConfig, TableName, Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(delta[2].parents[2])
    Path("zlayout.yaml").write_text("version: 1\ncatalogs:\n  lake: {format: delta, warehouse: lake}\n")
    assert run(["inspect", "lake.db.t", "--orphans"]) == 0
    assert "orphans         none" in capsys.readouterr().out
    for number in range(25):
        (delta[2] / f"part-{number:02}.parquet").write_text("0")
    assert run(["inspect", "lake.db.t", "--orphans"]) == 0
    said = capsys.readouterr().out
    assert "25 files, 25 B" in said
    assert "and 5 more; -v lists them all" in said
    assert f"VACUUM delta.`{delta[2]}` DRY RUN" in said.replace("file://", "")
    assert run(["inspect", "lake.db.t", "--orphans", "-v"]) == 0
    assert "part-24.parquet" in capsys.readouterr().out
    assert (delta[2] / "part-24.parquet").exists()


def test_names_in_the_statement_are_quoted(
    delta: tuple[CatalogConfig, TableName, Path], iceberg: tuple[CatalogConfig, TableName, Path]
) -> None:
    odd = delta[2].rename(delta[2].with_name("t`x"))
    remedy = find_orphans(delta[0], TableName("lake", ("db",), "t`x")).remedy
    assert remedy.replace("file://", "") == f"VACUUM delta.`{odd.parent}/t``x` DRY RUN"
    SqlCatalog("ice", **iceberg[0].options).rename_table("db.t", ("db", "t'`x"))
    assert find_orphans(iceberg[0], TableName("ice", ("db",), "t'`x")).remedy == (
        "CALL ice.system.remove_orphan_files(table => '`db`.`t\\'``x`', dry_run => true)"
    )


def test_a_secret_in_the_location_is_not_printed(
    delta: tuple[CatalogConfig, TableName, Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(delta[2].parents[2])
    delta[2].rename(delta[2].with_name("t?sig=CANARY"))
    Path("zlayout.yaml").write_text(
        "version: 1\ncatalogs:\n  lake: {format: delta, tables: {db.t: 'lake/db/t?sig=${SIGNATURE}'}}\n"
    )
    monkeypatch.setenv("SIGNATURE", "CANARY")
    Path("lake/db/t?sig=CANARY/stray.parquet").write_text("0")
    assert run(["inspect", "lake.db.t", "--orphans"]) == 0
    said = capsys.readouterr().out
    assert "VACUUM delta." in said
    assert "CANARY" not in said
