"""Size-limited, strict readers for untrusted files and JSON."""

from __future__ import annotations

import errno
import io
import json
import math
import os
import stat
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, BinaryIO, Protocol

# The size of the JSON in one metadata file or in one response of a service, after decompression, and the number of its
# values. A parsed value may take 350 bytes, and the shortest takes 3 bytes of the file.
MAX_METADATA_BYTES = 128 << 20
MAX_METADATA_VALUES = 4_000_000
MAX_LISTED_BYTES = 512 << 20  # of all names in a catalog together, some hundred bytes for each table
GZIP, DEFLATE = 31, -15  # `wbits` of zlib
_INFLATED_PART = 1 << 20


class SupportsRead(Protocol):
    """A stream of bytes."""

    def read1(self, size: int, /) -> bytes:
        """Return at most `size` bytes, with as few reads as possible, and none at the end of the stream."""
        ...


def open_file(path: Path) -> BinaryIO:
    """Open a regular file for reading.

    Raises:
        IsADirectoryError: The path is not a regular file. A pipe would block, and a device may never end.
        OSError: The file cannot be opened, or its path contains the character 0.
    """
    require_usable_path(path)
    if not stat.S_ISREG(path.stat().st_mode):
        raise IsADirectoryError(errno.EISDIR, "expected a file, found a folder or a device", str(path))
    # Without O_NONBLOCK this would block if the file was concurrently replaced with a pipe.
    return os.fdopen(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0)), "rb")


def require_usable_path(path: Path) -> None:
    """Raise OSError for a path that contains the character 0, for which Python itself raises ValueError."""
    if "\0" in str(path):
        raise OSError(errno.EINVAL, "the path contains the character 0", str(path))


def read_at_most(path: Path, limit: int) -> bytes:
    """At most the first `limit` bytes of a file. Raises the errors of `open_file`."""
    with open_file(path) as file:
        return file.read(limit)


class TooLargeError(ValueError):
    """Untrusted data is larger than zlayout reads."""

    def __init__(self, what: str, limit: int, unit: str = "bytes") -> None:
        super().__init__(f"{what} has more than {limit:,} {unit}, the limit of zlayout")


def joined(parts: Iterable[bytes], limit: int, what: str) -> bytes:
    """Join the parts of an untrusted response. Raises TooLargeError once they have more than `limit` bytes."""
    content = bytearray()
    for part in parts:
        content += part
        if len(content) > limit:
            raise TooLargeError(what, limit)
    return bytes(content)


def require_parsable(document: bytes | bytearray, what: str) -> None:
    """Check the size of untrusted JSON before it is parsed.

    Raises:
        TooLargeError: It has more than MAX_METADATA_BYTES.
        ValueError: It has more than MAX_METADATA_VALUES, by the number of its commas.
    """
    if len(document) > MAX_METADATA_BYTES:
        raise TooLargeError(what, MAX_METADATA_BYTES)
    if document.count(b",") > MAX_METADATA_VALUES:
        raise ValueError(f"{what} has more than {MAX_METADATA_VALUES:,} values, the limit of zlayout")


def inflated(data: bytes, limit: int, wbits: int, what: str) -> bytes:
    """Decompress data of zlib, of which gzip may have several members.

    Args:
        data: The compressed data.
        limit: The largest number of bytes after decompression. No more are decompressed.
        wbits: GZIP or DEFLATE.
        what: The name of the data for the error.

    Raises:
        TooLargeError: There are more bytes.
        ValueError: The data is damaged or incomplete.
    """
    found = bytearray()
    while True:
        one = zlib.decompressobj(wbits)
        try:
            while not one.eof:
                part = one.decompress(data, min(_INFLATED_PART, limit + 1 - len(found)))
                found += part
                if len(found) > limit:
                    raise TooLargeError(what, limit)
                data = one.unconsumed_tail
                if not part and not data and not one.eof:
                    raise ValueError(f"{what} is incomplete")
        except zlib.error as error:
            raise ValueError(f"{what} cannot be decompressed: {error}") from error
        data = one.unused_data.lstrip(b"\0")
        if wbits != GZIP or not data:
            return bytes(found)


def parse_json(text: str, record: Callable[[list[tuple[str, Any]]], Any] = dict) -> Any:
    """Parse JSON text strictly.

    Args:
        text: one JSON value.
        record: converts the (key, value) pairs of each JSON object to the object that is returned for it.

    Raises:
        ValueError: Invalid JSON, too deep nesting, an integer of more than 64 bits, or a number that is not finite.
    """
    try:
        return json.loads(
            text, parse_int=_integer, parse_float=_number, parse_constant=_number, object_pairs_hook=record
        )
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


def _integer(text: str) -> int:
    if len(text) > 20 or not -(2**63) <= int(text) < 2**63:
        raise ValueError(f"a number of more than 64 bits: {text[:25]}")
    return int(text)


def _number(text: str) -> float:
    if not math.isfinite(number := float(text)):
        raise ValueError(f"not a finite number: {text[:25]}")
    return number


class LimitedStream(io.RawIOBase):
    """Reads at most `limit` bytes of another stream, such as one that decompresses a file, and then raises an error.

    Reading raises TooLargeError if there are more bytes, and the errors of the other stream.
    """

    def __init__(self, stream: SupportsRead, limit: int, what: str) -> None:
        self._stream, self._left, self._limit, self._what = stream, limit, limit, what

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._stream.read1(min(len(buffer), self._left + 1))
        self._left -= len(data)
        if self._left < 0:
            raise TooLargeError(self._what, self._limit)
        buffer[: len(data)] = data
        return len(data)
