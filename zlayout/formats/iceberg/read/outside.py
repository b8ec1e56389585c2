"""Keeps the readers of an Iceberg table to files below its location, and below those that its catalog permits.

Whoever commits metadata determines the location that it states. Therefore the location counts only if the metadata
file, which the catalog names, is in the folder `metadata` of the location, where all writers store it by default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from zlayout.errors import Diagnostic, Refused
from zlayout.formats.iceberg.read.manifests import DataColumns
from zlayout.spec.model import CatalogConfig, TableName
from zlayout.table.location import canonical
from zlayout.table.outside import Counted, counted, files_text, find_outside, is_below, leaves, refusal

if TYPE_CHECKING:
    from pyiceberg.io import InputFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

# The folders below the location of a table in which Iceberg writes new files, and the properties with other places.
_FOLDERS = ("data", "metadata")
PATH_PROPERTIES = ("write.data.path", "write.object-storage.path", "write.folder-storage.path", "write.metadata.path")
# With this property, a commit deletes the former metadata files that its log no longer contains.
_DELETES_FORMER = "write.metadata.delete-after-commit.enabled"


def keep_to_locations(table: Table, name: TableName, catalog: CatalogConfig) -> Table:
    """Let the FileIO of a table open only files that the table may have, and return the table.

    Raises:
        Refused: ZL242, if the location is not its own and not permitted; also as `require_own_former_files`. Opening
            another file raises the same.
    """
    location, permitted = table.metadata.location, catalog.file_locations(name)
    folder = table.metadata_location.rpartition("/")[0]
    if not _is_own(location, folder, catalog) and not (permitted and is_below(f"{location}/x", permitted)):
        raise Refused(refusal(f"{name}: the metadata file is", f"{location}/metadata", [folder], name.catalog))
    if deletes_former_files(table.metadata.properties):
        require_own_former_files([f.metadata_file for f in table.metadata.metadata_log], location, name, permitted)
    opened, locations = table.io.new_input, [location, *permitted]
    table.io.new_input = _checked(opened, locations, name)  # type: ignore[method-assign]
    return table


def deletes_former_files(properties: Mapping[str, str]) -> bool:
    """Return whether a commit deletes former metadata files. properties: the properties of the table."""
    return (properties.get(_DELETES_FORMER) or "").lower() == "true"  # py4j ignores the default of `get`


def require_own_former_files(former: Sequence[str], location: str, name: TableName, permitted: Sequence[str]) -> None:
    """Check that a commit would delete no file outside of the location of the table.

    Args:
        former: The former metadata files that the metadata lists. A writer of the table can list any file there.
        location: The location of the table.
        permitted: The other locations in which it may have files.

    Raises:
        Refused: ZL242.
    """
    found = find_outside(pa.array(former, pa.string()), location, permitted)
    if count := int(found.refused.sum()):
        what = f"{name}: {files_text(count)}, which a commit would delete as former metadata,"
        raise Refused(refusal(what, location, found.places, name.catalog))


def _is_own(location: str, folder: str, catalog: CatalogConfig) -> bool:
    """Return whether a table at this location has its metadata file in this folder, and not the warehouse below it."""
    own, warehouse = canonical(location), canonical(str(catalog.options.get("warehouse", "")))
    return (
        canonical(folder) == f"{own.rstrip('/')}/metadata"
        and not leaves(own)
        and not f"{warehouse}/".startswith(f"{own}/")
    )


def _checked(opened: Callable[[str], InputFile], locations: Sequence[str], name: TableName) -> Callable[..., InputFile]:
    def new_input(location: str) -> InputFile:
        if not is_below(location, locations):
            folder = location.rpartition("/")[0]
            raise Refused(refusal(f"{name}: a file is", locations[0], [folder], name.catalog))
        return opened(location)

    return new_input


def find_outside_files(
    data: DataColumns, metadata: TableMetadata, name: TableName, permitted: Sequence[str]
) -> Counted:
    """Find the data files and delete files that are outside of the location of the table.

    Returns:
        Their number, and ZL242 if the catalog does not permit some of them, or the place of new files.
    """
    location = metadata.location
    deletes = [file.key.rpartition("@")[0] if file.vector else file.key for file in data.deletes]
    found = counted(
        [find_outside(pa.array(paths, pa.string()), location, permitted) for paths in (data.path, deletes)],
        location,
        name.catalog,
    )
    others = tuple(_other_refusals(metadata, name, [location, *permitted]))
    return found._replace(refusals=found.refusals + others)


def _other_refusals(metadata: TableMetadata, name: TableName, permitted: Sequence[str]) -> Iterator[Diagnostic]:
    """Yield refusals of what a commit would write elsewhere. permitted: with the table's location."""
    location = metadata.location
    for folder in _FOLDERS:
        if not is_below(f"{location.rstrip('/')}/{folder}/x", permitted):
            yield refusal(f"the folder {folder} of the table is", location, [], name.catalog)
    for key in PATH_PROPERTIES:
        place = metadata.properties.get(key)
        if place and not is_below(f"{place.rstrip('/')}/x", permitted):
            yield refusal(f"property {key} is", location, [place], name.catalog)
