"""Finds orphans of an Iceberg table: files below its location to which its metadata does not refer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from zlayout.errors import TableError
from zlayout.formats.iceberg.read.avro import manifests_of
from zlayout.formats.iceberg.read.catalog import load_table, readable_metadata
from zlayout.formats.iceberg.read.manifests import read_live
from zlayout.formats.orphans import Orphans, find_orphans
from zlayout.spec.model import CatalogConfig, TableName
from zlayout.sql_text import quote_path, string_literal

if TYPE_CHECKING:
    from pyiceberg.table import Table

# Nessie, as a REST catalog, sets this property. The table metadata that it returns contains the newest snapshot only.
_NESSIE = "nessie.is-nessie-catalog"
# pyiceberg ends a path at `#` and `?`, as in a URL. Iceberg for Java does not.
_PLACEHOLDERS = str.maketrans("#?", "\ue000\ue001")
_REPLACED = str.maketrans("\ue000\ue001", "#?")


def iceberg_orphans(catalog: CatalogConfig, name: TableName) -> Orphans:
    """See `zlayout.formats.base.Backend.orphans`. Raises TableError ZL121 to ZL123, ZL125, ZL127 to ZL129."""
    from pyiceberg.io.pyarrow import PyArrowFileIO

    table = load_table(catalog, name)
    if table.catalog.properties.get(_NESSIE) == "true":
        message = f"{name}: Nessie keeps earlier versions of the table, whose files would be listed as orphans"
        hint = "remove files with Nessie's garbage collector, and never with remove_orphan_files"
        raise TableError.of("ZL129", message, hint=hint)
    scheme, netloc, folder = _parse_location(table.metadata.location)
    storage = PyArrowFileIO(table.io.properties).fs_by_scheme(scheme, netloc)
    # The table's location may begin with file:/ and the files' paths with file:///, so only the path is compared.
    root = folder.strip("/") + "/"
    with readable_metadata(table, name):
        paths = (_parse_location(path)[2].strip("/") for path in _referenced(table))
        referenced = frozenset(path.removeprefix(root) for path in paths if path.startswith(root))
        literal = string_literal(quote_path(name.identifier))
        remedy = f"CALL {name.catalog}.system.remove_orphan_files(table => {literal}, dry_run => true)"
        return find_orphans(storage, folder, referenced, remedy)


def _parse_location(location: str) -> tuple[str, str, str]:
    """Return scheme, host and path as pyiceberg does, but with `#` and `?` as parts of the path."""
    from pyiceberg.io.pyarrow import PyArrowFileIO

    scheme, netloc, path = PyArrowFileIO.parse_location(location.translate(_PLACEHOLDERS))
    return scheme, netloc, path.translate(_REPLACED)


def _referenced(table: Table) -> Iterator[str]:
    """Yield the paths of all files to which the metadata or a snapshot that has not expired refers."""
    metadata = table.metadata
    yield table.metadata_location
    yield f"{metadata.location}/metadata/version-hint.text"
    yield from (entry.metadata_file for entry in metadata.metadata_log)
    yield from (statistics.statistics_path for statistics in metadata.statistics)
    yield from (statistics.statistics_path for statistics in metadata.partition_statistics)
    manifests = {}
    for snapshot in metadata.snapshots:
        yield snapshot.manifest_list
        manifests.update({manifest.manifest_path: manifest for manifest in manifests_of(snapshot, table.io)})
    yield from manifests
    live = read_live(manifests.values(), table.io, ())
    yield from live.path
    yield from (delete.key.rpartition("@")[0] if delete.vector else delete.key for delete in live.deletes)
