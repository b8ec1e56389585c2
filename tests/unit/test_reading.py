"""Limits on untrusted data, before it is parsed."""

import gzip
import zlib

import pytest

from zlayout.reading import DEFLATE, GZIP, TooLargeError, inflated

DATA = bytes(range(256)) * 20_000  # more than one part


def deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=DEFLATE)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize("data", [b"", b"a", DATA])
def test_data_within_the_limit_is_decompressed(data: bytes) -> None:
    assert inflated(gzip.compress(data), len(data), GZIP, "x") == data
    assert inflated(deflated(data), len(data), DEFLATE, "x") == data


def test_all_members_of_gzip_are_decompressed_and_counted() -> None:
    members = gzip.compress(b"abc") + gzip.compress(b"def") + b"\0\0"
    assert inflated(members, 6, GZIP, "x") == gzip.decompress(members) == b"abcdef"
    with pytest.raises(TooLargeError):
        inflated(members, 5, GZIP, "x")


@pytest.mark.parametrize("limit", [0, 1, 1000, len(DATA) - 1])
def test_more_data_is_refused(limit: int) -> None:
    for packed, wbits in ((gzip.compress(DATA), GZIP), (deflated(DATA), DEFLATE)):
        with pytest.raises(TooLargeError, match=f"^x has more than {limit:,} bytes"):
            inflated(packed, limit, wbits, "x")


def test_damaged_and_incomplete_data_is_a_value_error() -> None:
    for packed, wbits in ((gzip.compress(DATA), GZIP), (deflated(DATA), DEFLATE)):
        with pytest.raises(ValueError, match="x is incomplete"):
            inflated(packed[:-20], len(DATA), wbits, "x")
        with pytest.raises(ValueError, match="x cannot be decompressed"):
            inflated(b"\xff" * 50, len(DATA), wbits, "x")
