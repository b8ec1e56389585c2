"""Find the files of a table that are outside of its location.

Whoever writes the metadata of a table can name files of other tables in it. zlayout may be able to read these files
although the writer cannot. Therefore it reads and rewrites only files below the location of the table, and below the
locations that its catalog permits.

A path that readers interpret differently counts as outside. Object stores do not resolve `..`, and Hadoop does. Some
parsers of URIs remove control characters and outer spaces, and read `\\` as `/`. Local links are resolved. A local pipe
or device, which may never end, counts as outside too.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zlayout.errors import Diagnostic
from zlayout.table.location import canonical, spellings
from zlayout.table.state import Bools
from zlayout.text import escape_unprintable, first_of, plural

CODE = "ZL242"
MAX_PLACES = 3  # locations that a message names
MAX_FILES_FOR_PLACES = 1000  # files from whose paths these locations are derived
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
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


def find_outside(paths: pa.Array, location: str, permitted: Sequence[str] = (), *, uris: bool = False) -> Outside:
    """Find the files that are outside of the location of a table.

    Args:
        paths: string[N], as in the metadata.
        location: The location of the table.
        permitted: Other locations in which the table may have files.
        uris: Whether the paths are URIs, escaped and possibly relative to the location, as in Delta. If not, they are
            absolute and not escaped, as in Iceberg.
    """
    files, refused = np.zeros(len(paths), bool), np.zeros(len(paths), bool)
    if not len(paths):
        return Outside(files, refused)
    table = _area(location)
    below = _plainly_below(_Paths(paths, uris), table)
    if below.all():
        return Outside(files, refused)
    unclear, others = np.flatnonzero(~below), [_area(other) for other in permitted]
    for other in others:
        if len(unclear) and not other.is_local:
            below = _prefixed(_Paths(paths.take(pa.array(unclear)), uris), other)
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
    areas = [_area(location) for location in locations]
    for area in areas:
        part = area.part(file)
        if part is not None and not (area.is_local and area.has_links(part)):
            return True
    found = _resolved(file)
    return found is not None and any(area.contains(found) for area in areas)


def leaves(location: str) -> bool:
    """Return whether readers interpret a location differently, for example because a part of it is `..`."""
    return (".." in location or not location.isprintable()) and re.search(_LEAVING, location) is not None


class Counted(NamedTuple):
    """The number of files outside of the location of a table, and ZL242 if its catalog does not permit some of them."""

    number: int
    refusals: tuple[Diagnostic, ...]


def counted(found: Sequence[Outside], location: str, catalog: str) -> Counted:
    """Count the files that are outside of a location. catalog: The name of the catalog."""
    refused = sum(int(each.refused.sum()) for each in found)
    places = frozenset[str]().union(*(each.places for each in found))
    reasons = (refusal(files_text(refused), location, places, catalog),) if refused else ()
    return Counted(sum(int(each.files.sum()) for each in found), reasons)


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


def files_text(count: int) -> str:
    """Return a count of files with a verb, for `refusal`."""
    return f"{plural(count, 'file')} {'is' if count == 1 else 'are'}"


@dataclass(frozen=True)
class _Area:
    location: str

    @cached_property
    def root(self) -> str:
        return canonical(self.location).rstrip("/")

    @cached_property
    def is_local(self) -> bool:
        return _SCHEME.match(self.root) is None

    @cached_property
    def prefixes(self) -> tuple[str, ...]:
        return tuple(f"{text}/" for text in spellings(self.root))

    def contains(self, file: str) -> bool:
        """Return whether a file is below the location. file: from `_resolved`."""
        real = os.path.realpath(self.root or "/").rstrip("/") if self.is_local else self.root
        return file.startswith(f"{real}/") and (self.is_local or not leaves(file[len(real) :]))

    def part(self, path: str) -> str | None:
        """Return the part of a path, which is not escaped, below the location; None if it may not be below."""
        prefix = next((each for each in self.prefixes if path.startswith(each)), None)
        part = None if prefix is None else path[len(prefix) :]
        return None if part is None or leaves(part) else part

    def has_links(self, path: str) -> bool:
        """Return whether a part of a relative path below a local location is a link, a pipe or a device."""
        at = self.root
        for part in filter(None, path.split("/")):
            at = f"{at}/{part}"
            try:
                if not _is_plain(os.lstat(at).st_mode):
                    return True
            except (OSError, ValueError):
                return False  # there is no such file, so that it cannot be read
        return False

    def has_links_in(self, folder: str) -> bool:
        """Return whether a folder below a local location is reached through a link, or contains one or a pipe."""
        if self.has_links(folder):
            return True
        try:
            with os.scandir(f"{self.root}/{folder}") as entries:
                return any(not is_plain(entry) for entry in entries)
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return False  # there is no such folder, so that its files cannot be read
        except OSError:
            return True  # it may be forbidden to list the folder, and not to read its files


@lru_cache(maxsize=256)
def _area(location: str) -> _Area:
    return _Area(location)


class _Paths:
    def __init__(self, array: pa.Array, uris: bool) -> None:
        self.array, self.uris = array, uris
        buffer = array.buffers()[2]
        # The bytes of the paths without separators. Those of a slice contain the other paths of its array too.
        self.content = b"" if buffer is None else buffer.to_pybytes()

    @cached_property
    def absolute(self) -> Bools:
        """bool[N], whether a URI is not a relative path."""
        found = np.zeros(len(self.array), bool)
        if b"/" in self.content:
            found |= _bools(pc.starts_with(self.array, "/"))
        if b":" in self.content:
            found |= _bools(pc.match_substring_regex(self.array, f"^{_SCHEME.pattern}"))
        return found

    @cached_property
    def leaving(self) -> Bools:
        """bool[N], whether a path may lead out of a folder."""
        single = self.content.translate(None, _BYTES_IN_URI if self.uris else _BYTES)
        marks = _MARKS_IN_URI if self.uris else _MARKS
        if len(single) == len(self.content) and not any(mark in self.content for mark in marks):
            return np.zeros(len(self.array), bool)
        return _bools(pc.match_substring_regex(self.array, _LEAVING_IN_URI if self.uris else _LEAVING))


def _plainly_below(paths: _Paths, table: _Area) -> Bools:
    """Return the files that are below the location of the table by every interpretation of their paths."""
    below = _prefixed(paths, table)
    if paths.uris:
        below |= ~paths.absolute & ~paths.leaving
    return below & ~_near_links(paths, table) if table.is_local and below.any() else below


def _prefixed(paths: _Paths, area: _Area) -> Bools:
    found = np.zeros(len(paths.array), bool)
    if paths.uris and not paths.absolute.any():
        return found
    for prefix in area.prefixes:
        found |= _bools(pc.starts_with(paths.array, prefix))
        if found.all():
            break
    return found & ~paths.leaving


def _near_links(paths: _Paths, table: _Area) -> Bools:
    if b"/" not in paths.content:
        return np.full(len(paths.array), table.has_links_in(""))
    encoded = pc.replace_substring_regex(paths.array, "[^/]*$", "").dictionary_encode()
    links = [table.has_links_in(_below(folder, paths, table)) for folder in encoded.dictionary.to_pylist()]
    found: Bools = np.array(links, bool)[encoded.indices.to_numpy()]
    return found


def _below(folder: str, paths: _Paths, table: _Area) -> str:
    prefix = next((each for each in table.prefixes if folder.startswith(each)), "")
    return unquote(folder[len(prefix) :]) if paths.uris else folder[len(prefix) :]


def _resolved_uri(uri: str, table: _Area) -> str | None:
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
        real = os.path.realpath(file)
        return real if _is_plain(os.stat(real).st_mode) else None
    except FileNotFoundError:
        return real
    except (OSError, ValueError):
        return None


def is_plain(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry of a folder is a file or a folder, and not a link, a pipe or a device."""
    return entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False)


def _is_plain(mode: int) -> bool:
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode)


def _place(file: str) -> str:
    """Return the folder of a file, without partitions, whose names are values of rows, and without `..`."""
    parts = file.split("/")[:-1]
    return "/".join(parts[: next((n for n, part in enumerate(parts) if "=" in part or part == ".."), len(parts))])


def _bools(found: pa.Array) -> Bools:
    values: Bools = found.to_numpy(zero_copy_only=False)
    return values
