"""Reads the shallow clone of a trial without a JVM: whether zlayout made it, and which commits it has."""

from __future__ import annotations

import json
import os
from urllib.parse import unquote, urlsplit

import pyarrow.fs as pa_fs

from zlayout.errors import Refused, TableError, first_line
from zlayout.formats.delta.read.files import table_files
from zlayout.formats.delta.read.history import commit_infos, run_of
from zlayout.formats.delta.read.observe import observe_delta
from zlayout.formats.delta.read.orphans import named_files
from zlayout.formats.delta.read.tags import LOG, log_sizes
from zlayout.formats.storage import deltalake_options
from zlayout.formats.trial import TRIAL, Made, Trial
from zlayout.message_text import quote_value
from zlayout.reading import parse_json
from zlayout.spec.model import CatalogConfig, TableName
from zlayout.table.location import canonical

MAX_COMMITS = 10_000
_WITHOUT_ROWS = ("VACUUM START", "VACUUM END")  # commits that state what VACUUM does


def marker(clone: str, source: str) -> str:
    """Return the value of the property of a clone. A copy at another location has the same value, and is no trial."""
    return json.dumps({"clone": place(clone), "of": place(source)}, separators=(",", ":"))


def place(location: str) -> str:
    """Return a location in one form. Links in local paths are followed."""
    found = canonical(location)
    return os.path.realpath(found) if "://" not in found else found


def read_clone(catalog: CatalogConfig, name: TableName, location: str, source: str) -> Trial | None:
    """Read the clone of a table.

    Args:
        catalog: A catalog by path that has the clone.
        name: The name of the clone.
        source: The location of the table.

    Returns:
        The trial; None if nothing is at the location.

    Raises:
        Refused: ZL256, if there are files at the location and no Delta table.
        TableError: ZL110 to ZL113.
    """
    options = deltalake_options(catalog)
    if (storage := _opened(location, options)) is None:
        return None
    log = log_sizes(storage)
    if not log:
        if storage.get_file_info(pa_fs.FileSelector("", allow_not_found=True)):
            raise Refused.of(
                "ZL256",
                f"{quote_value(location)} is neither empty nor a Delta table",
                hint="use a folder that does not exist yet",
            )
        return None
    state = observe_delta(name, location, (), None, options)
    try:
        infos = list(commit_infos(storage, log, state.version, MAX_COMMITS))
    except (OSError, ValueError) as error:
        message = f"the log of {name} at {location} cannot be read: {first_line(error)}"
        raise TableError.of("ZL111", message, hint="check access to _delta_log") from error
    first = next((info for info in infos if info["version"] == 0), {})
    parameters = first.get("operationParameters")
    cloned = first.get("operation") == "CLONE" and isinstance(parameters, dict)
    later = [info for info in reversed(infos) if info["version"] > 0]
    return Trial(
        table=name,
        format="delta",
        table_id=state.table_id,
        location=state.location,
        marked=_is_marked(state.properties.get(TRIAL), location, source),
        main=int(parameters["sourceVersion"]) if isinstance(parameters, dict) and cloned else -1,
        version=state.version,
        commits=tuple(_made(info) for info in later if info.get("operation") not in _WITHOUT_ROWS),
        known=cloned and len(later) == state.version,
    )


def other_files(catalog: CatalogConfig, location: str) -> list[str]:
    """Return the files below a clone that its log does not name, and those of other tables below it.

    Raises:
        OSError, ValueError: If the log or the folder cannot be read.
    """
    storage = table_files(location, deltalake_options(catalog))
    named = frozenset(named_files(storage))
    selector = pa_fs.FileSelector("", recursive=True)
    files = (info.path.strip("/") for info in storage.get_file_info(selector) if info.type == pa_fs.FileType.File)
    return [path for path in files if not _is_of_log(path) and path not in named and not _is_checksum(path, named)]


def _opened(location: str, options: dict[str, str]) -> pa_fs.FileSystem | None:
    """Return the file system of a clone; None if its local folder does not exist, which deltalake would create."""
    url = urlsplit(location)
    local = location if "://" not in location else unquote(url.path) if url.scheme == "file" else ""
    return table_files(location, options) if not local or os.path.isdir(local) else None


def _is_marked(found: str | None, location: str, source: str) -> bool:
    try:
        return found is not None and parse_json(found) == parse_json(marker(location, source))
    except ValueError:
        return False


def _made(info: dict[str, object]) -> Made:
    run_id = run_of(info)
    return Made(int(str(info["version"])), str(info.get("operation")), run_id, rewrite=bool(run_id))


def _is_of_log(path: str) -> bool:
    return path.startswith(f"{LOG}/")


def _is_checksum(path: str, named: frozenset[str]) -> bool:
    """Return whether a file is the checksum that Hadoop writes beside a local file."""
    folder, _, name = path.rpartition("/")
    of = f"{folder}/" * bool(folder) + name[1:].removesuffix(".crc")
    return name.startswith(".") and name.endswith(".crc") and of in named
