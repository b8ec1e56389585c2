"""Find the files of a table that are outside of its location.

Whoever writes the metadata of a table can name files of other tables in it. zlayout may be able to read these files
although the writer cannot. Therefore it reads and rewrites only files below the location of the table, and below the
locations that its catalog permits.

A path that readers interpret differently counts as outside. Object stores do not resolve `..`, and Hadoop does. Some
parsers of URIs remove control characters and outer spaces, and read `\\` as `/`. Local links are resolved.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zlayout.errors import Diagnostic
from zlayout.message_text import escape_unprintable, first_of, plural
from zlayout.table.location import canonical, spellings
from zlayout.table.state import Bools

CODE = "ZL242"
MAX_PLACES = 3  # locations that a message names
MAX_FILES_FOR_PLACES = 1000  # files from whose paths these locations are derived
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_SEPARATORS = re.compile(r"[/\\]")
# Paths that readers interpret differently. A URI ends at `?` or `#`.
_UNCLEAR = re.compile(r"[\x00-\x1f\x7f]")
_UNCLEAR_URI = re.compile(r"[\x00-\x1f\x7f?#\\]|^ | $")
# Parts of a path that may lead out of a folder. In a URI, they may be escaped.
_LEAVING = rf"(^|[/\\])\.\.([/\\]|$)|{_UNCLEAR.pattern}"
_LEAVING_IN_URI = rf"(?i)(^|[/\\]|%2f|%5c)(\.|%2e)(\.|%2e)([/\\]|%2f|%5c|$)|{_UNCLEAR_URI.pattern}"
# A path without any of these bytes does not match the expression. To search the bytes of all paths is much faster.
_MARKS, _MARKS_IN_URI = (b"..",), (b"..", b"%2e", b"%2E")
_BYTES = bytes(range(32)) + b"\x7f"
_BYTES_IN_URI = _BYTES + b" ?#\\"


class Outside(NamedTuple):
    """Which of N files are outside of the location of their table.

    Attributes:
        files: bool[N], whether the file is outside.
        refused: bool[N], whether it is also outside of all permitted locations.
        places: The folders of refused files, without partitions.
    """

    files: Bools
    refused: Bools
    places: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Area:
    """The files below one location."""

    location: str

    @cached_property
    def root(self) -> str:
        return canonical(self.location).rstrip("/")

    @cached_property
    def is_local(self) -> bool:
        return _SCHEME.match(self.root) is None

    @cached_property
    def real(self) -> str:
        """The root, with local links resolved."""
        return os.path.realpath(self.root or "/").rstrip("/") if self.is_local else self.root

    def contains(self, file: str) -> bool:
        """Return whether a file is below the location. file: from `_resolved`."""
        if not file.startswith(f"{self.real}/"):
            return False
        return self.is_local or ".." not in _SEPARATORS.split(file[len(self.real) :])


def find_outside(paths: pa.Array, location: str, permitted: Sequence[str] = (), *, uris: bool = False) -> Outside:
    """Find the files that are outside of the location of a table.

    Args:
        paths: string[N], as in the metadata.
        location: The location of the table.
        permitted: Other locations in which the table may have files.
        uris: Whether the paths are URIs, escaped and possibly relative to the location, as in Delta. If not, they are
            absolute and not escaped, as in Iceberg.
    """
    table, others = _Area(location), [_Area(other) for other in permitted]
    unclear = np.flatnonzero(~_plainly_below(paths, table, uris=uris))
    files, refused = np.zeros(len(paths), bool), np.zeros(len(paths), bool)
    for other in others:
        if len(unclear) and not other.is_local:
            below = _prefixed(paths.take(pa.array(unclear)), other, uris=uris)
            files[unclear[below]] = True
            unclear = unclear[~below]
    places: set[str] = set()
    for at, path in zip(unclear.tolist(), paths.take(pa.array(unclear)).to_pylist(), strict=True):
        file = _resolved_uri(path, table) if uris else _resolved(path)
        files[at] = file is None or not table.contains(file)
        refused[at] = files[at] and (file is None or not any(other.contains(file) for other in others))
        if refused[at] and file is not None and len(places) < MAX_FILES_FOR_PLACES:
            places.add(_place(file))
    return Outside(files, refused, frozenset(places))


def is_below(file: str, locations: Sequence[str]) -> bool:
    """Return whether a file is below one of the locations. file: An absolute path or a URL, not escaped."""
    found = _resolved(file)
    return found is not None and any(_Area(location).contains(found) for location in locations)


def refusal(what: str, location: str, places: Iterable[str], catalog: str) -> Diagnostic:
    """Return ZL242.

    Args:
        what: What is outside of the location, as the beginning of a sentence with its verb.
        location: The location of the table.
        places: Where it is; empty if unknown.
        catalog: The name of the catalog.
    """
    shown = [f"'{escape_unprintable(place)}'" for place in sorted(places)]
    below = f", below {first_of(shown, MAX_PLACES)}" if shown else ""
    return Diagnostic(
        CODE,
        f"{what} outside of the table's location '{escape_unprintable(location)}'{below}",
        "refused",
        f"remove them from the table; if it may use them, add their location to catalogs.{catalog}.file_locations",
    )


def files_text(count: int, noun: str = "file") -> str:
    """Return a count of files with a verb, for `refusal`."""
    return f"{plural(count, noun)} {'is' if count == 1 else 'are'}"


def _plainly_below(paths: pa.Array, table: _Area, *, uris: bool) -> Bools:
    """Return the files, bool[N], that are below the location of the table by every interpretation of their paths."""
    below = _prefixed(paths, table, uris=uris)
    if uris:
        below |= ~_absolute(paths) & ~_leaving(paths, uris=True)
    if table.is_local:
        chosen = np.flatnonzero(below)
        below[chosen[_near_links(paths.take(pa.array(chosen)), table, uris=uris)]] = False
    return below


def _prefixed(paths: pa.Array, area: _Area, *, uris: bool) -> Bools:
    """Return the absolute paths, bool[N], that begin with the location and do not leave it."""
    if uris and not _absolute(paths).any():
        return np.zeros(len(paths), bool)
    found = np.zeros(len(paths), bool)
    for prefix in spellings(area.root):
        if found.all():
            break
        found |= _bools(pc.starts_with(paths, f"{prefix}/"))
    return found & ~_leaving(paths, uris=uris)


def _absolute(paths: pa.Array) -> Bools:
    """Return the URIs, bool[N], that are not relative paths."""
    found = _bools(pc.starts_with(paths, "/"))
    if b":" in _content(paths):
        found |= _bools(pc.match_substring_regex(paths, f"^{_SCHEME.pattern}"))
    return found


def _leaving(paths: pa.Array, *, uris: bool) -> Bools:
    """Return the paths, bool[N], that may lead out of a folder."""
    content = _content(paths)
    single = content.translate(None, _BYTES_IN_URI if uris else _BYTES)
    if len(single) == len(content) and not any(mark in content for mark in (_MARKS_IN_URI if uris else _MARKS)):
        return np.zeros(len(paths), bool)
    return _bools(pc.match_substring_regex(paths, _LEAVING_IN_URI if uris else _LEAVING))


def _near_links(paths: pa.Array, table: _Area, *, uris: bool) -> Bools:
    """Return the files, bool[N], of a local table whose folders contain a link or are reached through a link."""
    folders = pc.replace_substring_regex(paths, "[^/]*$", "") if b"/" in _content(paths) else pa.repeat("", len(paths))
    encoded = folders.dictionary_encode()
    links = [_has_links(unquote(folder) if uris else folder, table) for folder in encoded.dictionary.to_pylist()]
    found: Bools = np.array(links, bool)[encoded.indices.to_numpy()]
    return found


def _has_links(folder: str, table: _Area) -> bool:
    path = os.path.join(table.root or "/", canonical(folder) if folder else "")
    try:
        if not f"{os.path.realpath(path)}/".startswith(f"{table.real}/"):
            return True
        with os.scandir(path) as entries:
            return any(entry.is_symlink() for entry in entries)
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return False  # there is no such folder, so that its files cannot be read
    except OSError:
        return True  # it may be forbidden to list the folder, and not to read its files


def _resolved_uri(uri: str, table: _Area) -> str | None:
    """Return `_resolved` of the path that a URI names, relative to the table or absolute."""
    if _UNCLEAR_URI.search(uri) or uri.startswith("//"):
        return None
    path = unquote(uri)
    absolute = uri.startswith("/") or _SCHEME.match(uri)
    return _resolved(path if absolute else f"{table.root}/{path}")


def _resolved(path: str) -> str | None:
    """Return the canonical form of an absolute path, with local links resolved; None if the path is not valid."""
    if _UNCLEAR.search(path):
        return None
    file = canonical(path)
    if _SCHEME.match(file):
        return file
    try:
        return os.path.realpath(file)
    except (OSError, ValueError):
        return None


def _place(file: str) -> str:
    """Return the folder of a file, without partitions, whose names are values of rows, and without `..`."""
    parts = file.split("/")[:-1]
    return "/".join(parts[: next((n for n, part in enumerate(parts) if "=" in part or part == ".."), len(parts))])


def _content(paths: pa.Array) -> bytes:
    """Return the bytes of the paths without separators. A slice of an array may also have those of its other paths."""
    buffer = paths.buffers()[2]
    return b"" if buffer is None else memoryview(buffer).tobytes()


def _bools(found: pa.Array) -> Bools:
    values: Bools = found.to_numpy(zero_copy_only=False)
    return values
