"""Tables with types and default values that pyiceberg cannot parse. No JVM."""

import gzip
import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, LongType, NestedField, StringType, StructType
from support.builders import make_layout, make_spec
from support.servers import serving

from zlayout.errors import Location, TableError
from zlayout.formats.iceberg.read.catalog import load_table
from zlayout.formats.iceberg.read.observe import observe
from zlayout.formats.iceberg.read.unread_types import PROPERTY, readable
from zlayout.predicate.parse import parse_where
from zlayout.spec.model import CatalogConfig, TableName
from zlayout.spec.semantics import check
from zlayout.table.partition import PartitionField

NAME = TableName("ice", ("db",), "t")
SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "v", StringType(), required=False),
    NestedField(3, "s", StructType(NestedField(6, "v", StringType(), required=False)), required=False),
    NestedField(4, "l", ListType(7, StringType(), element_required=False), required=False),
    NestedField(5, "n", LongType(), required=False),
)


@pytest.fixture
def path(catalog: Catalog) -> Path:
    """The metadata file of a table of format version 3 with one data file, whose manifest has bounds of all columns."""
    table = catalog.create_table("db.t", SCHEMA)
    columns = {"id": [1, 9], "v": ["a", "b"], "s": [{"v": "x"}] * 2, "l": [["x"]] * 2, "n": [1, 2]}
    table.append(pa.Table.from_pydict(columns, schema=SCHEMA.as_arrow()))
    path = Path(catalog.load_table("db.t").metadata_location.removeprefix("file://"))
    change(path, lambda metadata: metadata.update({"format-version": 3, "next-row-id": 0}))
    return path


def change(path: Path, edit: Any) -> None:
    metadata = json.loads(path.read_text())
    edit(metadata)
    path.write_text(json.dumps(metadata))


def set_types(path: Path, of_v: str, of_element: str, of_nested: str) -> None:
    def edit(metadata: dict[str, Any]) -> None:
        _, simple, struct, array, _ = metadata["schemas"][0]["fields"]
        simple["type"], array["type"]["element"], struct["type"]["fields"][0]["type"] = of_v, of_element, of_nested

    change(path, edit)


def test_the_other_columns_are_read(path: Path, config: CatalogConfig) -> None:
    before = observe(config, NAME, ["id", "v", "s.v", "n"])
    set_types(path, "variant", "variant", "geometry(OGC:CRS84)")
    state = observe(config, NAME, ["id", "v", "s.v", "n"])
    columns = {c.name: (c.type, c.orderable, c.stats, c.id) for c in state.columns}
    assert columns["v"] == (pa.null(), False, False, "2")
    assert columns["s.v"] == (pa.null(), False, False, "6")
    assert columns["l"] == (pa.list_(pa.null()), False, False, "4")
    assert columns["id"][:3] == (pa.int64(), True, True)
    assert {name: b.upper.to_pylist() for name, b in state.files.bounds.items()} == {"id": [9], "n": [2]}
    assert (state.refusals, state.files.rows.tolist()) == ((), [2])
    assert "variant" in state.features
    assert state.properties == before.properties
    assert PROPERTY not in load_table(config, NAME).io.properties


def test_statistics_of_types_that_only_one_engine_knows(path: Path, config: CatalogConfig) -> None:
    """Presto's ANALYZE stores sizes and histograms in blobs of its own types."""
    types = ("presto-sum-data-size-bytes-v1", "apache-datasketches-theta-v1", "presto-kll-sketch-bytes-v1")

    def edit(metadata: dict[str, Any]) -> None:
        at = {"snapshot-id": metadata["current-snapshot-id"], "sequence-number": 1}
        blobs = [{"type": kind, **at, "fields": [1], "properties": {"ndv": "2"}} for kind in types]
        sizes = {"file-size-in-bytes": 9, "file-footer-size-in-bytes": 1}
        path = {"snapshot-id": at["snapshot-id"], "statistics-path": "stats.puffin"}
        metadata["statistics"] = [{**path, **sizes, "blob-metadata": blobs}]

    change(path, edit)
    state = observe(config, NAME, ["id"])
    assert {c.name: c.distinct for c in state.columns if c.distinct is not None} == {"id": 2}
    assert state.files.rows.tolist() == [2]


def test_a_plan_depends_on_the_type(path: Path, config: CatalogConfig) -> None:
    digests = set()
    for kind in ("variant", "geometry(OGC:CRS84)", "unknown"):
        set_types(path, kind, "string", "string")
        digests.add(observe(config, NAME, []).schema_digest)
    assert len(digests) == 3


@pytest.mark.parametrize(
    "kind",
    ["time", "timestamp_ns", "timestamptz_ns", "geometry(srid:3857)", "geography(OGC:CRS84, vincenty)", "interval"],
)
def test_what_spark_does_not_read_is_refused(path: Path, config: CatalogConfig, kind: str) -> None:
    set_types(path, "variant", kind, kind)
    (refusal,) = observe(config, NAME, []).refusals
    found = f"cannot read columns of these types: s.v ({kind}), l.element ({kind})"
    assert (refusal.code, refusal.severity, found in refusal.message) == ("ZL227", "refused", True)


@pytest.mark.parametrize(
    "kind",
    [
        "unknown",
        "geometry",
        "geometry(EPSG:3857)",
        "geometry('SRID:0')",
        "geography",
        "geography(OGC:CRS84, spherical)",
    ],
)
def test_what_spark_reads_is_not_refused(path: Path, config: CatalogConfig, kind: str) -> None:
    set_types(path, kind, kind, kind)
    assert observe(config, NAME, []).refusals == ()


def test_a_layout_cannot_use_such_a_column(path: Path, config: CatalogConfig) -> None:
    set_types(path, "variant", "variant", "geometry(OGC:CRS84)")
    state, place = observe(config, NAME, []), Location("f.yaml", 1, 1)
    spec = make_spec(
        make_layout("v", "s.v"),
        "ice.db.t",
        place,
        where=parse_where("v = 'x'", place),
        partition_by=(PartitionField("v"), PartitionField("s.v", "bucket[4]")),
    )
    found = [(d.code, name) for d in check(spec, state) for name in ("'v'", "'s.v'") if name in d.message]
    # as partition columns they are no z-order columns either
    assert sorted(found) == [
        ("ZL033", "'v'"),
        ("ZL034", "'s.v'"),
        ("ZL035", "'v'"),
        ("ZL036", "'s.v'"),
        ("ZL036", "'v'"),
    ]


@pytest.mark.parametrize(
    ("kind", "default"), [("timestamp_ns", "2026-01-01T00:00:00.000000001"), ("long", "no number")]
)
def test_a_default_value_that_pyiceberg_cannot_parse_is_left_out(
    path: Path, config: CatalogConfig, kind: str, default: str
) -> None:
    set_default = lambda m: m["schemas"][0]["fields"][1].update({"type": kind, "initial-default": default})  # noqa: E731
    change(path, set_default)
    assert observe(config, NAME, ["n"]).files.bounds["n"].upper.to_pylist() == [2]


def test_a_default_value_is_part_of_the_schema(path: Path, config: CatalogConfig) -> None:
    set_types(path, "string", "variant", "string")
    without = observe(config, NAME, []).schema_digest
    change(path, lambda m: m["schemas"][0]["fields"][1].update({"initial-default": "old", "write-default": "new"}))
    assert load_table(config, NAME).schema().find_field("v").initial_default == "old"
    assert observe(config, NAME, []).schema_digest != without


def test_compressed_metadata(path: Path, config: CatalogConfig, catalog: Catalog) -> None:
    set_types(path, "variant", "string", "string")
    compressed = path.with_name("00009.gz.metadata.json")
    compressed.write_bytes(gzip.compress(path.read_bytes()))
    catalog.drop_table("db.t")
    set_types(path, "string", "string", "string")
    registered = catalog.register_table("db.t", f"file://{path}")
    compressed.replace(path.with_name("00010.gz.metadata.json"))
    with catalog.engine.begin() as sql:  # type: ignore[attr-defined]
        location = registered.metadata_location.replace(path.name, "00010.gz.metadata.json")
        sql.exec_driver_sql("update iceberg_tables set metadata_location = ?", (location,))
    assert observe(config, NAME, ["n"]).column("v").type == pa.null()  # type: ignore[union-attr]


def test_metadata_of_known_types_is_not_changed(path: Path) -> None:
    data = path.read_bytes()
    assert readable(data) is data
    assert readable(b'{"schemas": [{"type": "variant"') == b'{"schemas": [{"type": "variant"'


def test_damaged_metadata_is_reported(path: Path, config: CatalogConfig) -> None:
    change(path, lambda m: m["schemas"][0]["fields"][1].update({"type": {"type": "variant", "fields": 3}}))
    with pytest.raises(TableError, match="ZL123"):
        observe(config, NAME, [])


def test_a_property_of_the_same_name_means_nothing(path: Path, config: CatalogConfig) -> None:
    for value in ('{"2": "variant"}', "no JSON"):
        change(path, lambda m, value=value: m["properties"].update({PROPERTY: value}))
        state = observe(config, NAME, [])
        assert (state.column("v").type, PROPERTY in state.properties) == (pa.string(), False)  # type: ignore[union-attr]


@pytest.fixture
def rest(path: Path) -> Iterator[str]:
    """A REST catalog with the table."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body: dict[str, Any] = {"defaults": {}, "overrides": {}}
            if self.path.startswith("/v1/namespaces/db/tables/t"):
                location = f"file://{path}"
                body = {"metadata-location": location, "metadata": json.loads(path.read_text()), "config": {}}
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(json.dumps(body).encode())

        def log_message(self, *_: Any) -> None:
            pass

    with serving(HTTPServer(("127.0.0.1", 0), Handler)) as server:
        yield f"http://127.0.0.1:{server.server_port}"


def test_the_response_of_a_rest_catalog(path: Path, rest: str) -> None:
    set_types(path, "variant", "string", "geometry(OGC:CRS84)")
    config = CatalogConfig("ice", "iceberg", "rest", {"uri": rest}, Location("zlayout.yaml", 3, 5))
    state = observe(config, NAME, ["n"])
    assert [c.name for c in state.columns if not c.orderable] == ["v", "s.v", "l"]
    assert state.files.bounds["n"].upper.to_pylist() == [2]
    assert PROPERTY not in state.properties
    assert PROPERTY not in load_table(config, NAME).io.properties


def multi_argument(metadata: dict[str, Any]) -> None:
    field = {"source-ids": [1, 2], "field-id": 1000, "name": "x", "transform": "bucket[4]"}
    metadata["partition-specs"].append({"spec-id": 1, "fields": [field]})


def embedded_manifests(metadata: dict[str, Any]) -> None:
    """As Iceberg wrote snapshots of format version 1 until `write.manifest-lists.enabled` was removed."""
    metadata["format-version"] = 1
    metadata["schema"], metadata["partition-spec"] = metadata["schemas"][0], []
    snapshot = metadata["snapshots"][0]
    del snapshot["manifest-list"]
    snapshot["manifests"] = ["file:///m.avro"]


@pytest.mark.parametrize(
    ("edit", "field", "cause", "hint"),
    [
        (multi_argument, "partition-specs.1.fields.0", "transform of several columns", "clean_expired_metadata"),
        (embedded_manifests, "snapshots.0.manifest-list", "lists its manifests itself", "rewrite_manifests"),
        (lambda m: m.update({"location": 5}), "location: ", "valid string", "damaged"),
        (lambda m: m.update({"format-version": 4}), "", "expected tags: 1, 2, 3", "format version 1, 2 or 3"),
    ],
)
def test_the_field_that_cannot_be_parsed_is_named(
    path: Path, config: CatalogConfig, edit: Any, field: str, cause: str, hint: str
) -> None:
    change(path, edit)
    with pytest.raises(TableError, match="ZL123") as caught:
        observe(config, NAME, [])
    (found,) = caught.value.diagnostics
    assert found.message.startswith(f"the metadata of ice.db.t cannot be read: {field}")
    assert cause in found.message
    assert hint in found.hint
    assert "TableMetadataWrapper" not in found.message


@pytest.mark.parametrize("transform", ["zorder[4]", "geo"])
def test_an_unknown_transform_is_refused_by_its_name(path: Path, config: CatalogConfig, transform: str) -> None:
    def edit(metadata: dict[str, Any]) -> None:
        field = {"source-id": 1, "field-id": 1000, "name": "x", "transform": transform}
        metadata["partition-specs"].append({"spec-id": 1, "fields": [field]})
        metadata["default-spec-id"] = 1

    change(path, edit)
    (refusal,) = observe(config, NAME, []).refusals
    assert (refusal.code, refusal.severity) == ("ZL246", "refused")
    assert f"x by {transform}(id)" in refusal.message
