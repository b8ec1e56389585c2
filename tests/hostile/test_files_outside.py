"""Metadata that names files of other tenants: they are counted, refused and not read, unless the catalog permits them.

`tests/spark/test_files_outside.py` shows that Spark would copy their rows.
"""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table
from support.delta_logs import add, field, metadata, protocol, write_log
from support.projects import Cli, cli

__all__ = ["cli"]

ROWS = 50
FILES = pa.table({"a": pa.array(range(ROWS), pa.int64())})
PROJECT = """\
version: 1
catalogs:
  lake: {{format: delta, warehouse: ./lake, file_locations: {locations}}}
  ice: {{format: iceberg, type: sql, uri: "sqlite:///ice.db", warehouse: ./ice, file_locations: {locations}}}
"""
LAYOUT = """\
version: 1
table: {table}
zorder: {{columns: [a]}}
"""


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file of another tenant, whose partition has a name that is a value of its rows."""
    folder = tmp_path / "victim" / "customer=Secret Ltd"
    folder.mkdir(parents=True)
    pq.write_table(FILES, folder / "x.parquet")
    return folder / "x.parquet"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project without tables, as the current folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "layouts").mkdir()
    permit({})
    return tmp_path


def permit(locations: dict[str, list[str]]) -> None:
    Path("zlayout.yaml").write_text(PROJECT.format(locations=json.dumps(locations)))


def planned(cli: Cli, table: str, code: int, *options: str) -> dict[str, Any]:
    Path("layouts/t.yaml").write_text(LAYOUT.format(table=table))
    found = json.loads(cli("plan", "--json", "--sample", *options, code=code).out)
    (plan,) = found["tables"]
    return plan


def codes(plan: dict[str, Any], severity: str = "refused") -> list[str]:
    return [each["code"] for each in plan["diagnostics"] if each["severity"] == severity]


# Delta


def delta(folder: Path, *adds: dict[str, Any], partitions: list[str] | None = None) -> Path:
    """A Delta table with one file of its own, and what a hostile writer adds to it."""
    fields = [field("a", "long"), *(field(name, "string") for name in partitions or ())]
    path = folder / "lake" / "db" / "t"
    write_log(
        path, [protocol("deletionVectors", reader=("deletionVectors",)), metadata(fields, partitions)], list(adds)
    )
    pq.write_table(FILES, path / "own.parquet")
    return path


def own(**more: Any) -> dict[str, Any]:
    return add("own.parquet", {"a": 0}, {"a": ROWS}, ROWS, **more)


HOSTILE_PATHS = [
    "../../../victim/customer=Secret%20Ltd/x.parquet",
    "%2e%2e/%2E%2E/.%2e/victim/customer=Secret%20Ltd/x.parquet",
    "..%2f..%2f..%2fvictim/customer=Secret%20Ltd/x.parquet",
    "p/../../../../victim/customer=Secret%20Ltd/x.parquet",
    "{victim}",
    "file:{victim}",
    "file://{victim}",
    "FILE:///{victim}",
    "file://localhost{victim}",
    "//localhost{victim}",
    "{victim}?x",
    "{victim}#x",
    "link.parquet",
    "folder/x.parquet",
    "s3://other/t/x.parquet",
    "s3://other/t/x.parquet?endpoint_override=http://127.0.0.1:1",
    "https://127.0.0.1:1/x.parquet",
    # Parsers of URIs that follow the WHATWG standard, such as that of deltalake, read these as file://{victim}.
    " file://{victim}",
    "\t{victim}",
    "fi\nle://{victim}",
    "file:\\\\{victim}",
]


@pytest.mark.parametrize("path", HOSTILE_PATHS)
def test_delta_paths_of_other_tenants(project: Path, victim: Path, cli: Cli, path: str) -> None:
    uri = str(victim).replace(" ", "%20")
    table = delta(project, own(), add(path.format(victim=uri), {"a": 0}, {"a": ROWS}, ROWS))
    (table / "link.parquet").symlink_to(victim)
    (table / "folder").symlink_to(victim.parent)
    plan = planned(cli, "lake.db.t", 3)
    assert (plan["status"], plan["files"], plan["files_outside"]) == ("refused", 2, 1)
    assert codes(plan) == ["ZL242"]
    assert plan["sample"] is None
    text = cli("plan", code=3).out
    assert "ZL242" in text
    assert "1 file is outside of the table's location" in " ".join(text.split())
    assert "Secret" not in text, "the partition of the other tenant"
    permit({"db.t2": [str(project)], "*": [str(project)], "db.u.*": [str(project)], "DB.t": [str(project)]})
    assert codes(planned(cli, "lake.db.t", 3)) == ["ZL242"]


@pytest.mark.parametrize(
    "path",
    [
        p
        for p in HOSTILE_PATHS
        if not set("?#\t\n\\") & set(p) and "//127" not in p and "localhost" not in p and p[0] != " "
    ],
)
def test_permitted_delta_paths(project: Path, victim: Path, cli: Cli, path: str) -> None:
    table = delta(project, own(), add(path.format(victim=str(victim).replace(" ", "%20")), {"a": 0}, {"a": 1}, ROWS))
    (table / "link.parquet").symlink_to(victim)
    (table / "folder").symlink_to(victim.parent)
    permit({"db.*": [str(project / "victim"), "s3a://other/"]})
    plan = planned(cli, "lake.db.t", 0)
    assert (plan["status"], plan["files_outside"], codes(plan)) == ("changes", 1, [])
    assert "ZL447" in codes(plan, "note")


def test_a_table_that_needs_no_rewrite_has_a_warning(project: Path, victim: Path, cli: Cli) -> None:
    """Because it is not refused, which nothing else would show."""
    delta(project, add(str(victim).replace(" ", "%20"), {"a": 0}, {"a": 1}, ROWS))
    Path("layouts/t.yaml").write_text("version: 1\ntable: lake.db.t\nfiles: {target_size: 1MiB}\n")
    found = json.loads(cli("plan", "--json").out)["tables"][0]
    assert (found["status"], found["files_outside"]) == ("unchanged", 1)
    assert codes(found, "warning") == ["ZL447"]
    assert "ZL447" in cli("plan", "--report", "sarif=plan.sarif").out
    assert "ZL447" in Path("plan.sarif").read_text()


@pytest.mark.parametrize(
    "vector",
    [
        {"storageType": "p", "pathOrInlineDv": "file://{victim}", "offset": 1},
        {"storageType": "p", "pathOrInlineDv": "s3://other/deletion_vector_x.bin", "offset": 1},
        {"storageType": "u", "pathOrInlineDv": "../../../victim/ab^-aqEH.-t@S}K{vb[*k^", "offset": 4},
        {"storageType": "u", "pathOrInlineDv": "s3://other/ab^-aqEH.-t@S}K{vb[*k^", "offset": 4},
    ],
)
def test_deletion_vectors_of_other_tenants(project: Path, victim: Path, cli: Cli, vector: dict[str, Any]) -> None:
    where = vector["pathOrInlineDv"].replace("{victim}", str(victim.parent.parent / "vector.bin"))
    vector = vector | {"pathOrInlineDv": where, "sizeInBytes": 40, "cardinality": 6}
    delta(project, own(deletionVector=vector))
    plan = planned(cli, "lake.db.t", 3)
    assert (plan["status"], plan["files_outside"], codes(plan)) == ("refused", 1, ["ZL242"])


@pytest.mark.parametrize(
    "vector",
    [
        {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4},
        {"storageType": "u", "pathOrInlineDv": "^-aqEH.-t@S}K{vb[*k^", "offset": 4},
        {"storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"},
        {"storageType": "p", "pathOrInlineDv": "file://{table}/deletion_vector_x.bin", "offset": 1},
    ],
)
def test_deletion_vectors_of_the_table(project: Path, cli: Cli, vector: dict[str, Any]) -> None:
    where = vector["pathOrInlineDv"].replace("{table}", str(project / "lake/db/t"))
    delta(project, own(deletionVector=vector | {"pathOrInlineDv": where, "sizeInBytes": 40, "cardinality": 6}))
    plan = planned(cli, "lake.db.t", 0)
    assert (plan["status"], plan["files_outside"]) == ("changes", 0)


def test_footers_outside_are_not_read(project: Path, victim: Path, cli: Cli) -> None:
    """A file without statistics has as many rows as the footer states: here as if the file was not read."""
    path = "../../../victim/customer=Secret%20Ltd/x.parquet"
    table = delta(project, own(), add(path, rows=None, size=10), add("link.parquet", rows=None, size=10))
    (table / "link.parquet").symlink_to(victim)
    plan = planned(cli, "lake.db.t", 3)
    assert plan["files_outside"] == 2
    assert plan["rows"] != 3 * ROWS
    assert "ZL411" in codes(plan, "note")


@pytest.mark.parametrize(
    ("path", "refused"),
    [
        ("../../../../../victim/_delta_log/_sidecars/s.parquet", True),
        ("file://{victim}/s.parquet", True),
        ("%2e%2e/s.parquet", True),
        ("s3://other/s.parquet", True),
        (" file://{victim}/s.parquet", True),
        ("fi\tle://{victim}/s.parquet", True),
        ("\t{victim}/s.parquet", True),
        ("\\..\\{victim}/s.parquet", True),
        ("s.parquet", False),
        ("file://{table}/_delta_log/_sidecars/s.parquet", False),
    ],
)
def test_sidecars_outside_of_the_log(project: Path, victim: Path, cli: Cli, path: str, refused: bool) -> None:
    """A checkpoint could name the sidecar of another log, whose partitions and bounds the plan would show."""
    path = path.format(victim=victim.parents[1], table=project / "lake/db/t")
    table = delta(project, own())
    log = table / "_delta_log"
    kinds = {"path": pa.string(), "partitionValues": pa.map_(pa.string(), pa.string()), "size": pa.int64()}
    kinds |= {"modificationTime": pa.int64(), "dataChange": pa.bool_(), "stats": pa.string()}
    theirs = own()["add"] | {"path": "victims.parquet", "partitionValues": []}
    adds = pa.table({"add": pa.array([theirs], pa.struct(list(kinds.items())))})
    for folder in (victim.parents[1], victim.parents[1] / "_delta_log/_sidecars", log / "_sidecars", log):
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(adds, folder / "s.parquet")
    features = {"readerFeatures": ["v2Checkpoint"], "writerFeatures": ["v2Checkpoint"]}
    actions = [
        {"checkpointMetadata": {"version": 2}},
        {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7} | features},
        metadata([field("a", "long")]),
        {"sidecar": {"path": path, "sizeInBytes": (log / "s.parquet").stat().st_size, "modificationTime": 1}},
    ]
    name = f"{2:020}.checkpoint.80a083e8-7026-4e79-81be-64bd76c43a11.json"
    (log / name).write_text("\n".join(map(json.dumps, actions)) + "\n")
    (log / f"{2:020}.json").write_text(json.dumps({"commitInfo": {"timestamp": 1}}) + "\n")
    plan = planned(cli, "lake.db.t", 0 if not refused else 1 if path.startswith("s3") else 3)
    if not refused:
        assert (plan["files"], plan["files_outside"]) == (1, 0)
    else:  # deltalake does not find the storage of s3://other
        assert (plan["files"], codes(plan)) == (0, [] if path.startswith("s3") else ["ZL242"])


def test_a_link_in_a_folder_that_may_not_be_listed(
    project: Path, victim: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of mode 711: its files can be read by name. Root, who runs most tests in containers, may list it."""
    table = delta(project, own(), add("p/x.parquet", {"a": 0}, {"a": ROWS}, ROWS))
    (table / "p").mkdir()
    (table / "p/x.parquet").symlink_to(victim)
    listed = os.scandir

    def scandir(path: str) -> Any:
        if str(path) == str(table / "p"):
            raise PermissionError(13, "Permission denied", path)
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    assert codes(planned(cli, "lake.db.t", 3)) == ["ZL242"]


@pytest.mark.parametrize("link", ["_delta_log", "_delta_log/00000000000000000001.json"])
def test_a_log_that_is_that_of_another_table(project: Path, cli: Cli, link: str) -> None:
    """Through such a link, zlayout would read the log of another table, and commit to it."""
    table = delta(project, own())
    theirs = project / "other"
    (table / link).rename(theirs)
    (table / link).symlink_to(theirs)
    plan = planned(cli, "lake.db.t", 3)
    assert (plan["status"], plan["files"], codes(plan)) == ("refused", 0, ["ZL242"])
    assert theirs.exists()
    permit({"db.t": [str(theirs.parent)]})
    assert (planned(cli, "lake.db.t", 0)["files"], codes(plan, "error")) == (1, [])


@pytest.mark.parametrize("name", ["x.parquet", "_delta_log/_last_checkpoint"])
def test_a_pipe_is_not_read(project: Path, cli: Cli, name: str) -> None:
    """Its reader would wait forever, and not end after a signal."""
    table = delta(project, own(), add("x.parquet", rows=None))
    os.mkfifo(table / name)
    assert codes(planned(cli, "lake.db.t", 3)) == ["ZL242"]


# Iceberg


@pytest.fixture
def iceberg(project: Path) -> Iterator[Table]:
    loaded = SqlCatalog("ice", uri=f"sqlite:///{project}/ice.db", warehouse=f"file://{project}/ice")
    loaded.create_namespace("db")
    table = loaded.create_table("db.t", FILES.schema)
    for _ in range(2):
        table.append(FILES)
    yield table
    loaded.close()


def rewritten(table: Table, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the metadata file of a table, as whoever may write it can."""
    path = Path(table.metadata_location.removeprefix("file://"))
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))


@pytest.mark.parametrize("path", ["{victim}", "file://{victim}", "{ice}/data/../../../../{name}", "link.parquet"])
def test_iceberg_data_files_of_other_tenants(project: Path, victim: Path, cli: Cli, iceberg: Table, path: str) -> None:
    (project / "link.parquet").touch()
    (project / "ice/db/t/data/link.parquet").symlink_to(victim)
    name = victim.relative_to(project)
    where = (
        f"{iceberg.location()}/data/{path}"
        if path == "link.parquet"
        else path.format(victim=victim, ice=iceberg.location(), name=name)
    )
    iceberg.add_files([where])
    plan = planned(cli, "ice.db.t", 3)
    assert (plan["status"], plan["files"], plan["files_outside"], codes(plan)) == ("refused", 3, 1, ["ZL242"])
    assert plan["sample"] is None
    permit({"db.t": [str(project / "victim")]})
    plan = planned(cli, "ice.db.t", 0)
    assert (plan["status"], plan["files_outside"], codes(plan)) == ("changes", 1, [])


@pytest.mark.parametrize(
    "key", ["write.data.path", "write.object-storage.path", "write.folder-storage.path", "write.metadata.path"]
)
def test_iceberg_would_write_to_other_tenants(project: Path, cli: Cli, iceberg: Table, key: str) -> None:
    rewritten(iceberg, lambda document: document["properties"].update({key: f"file://{project}/victim"}))
    plan = planned(cli, "ice.db.t", 3)
    assert (plan["status"], plan["files_outside"], codes(plan)) == ("refused", 0, ["ZL242"])
    permit({"db.t": [f"{project}/victim"]})
    assert planned(cli, "ice.db.t", 0)["status"] == "changes"


@pytest.mark.parametrize("key", ["write.data.path", "write.metadata.path"])
def test_iceberg_writes_below_the_location(cli: Cli, iceberg: Table, key: str) -> None:
    rewritten(iceberg, lambda document: document["properties"].update({key: f"{iceberg.location()}/x"}))
    assert planned(cli, "ice.db.t", 0)["status"] == "changes"


def test_the_metadata_of_another_table_is_not_read(cli: Cli, iceberg: Table) -> None:
    """The manifest list of the snapshot is that of another table."""
    catalog = iceberg.catalog
    other = catalog.create_table("db.victim", FILES.schema)
    other.append(FILES)
    theirs = other.metadata.snapshots[0].manifest_list

    def steal(document: dict[str, Any]) -> None:
        document["snapshots"][-1]["manifest-list"] = theirs

    rewritten(iceberg, steal)
    os.chmod(theirs.removeprefix("file://"), 0)
    plan = planned(cli, "ice.db.t", 3)
    assert (plan["status"], plan["files"], codes(plan)) == ("refused", 0, ["ZL242"])


def test_a_manifest_list_that_is_a_pipe_is_not_read(cli: Cli, iceberg: Table) -> None:
    path = Path(iceberg.metadata.snapshots[-1].manifest_list.removeprefix("file://"))
    path.unlink()
    os.mkfifo(path)
    assert codes(planned(cli, "ice.db.t", 3)) == ["ZL242"]


@pytest.mark.parametrize("dots", [".\t.", ".\n.", ".."])
def test_pyiceberg_removes_control_characters_from_paths(cli: Cli, iceberg: Table, dots: str) -> None:
    other = iceberg.catalog.create_table("db.victim", FILES.schema)
    other.append(FILES)
    theirs = other.metadata.snapshots[0].manifest_list.replace("/victim/", f"/t/{dots}/victim/")

    def steal(document: dict[str, Any]) -> None:
        document["snapshots"][-1]["manifest-list"] = theirs

    rewritten(iceberg, steal)
    plan = planned(cli, "ice.db.t", 3)
    assert (plan["status"], plan["files"], codes(plan)) == ("refused", 0, ["ZL242"])


@pytest.mark.parametrize("path", ["{victim}", "file:{victim}", "{ice}/metadata/../../../../{name}", "s3://other/x"])
def test_iceberg_would_delete_files_of_other_tenants(
    project: Path, victim: Path, cli: Cli, iceberg: Table, path: str
) -> None:
    """`tests/spark/test_files_outside.py` shows that a commit would."""
    former = path.format(victim=victim, ice=iceberg.location(), name=victim.relative_to(project))

    def log(document: dict[str, Any]) -> None:
        document["metadata-log"].append({"timestamp-ms": 1, "metadata-file": former})

    rewritten(iceberg, log)
    assert planned(cli, "ice.db.t", 0)["status"] == "changes"
    rewritten(iceberg, lambda d: d["properties"].update({"write.metadata.delete-after-commit.enabled": "TRUE"}))
    plan = planned(cli, "ice.db.t", 3)
    assert (plan["status"], codes(plan)) == ("refused", ["ZL242"])
    permit({"db.t": [str(victim.parent), "s3://other"]})
    assert planned(cli, "ice.db.t", 0)["status"] == "changes"


def test_a_table_chooses_no_java_class(cli: Cli, iceberg: Table) -> None:
    rewritten(iceberg, lambda document: document["properties"].update({"write.location-provider.impl": "java.lang.x"}))
    assert codes(planned(cli, "ice.db.t", 3)) == ["ZL243"]


@pytest.mark.parametrize("name", ["data", "metadata"])
def test_an_iceberg_folder_that_is_that_of_another_table(project: Path, cli: Cli, iceberg: Table, name: str) -> None:
    """Through such a link, zlayout would write to the folder of another table."""
    folder = project / "ice/db/t" / name
    folder.rename(project / "other")
    folder.symlink_to(project / "other")
    assert set(codes(planned(cli, "ice.db.t", 3))) == {"ZL242"}
    permit({"db.t": [str(project / "other"), str(iceberg.location())]})
    assert planned(cli, "ice.db.t", 0)["status"] == "changes"


def test_a_manifest_of_another_table_is_not_read(cli: Cli, iceberg: Table) -> None:
    other = iceberg.catalog.create_table("db.victim", FILES.schema)
    other.append(FILES)
    theirs, mine = (
        Path(each.metadata.snapshots[-1].manifest_list.removeprefix("file://")) for each in (other, iceberg)
    )
    mine.write_bytes(theirs.read_bytes())  # a manifest list at the right location, with a manifest of the other table
    plan = planned(cli, "ice.db.t", 3)
    assert (plan["status"], plan["files"], codes(plan)) == ("refused", 0, ["ZL242"])


@pytest.mark.parametrize(
    "location", ["{project}/victim", "{project}", "{project}/ice", "{project}/ice/db", "/", "file:///"]
)
def test_the_location_of_a_table_is_that_of_its_metadata_file(
    project: Path, victim: Path, cli: Cli, iceberg: Table, location: str
) -> None:
    iceberg.add_files([str(victim)])
    location = location.format(project=project)
    rewritten(iceberg, lambda document: document.update(location=location))
    plan = planned(cli, "ice.db.t", 3)
    assert (plan["status"], plan["files"], codes(plan)) == ("refused", 0, ["ZL242"])


def test_the_location_of_a_table_is_not_the_whole_warehouse(project: Path, cli: Cli, iceberg: Table) -> None:
    """As for a namespace with the name `metadata`, in whose folder a tenant may write."""
    folder = project / "ice/metadata"
    folder.mkdir()
    catalog = iceberg.catalog
    catalog.create_namespace("metadata")
    rewritten(iceberg, lambda document: document.update(location=f"file://{project}/ice"))
    stolen = folder / "00009-x.metadata.json"
    stolen.write_bytes(Path(iceberg.metadata_location.removeprefix("file://")).read_bytes())
    catalog.register_table("metadata.t", f"file://{stolen}")
    plan = planned(cli, "ice.metadata.t", 3)
    assert (plan["status"], plan["files"], codes(plan)) == ("refused", 0, ["ZL242"])
