"""Keeps the readers of an Iceberg table to files below its location, and below those that its catalog permits.

Whoever commits metadata determines the location that it states. Therefore the location counts only if the metadata
file, which the catalog names, is in the folder `metadata` of the location, where all writers store it by default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from zlayout.errors import Diagnostic, Refused
from zlayout.formats.iceberg.read.manifests import DataColumns
from zlayout.spec.model import CatalogConfig, TableName
from zlayout.table.outside import Outside, files_text, find_outside, is_below, refusal

if TYPE_CHECKING:
    from pyiceberg.io import InputFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

# The folders below the location of a table in which Iceberg writes new files, and the properties with other places.
_FOLDERS = ("data", "metadata")
PATH_PROPERTIES = ("write.data.path", "write.object-storage.path", "write.folder-storage.path", "write.metadata.path")
# With this property, a commit deletes the former metadata files that its log no longer contains.
_DELETES_FORMER = "write.metadata.delete-after-commit.enabled"


class OutsideFiles(NamedTuple):
    """The number of files outside of the location of a table, and ZL242 if the catalog does not permit them."""

    number: int
    refusals: tuple[Diagnostic, ...]


def keep_to_locations(table: Table, name: TableName, catalog: CatalogConfig) -> Table:
    """Let the FileIO of a table open only files that the table may have, and return the table.

    Raises:
        Refused: ZL242, if the location of the table is not that of its metadata file, or contains the warehouse, and
            the catalog does not permit it. Opening another file raises the same.
    """
    location, permitted = table.metadata.location, catalog.file_locations(name)
    folder, _, _ = table.metadata_location.rpartition("/")
    warehouse = str(catalog.options.get("warehouse", ""))
    own = (
        is_below(f"{folder}/x", [f"{location.rstrip('/')}/metadata"])
        and is_below(table.metadata_location, [location])  # not through a link
        and not is_below(f"{warehouse}/x", [location])
    )
    if not own and not is_below(f"{location}/x", permitted):
        message = f"{name}: the metadata file is"
        raise Refused(refusal(message, f"{location}/metadata", [folder], name.catalog))
    opened, locations = table.io.new_input, [location, *permitted]
    table.io.new_input = _checked(opened, locations, name)  # type: ignore[method-assign]
    return table


def _checked(opened: Callable[[str], InputFile], locations: Sequence[str], name: TableName) -> Callable[..., InputFile]:
    def new_input(location: str) -> InputFile:
        if not is_below(location, locations):
            folder = location.rpartition("/")[0]
            raise Refused(refusal(f"{name}: a file is", locations[0], [folder], name.catalog))
        return opened(location)

    return new_input


def find_outside_files(
    data: DataColumns, metadata: TableMetadata, name: TableName, permitted: Sequence[str]
) -> OutsideFiles:
    """Find the data files and delete files that are outside of the location of the table.

    Returns:
        Their number, and ZL242 if the catalog does not permit some of them, the place of new files, or the former
        metadata files that a commit would delete.
    """
    deletes = [file.key.rpartition("@")[0] if file.vector else file.key for file in data.deletes]
    found = [find_outside(pa.array(paths, pa.string()), metadata.location, permitted) for paths in (data.path, deletes)]
    return OutsideFiles(
        sum(int(each.files.sum()) for each in found), tuple(_refusals(found, metadata, name, permitted))
    )


def _refusals(
    found: Sequence[Outside], metadata: TableMetadata, name: TableName, permitted: Sequence[str]
) -> Iterator[Diagnostic]:
    if count := sum(int(each.refused.sum()) for each in found):
        places = frozenset[str]().union(*(each.places for each in found))
        yield refusal(files_text(count), metadata.location, places, name.catalog)
    for folder in _FOLDERS:
        if not is_below(f"{metadata.location}/{folder}/x", [metadata.location, *permitted]):
            yield refusal(f"the folder {folder} of the table is", metadata.location, [], name.catalog)
    if metadata.properties.get(_DELETES_FORMER, "").lower() == "true":
        former = [entry.metadata_file for entry in metadata.metadata_log]
        others = find_outside(pa.array(former, pa.string()), metadata.location, permitted)
        if count := int(others.refused.sum()):
            what = f"{files_text(count, 'former metadata file')}, which Iceberg would delete,"
            yield refusal(what, metadata.location, others.places, name.catalog)
    for key in PATH_PROPERTIES:
        place = metadata.properties.get(key)
        if place and not is_below(f"{place.rstrip('/')}/x", [metadata.location, *permitted]):
            yield refusal(f"property {key} is", metadata.location, [place], name.catalog)
