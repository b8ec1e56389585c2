"""Decodes Avro within the bytes that were given.

pyiceberg's compiled decoder (0.12) trusts the lengths and counts in a file. With others, it reads the memory of the
process as if it was the file, or ends the process. Therefore each is compared with the bytes that are left.
"""

from __future__ import annotations

from typing import Any

from pyiceberg.avro.decoder import BinaryDecoder, new_decoder

_PADDING = bytes(16)  # in which a number ends whose last byte is missing
_MAX_INT_BYTES = 10
_NO_LAST_BYTE = bytes(range(0x80, 0x100))  # the bytes after which a number continues
_UNSIGNED = 2**64 - 1


class BoundedDecoder(BinaryDecoder):
    """A decoder that raises EOFError instead of reading beyond its data, or before them."""

    def __init__(self, data: bytes) -> None:
        self._end = len(data)
        self._data = data + _PADDING
        self._decoder = new_decoder(self._data)

    def tell(self) -> int:
        return self._decoder.tell()

    def _require(self, count: int) -> None:
        left = self._end - self._decoder.tell()
        if not 0 <= count <= left:
            raise EOFError(f"expected {count} more bytes, found {max(left, 0)}")

    def read(self, n: int) -> bytes:
        self._require(n)
        return self._decoder.read(n)

    def skip(self, n: int) -> None:
        self._require(n)
        self._decoder.skip(n)

    def read_boolean(self) -> bool:
        self._require(1)
        return self._decoder.read_boolean()

    def read_int(self) -> int:
        self._require(1)
        return self._decoder.read_int()

    def read_ints(self, count: int) -> Any:
        """Return unsigned integers of 64 bits, as the compiled decoder does."""
        self._require(count)
        at = self._decoder.tell()
        following = self._data[at : min(at + _MAX_INT_BYTES * count, self._end)]
        if len(following.translate(None, _NO_LAST_BYTE)) >= count:
            return self._decoder.read_ints(count)
        return tuple(self.read_int() & _UNSIGNED for _ in range(count))

    def read_int_bytes_dict(self, count: int, dest: dict[int, bytes]) -> None:
        self._require(2 * count)
        end, decoder = self._end, self._decoder
        tell, read_int, read = decoder.tell, decoder.read_int, decoder.read
        for _ in range(count):  # the loop of `read_int` and `read_bytes`, which takes most of the time for wide tables
            key, length = read_int(), read_int()  # at most in the padding
            if not 0 <= length <= end - tell():
                raise EOFError(f"expected {length} more bytes, found others")
            dest[key] = read(length)

    def read_bytes(self) -> bytes:
        return self.read(self.read_int())

    def read_float(self) -> float:
        self._require(4)
        return self._decoder.read_float()

    def read_double(self) -> float:
        self._require(8)
        return self._decoder.read_double()

    def read_utf8(self) -> str:
        return self.read_bytes().decode("utf-8")

    def skip_boolean(self) -> None:
        self.skip(1)

    def skip_int(self) -> None:
        self._require(1)
        self._decoder.skip_int()

    def skip_float(self) -> None:
        self.skip(4)

    def skip_double(self) -> None:
        self.skip(8)

    def skip_bytes(self) -> None:
        self.skip(self.read_int())

    def skip_utf8(self) -> None:
        self.skip(self.read_int())
