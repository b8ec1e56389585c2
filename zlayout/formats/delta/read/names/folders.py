"""Lists the Delta tables of a catalog of type `path`: those in its `tables`, and the folders of its warehouse."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

import pyarrow.fs as pa_fs

from zlayout.errors import TableError
from zlayout.formats.access import explained
from zlayout.formats.base import Listed
from zlayout.formats.delta.read.location import log_files, table_files
from zlayout.formats.delta.read.log import LogFiles
from zlayout.formats.storage import deltalake_options
from zlayout.spec.model import CatalogConfig, TableName


def list_folders(catalog: CatalogConfig, pattern: TableName) -> Iterator[Listed]:
    """Yield the tables whose namespace and name match globs. A folder that is not a table is yielded with an error.

    Raises:
        TableError: ZL114, if the folders of the warehouse cannot be listed.
    """
    globs = pattern.identifier
    found: dict[tuple[str, ...], TableError | None] = {}
    for name in catalog.options.get("tables", {}):
        parts = tuple(name.split("."))
        if len(parts) == len(globs) and all(map(fnmatchcase, parts, globs)):
            found[parts] = None
    if warehouse := catalog.options.get("warehouse"):
        try:
            storage = log_files(str(warehouse), table_files(str(warehouse), deltalake_options(catalog)))
            for parts in _folders(storage, globs):
                found.setdefault(parts, _problem(storage, catalog, parts))
        except (OSError, ValueError) as error:
            cause = explained(error, "check the access to the warehouse")
            message = f"the warehouse of catalog {catalog.name} cannot be listed: {cause.reason}"
            raise TableError.of("ZL114", message, hint=cause.hint, location=catalog.location) from error
    for parts, problem in sorted(found.items()):
        yield Listed(TableName(catalog.name, parts[:-1], parts[-1]), problem)


def _folders(storage: pa_fs.FileSystem, globs: tuple[str, ...]) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = [()]
    for glob in globs:
        found = [
            (*above, info.base_name)
            for above in found
            for info in storage.get_file_info(pa_fs.FileSelector("/".join(above), allow_not_found=True))
            if info.type == pa_fs.FileType.Directory
            and not info.base_name.startswith(("_", "."))
            and fnmatchcase(info.base_name, glob)
        ]
    return found


def _problem(storage: pa_fs.FileSystem, catalog: CatalogConfig, parts: tuple[str, ...]) -> TableError | None:
    if LogFiles(pa_fs.SubTreeFileSystem("/".join(parts), storage)).sizes:
        return None
    message = f"expected a Delta table at {'/'.join(parts)} in the warehouse of {catalog.name}, found none"
    return TableError.of("ZL110", message, hint="a Delta table has a folder _delta_log", location=catalog.location)
