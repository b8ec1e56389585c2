"""Reads the files in `_delta_log`: which of them define a version, and the actions in them."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pa_fs
import pyarrow.json as pa_json
import pyarrow.parquet as pq

from zlayout.errors import TableError
from zlayout.reading import TooLargeError

LOG = "_delta_log"
SIDECARS = "_sidecars"
HEAD_BYTES = 1 << 16  # the start of each commit, which is kept in memory: Spark writes the commitInfo first
MAX_CONCURRENT_READS = 16
MAX_LINES_IN_PYTHON = 64  # up to this number of lines, the json module is faster than Arrow, which starts threads
_JSON_BLOCK = 64 << 20
# The limits for a checkpoint: a number, and so many for each byte of the file. A row has the path of a file, which
# compresses to more than four bytes, and the metadata of Parquet states the rows and bytes that it would become.
MIN_ROWS, BYTES_PER_ROW = 250_000, 4
MIN_UNPACKED_BYTES, MAX_RATIO = 256 << 20, 200
_SIDECAR = pa.schema({"sidecar": pa.struct({"path": pa.string()})})
_COMMIT = re.compile(r"(\d{20})\.json")
_CLASSIC = re.compile(r"(\d{20})\.checkpoint\.parquet")
_PART = re.compile(r"(\d{20})\.checkpoint\.(\d{10})\.(\d{10})\.parquet")
_V2 = re.compile(r"(\d{20})\.checkpoint\.[0-9a-f-]{36}\.(?:json|parquet)")


@dataclass(frozen=True, slots=True)
class LogSegment:
    """The files in `_delta_log` that define a version.

    Attributes:
        checkpoint: The names of the files of the newest complete checkpoint: none, one, or several parts.
        commits: The names of the commits after the checkpoint, in order.
    """

    checkpoint: tuple[str, ...]
    commits: tuple[str, ...]


class LogFiles:
    """The files in the `_delta_log` of a table, which is listed once.

    Attributes:
        storage: The file system, rooted at the table.
        sizes: The sizes in bytes by file name, empty if there is no log. Empty checkpoints, which a killed writer can
            leave, are omitted.
        commits: The names of the commits by version.
        footers: The metadata of the Parquet files that were opened before, by name. It is not read again.
        heads: The first HEAD_BYTES of the commits that were read before, by name. They are not read again.
        sidecars: The paths of sidecars in the checkpoints that were read, as the checkpoints store them.
    """

    def __init__(self, storage: pa_fs.FileSystem) -> None:
        self.storage = storage
        self.sizes: dict[str, int] = {
            info.base_name: info.size or 0  # a folder has no size
            for info in storage.get_file_info(pa_fs.FileSelector(LOG, allow_not_found=True))
            if info.size != 0 or ".checkpoint." not in info.base_name
        }
        self.commits = commits_in(self.sizes)
        self.footers: dict[str, pq.FileMetaData] = {}
        self.heads: dict[str, bytes] = {}
        self.sidecars: list[str] = []

    def segment(self, version: int) -> LogSegment:
        """See `log_segment`. Raises TableError ZL113."""
        return log_segment(self.sizes, version)

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        return read_log_file(self.storage, name)

    def head(self, name: str) -> bytes:
        """Return the first HEAD_BYTES of a commit. A shorter one is returned whole."""
        if name in self.heads:
            return self.heads[name]
        with self.storage.open_input_file(f"{LOG}/{name}") as file:
            content: bytes = file.read_at(HEAD_BYTES, 0)
        return content

    @contextmanager
    def parquet(self, name: str) -> Iterator[pq.ParquetFile]:
        """Open a Parquet file, which is closed at the end of the block. Raises as `require_small_checkpoint`."""
        with self.storage.open_input_file(f"{LOG}/{name}") as source:
            file = pq.ParquetFile(source, metadata=self.footers.get(name))
            if name not in self.footers:
                _require_small(file.metadata, source.size(), name)
                self.footers[name] = file.metadata
            yield file

    def require_small_checkpoint(self, version: int | None) -> None:
        """Check the size of the checkpoint of a version after decompression, without reading more than its metadata.

        version: None for the newest one.

        Raises:
            TooLargeError: A part of the checkpoint has too many rows or bytes.
            OSError, ValueError, pa.ArrowException: A part cannot be read.
        """
        for name in _newest_checkpoint(self.sizes, version):
            for part in checkpoint_sidecars(self, name):
                with self.parquet(part):
                    pass

    def actions(self, name: str, action: str) -> Iterator[dict[str, Any]]:
        """Yield the actions with one name, such as `protocol`, in a commit or checkpoint.

        Only the lines of a JSON file that contain the name are parsed, one at a time.

        Raises:
            OSError: If the file cannot be read.
            ValueError, RecursionError: If a line is not JSON, or the file is not Parquet.
        """
        if name.endswith(".parquet"):
            with self.parquet(name) as file:
                column = file.read(columns=[action])[action] if action in file.schema_arrow.names else pa.array([])
            yield from column.drop_null().to_pylist()
            return
        head = self.heads.get(name)
        content = self.read(name) if head is None or len(head) == HEAD_BYTES else head
        for line in content.split(b"\n"):
            if f'"{action}"'.encode() not in line:
                continue
            parsed = json.loads(line)
            if isinstance(parsed, dict) and isinstance(found := parsed.get(action), dict):
                yield found


def read_log_file(storage: pa_fs.FileSystem, name: str) -> bytes:
    """Return the content of a file in `_delta_log`. storage: the file system that is rooted at the table."""
    with storage.open_input_stream(f"{LOG}/{name}", compression=None) as stream:
        content: bytes = stream.read()
    return content


def commits_in(names: Iterable[str]) -> dict[int, str]:
    """Return the names of commits among the file names in `_delta_log`, by version."""
    return {int(found[1]): name for name in names if (found := _COMMIT.fullmatch(name))}


def log_segment(names: Iterable[str], version: int) -> LogSegment:
    """Return the log segment of a version, given the names of the files in `_delta_log`.

    Raises:
        TableError: ZL113, if a commit is missing.
    """
    commits = commits_in(names)
    checkpoints: dict[int, list[tuple[str, ...]]] = defaultdict(list)
    parts: dict[tuple[int, int], list[str]] = defaultdict(list)
    for name in names:
        if found := _CLASSIC.fullmatch(name) or _V2.fullmatch(name):
            checkpoints[int(found[1])].append((name,))
        elif found := _PART.fullmatch(name):
            parts[int(found[1]), int(found[3])].append(name)
    for (at, total), found_parts in parts.items():
        if len(found_parts) == total:
            checkpoints[at].append(tuple(sorted(found_parts)))
    base = max((at for at in checkpoints if at <= version), default=-1)
    wanted = range(base + 1, version + 1)
    if missing := [at for at in wanted if at not in commits]:
        raise TableError.of(
            "ZL113",
            f"version {version} requires commit {missing[0]}, which is not in _delta_log",
            hint="run again, because the log may have been cleaned up during the read; if it fails again, restore the "
            "commit",
        )
    chosen = min(checkpoints[base]) if base >= 0 else ()
    return LogSegment(chosen, tuple(commits[at] for at in wanted))


def read_actions(content: bytes, schema: pa.Schema) -> pa.Table:
    """Parse the actions in a commit or JSON checkpoint that the schema names. Other fields and actions are ignored.

    Args:
        content: Lines of JSON. Lines that contain no name of the schema are not parsed.
        schema: Structs by the names of actions. No field has a floating-point type.

    Raises:
        pa.ArrowInvalid: If a line is not JSON, or a value does not have the type of its field. A number with a fraction
            or an exponent is not an integer, even if its value is whole.
    """
    names = [f'"{name}"'.encode() for name in schema.names]
    lines = [line for line in content.split(b"\n") if any(name in line for name in names)]
    if len(lines) <= MAX_LINES_IN_PYTHON:
        # Lines that the json module does not accept are parsed by Arrow, which reads them or raises an error.
        with suppress(ValueError, TypeError, AttributeError, RecursionError, OverflowError):
            parse = partial(json.loads, object_pairs_hook=_without_duplicates, parse_float=_refuse_fraction)
            return pa.Table.from_pylist([parse(line) for line in lines], schema)
    text = b"\n".join(lines)
    block = max(_JSON_BLOCK, len(text)) if len(text) < 1 << 30 else 1 << 30
    return pa_json.read_json(
        pa.BufferReader(text),
        read_options=pa_json.ReadOptions(use_threads=len(text) > block, block_size=block),
        parse_options=pa_json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
    )


def _newest_checkpoint(names: Iterable[str], version: int | None) -> list[str]:
    found: dict[int, list[str]] = defaultdict(list)
    for name in names:
        if match := _CLASSIC.fullmatch(name) or _V2.fullmatch(name) or _PART.fullmatch(name):
            found[int(match[1])].append(name)
    complete = (
        at
        for at, files in found.items()
        if (version is None or at <= version)
        and any(not (part := _PART.fullmatch(name)) or len(files) >= int(part[3]) for name in files)
    )
    return sorted(found.get(max(complete, default=-1), ()))


def _require_small(footer: pq.FileMetaData, size: int, name: str) -> None:
    rows, unpacked = MIN_ROWS + size // BYTES_PER_ROW, MIN_UNPACKED_BYTES + MAX_RATIO * size
    if footer.num_rows > rows:
        raise TooLargeError(f"{name}, which has {size:,} bytes,", rows, "rows")
    if sum(footer.row_group(at).total_byte_size for at in range(footer.num_row_groups)) > unpacked:
        raise TooLargeError(f"{name}, which has {size:,} bytes, after decompression", unpacked)


def checkpoint_sidecars(log: LogFiles, name: str) -> list[str]:
    """Return the paths of the sidecars of a checkpoint file, relative to the folder of the log."""
    if name.endswith(".json"):
        return [*map(sidecar_name, json_sidecars(log.read(name)))]
    with log.parquet(name) as file:
        return [*map(sidecar_name, parquet_sidecars(file))]


def json_sidecars(content: bytes) -> list[str]:
    """Return the paths of the sidecars of a JSON checkpoint, as it stores them."""
    return _paths(read_actions(content, _SIDECAR)["sidecar"])


def parquet_sidecars(file: pq.ParquetFile) -> list[str]:
    """Return the paths of the sidecars of a Parquet checkpoint, as it stores them."""
    return _paths(file.read(columns=["sidecar.path"])["sidecar"]) if "sidecar" in file.schema_arrow.names else []


def sidecar_name(path: str) -> str:
    """Return the name of a sidecar below the folder of the log. path: Some writers store absolute paths."""
    return f"{SIDECARS}/{path.rpartition('/')[2]}"


def _paths(sidecars: pa.ChunkedArray) -> list[str]:
    found: list[str] = pc.struct_field(sidecars.combine_chunks(), "path").drop_null().to_pylist()
    return found


def _refuse_fraction(text: str) -> None:
    """Raise ValueError, because pyarrow would round the number to an integer."""
    raise ValueError(f"expected an integer, found {text}")


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("duplicate key")
    return found
