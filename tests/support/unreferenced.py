"""Data files in the folder of a table that no version of it refers to, such as those of a killed writer."""

import json
from pathlib import PurePosixPath
from urllib.parse import unquote, urlsplit

import pyarrow.fs as pa_fs

from zlayout.formats.delta.names import Names
from zlayout.formats.delta.read.log import delta_location, table_files
from zlayout.formats.iceberg.read.catalog import load_table
from zlayout.spec.client_options import deltalake_options
from zlayout.spec.model import CatalogConfig, TableName


def unreferenced(catalog: CatalogConfig, table: TableName) -> list[str]:
    """The paths of such Parquet files, relative to the location of the table. A Delta log must have every commit."""
    if catalog.format == "delta":
        located = Names(catalog).located(table)
        storage = table_files(delta_location(located, table), deltalake_options(located))
        return sorted(_parquet(storage, "") - _named_by_delta(storage))
    from pyiceberg.io.pyarrow import PyArrowFileIO

    loaded = load_table(catalog, table)
    location = urlsplit(loaded.metadata.location)
    storage = PyArrowFileIO(loaded.io.properties).fs_by_scheme(location.scheme or "file", location.netloc)
    folder = f"{location.netloc}{location.path}" if location.scheme not in ("", "file") else location.path
    files = loaded.inspect.all_files()["file_path"].to_pylist()
    return sorted(_parquet(storage, folder) - {path.partition(location.path + "/")[2] for path in files})


def _parquet(storage: pa_fs.FileSystem, folder: str) -> set[str]:
    root = folder.strip("/")
    found = storage.get_file_info(pa_fs.FileSelector(folder, recursive=True, allow_not_found=True))
    paths = (info.path.strip("/").removeprefix(root).lstrip("/") for info in found if info.type == pa_fs.FileType.File)
    hidden = ("_", ".")
    return {
        path
        for path in paths
        if path.endswith(".parquet")
        and not any(part.startswith(hidden) and "=" not in part for part in PurePosixPath(path).parts)
    }


def _named_by_delta(storage: pa_fs.FileSystem) -> set[str]:
    commits = storage.get_file_info(pa_fs.FileSelector("_delta_log"))
    named = set()
    for info in commits:
        if info.path.endswith(".json"):
            with storage.open_input_stream(info.path, compression=None) as stream:
                for line in stream.read().splitlines():
                    action = json.loads(line)
                    named |= {unquote(action[kind]["path"]) for kind in ("add", "remove") if kind in action}
    assert f"{0:020}.json" in {PurePosixPath(info.path).name for info in commits}, "the log has lost its first commits"
    return named
