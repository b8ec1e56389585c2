"""Convert storage locations to a canonical form, in which they can be compared."""

from __future__ import annotations

import os
import re
from functools import lru_cache

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+)://([^/]*)(.*)", re.DOTALL)
GCS_SCHEME = "gs"
S3_SCHEMES = frozenset({"s3", "s3a", "s3n"})
# The environment variables in which AWS tools find the URL of a store other than AWS. The first one that is set counts.
S3_ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_SCHEMES = {**dict.fromkeys(S3_SCHEMES, "s3"), "abfs": "abfss", "wasb": "wasbs"}


@lru_cache(maxsize=1024)
def canonical(location: str) -> str:
    """The canonical form: equal for `file:/a`, `file:///a/` and `/a`, and for `s3a://b/t` and `s3://b/t/`.

    A file URI with a host stays a URI.
    """
    text = re.sub(r"^file:(?!//[^/])/*(?=/)", "", location, flags=re.IGNORECASE)
    url = _URL.fullmatch(text)
    if url is None:
        return re.sub(r"(?<=.)/+$", "", text)
    scheme = url[1].lower()
    return f"{_SCHEMES.get(scheme, scheme)}://{url[2]}{url[3].rstrip('/')}"


def spellings(location: str) -> tuple[str, ...]:
    """The forms of a canonical location that metadata of tables has: with each scheme of the same object store."""
    url = _URL.fullmatch(location)
    if url is None:
        return (location, f"file:{location}", f"file://{location}") if location.startswith("/") else (location,)
    same = (scheme for scheme, other in _SCHEMES.items() if other == url[1] != scheme)
    return tuple(f"{scheme}://{url[2]}{url[3]}" for scheme in (url[1], *same))


def container(location: str) -> str:
    """The bucket, host or file system of a location: `s3://bucket` for a URL, `/` for a local path, '' if unknown.

    Two locations in one container with different canonical forms are different, unless a link connects them.
    """
    url = _URL.fullmatch(canonical(location))
    if url is not None:
        return f"{_SCHEMES.get(url[1], url[1])}://{url[2]}" if url[2] else ""
    return "/" if os.path.isabs(location) or location.lower().startswith("file:") or ":" not in location else ""
