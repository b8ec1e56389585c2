"""Read a query box from a sorted file of z-addresses in three ways, and count the pages that each of them reads.

    python examples/z_address_pages.py

The three ways are a scan from the lowest to the highest corner of the box, a scan that jumps over pages outside the
box, and a scan of each z-range of the box. The file contains 8-byte z-addresses in ascending order and is read page by
page. The reader keeps the first z-address of each page in memory, as an external index does.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from zlayout.curve.zorder import NONE, interleave, is_relevant, next_jump_in, round_robin, z_ranges

Int64 = NDArray[np.int64]
POINTS = 100_000
ADDRESSES_PER_PAGE = 100
BITS = 10  # bits of each of two columns
LOWEST, HIGHEST = (500, 400), (559, 699)  # the corners of the box
MAX_RANGES = 16


@dataclass
class Pages:
    """The file of z-addresses, of which one page is kept in memory.

    Attributes:
        file: The file.
        first: int64[pages], the first z-address of each page.
        read: The number of pages that were read.
        number: The number of the page in memory, -1 if there is none.
        addresses: int64, the z-addresses of this page.
    """

    file: BinaryIO
    first: Int64
    read: int = 0
    number: int = -1
    addresses: Int64 = field(default_factory=lambda: np.zeros(0, np.int64))

    def page_of(self, z: int) -> int:
        """Return the number of the first page that can contain a z-address of at least `z`."""
        return max(0, int(np.searchsorted(self.first, z)) - 1)

    def page(self, number: int) -> Int64:
        """Return the z-addresses of a page, and read it if it is not in memory."""
        if number != self.number:
            self.read += 1
            self.file.seek(8 * ADDRESSES_PER_PAGE * number)
            self.number, self.addresses = number, np.frombuffer(self.file.read(8 * ADDRESSES_PER_PAGE), np.int64)
        return self.addresses


def scan(pages: Pages, first: int, last: int) -> Int64:
    """Return all z-addresses from `first` to `last`, inclusive."""
    found = []
    for number in range(pages.page_of(first), len(pages.first)):
        if pages.first[number] > last:
            break
        page = pages.page(number)
        found.append(page[(page >= first) & (page <= last)])
    return np.concatenate([np.zeros(0, np.int64), *found])


def scan_with_jumps(pages: Pages, zmin: int, zmax: int) -> Int64:
    """Return the z-addresses in the box. After each page, jump to the page where the curve enters the box again."""
    found = []
    number = pages.page_of(zmin)
    while number < len(pages.first):
        page = pages.page(number)
        found.append(page[is_relevant(zmin, zmax, page)])
        number += 1
        if number < len(pages.first) and not is_relevant(zmin, zmax, pages.first[number]):
            entry = int(next_jump_in(zmin, zmax, pages.first[number]))
            if entry == NONE:
                break
            number = max(number, pages.page_of(entry))
    return np.concatenate([np.zeros(0, np.int64), *found])


def main() -> dict[str, tuple[int, int]]:
    """Return, for each way of reading, the number of pages that were read and of z-addresses found in the box."""
    widths = (BITS, BITS)
    schedule = round_robin(widths)
    points = np.random.default_rng(7).integers(0, 1 << BITS, (2, POINTS))
    addresses = np.sort(interleave(list(points), widths, schedule))
    corners = [np.array(sides) for sides in zip(LOWEST, HIGHEST, strict=True)]
    zmin, zmax = interleave(corners, widths, schedule).tolist()
    ranges = list(zip(*z_ranges(zmin, zmax, limit=MAX_RANGES), strict=True))
    ways: dict[str, Callable[[Pages], Int64]] = {
        "range scan": lambda pages: scan(pages, zmin, zmax),
        "jumps": lambda pages: scan_with_jumps(pages, zmin, zmax),
        f"{MAX_RANGES} z-ranges": lambda pages: np.concatenate([scan(pages, *ends) for ends in ranges]),
    }
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "addresses"
        path.write_bytes(addresses.tobytes())
        for name, way in ways.items():
            with path.open("rb") as file:
                pages = Pages(file, addresses[::ADDRESSES_PER_PAGE])
                found = way(pages)
            results[name] = pages.read, int(is_relevant(zmin, zmax, found).sum())
    print(f"{POINTS:,} addresses on {-(-POINTS // ADDRESSES_PER_PAGE):,} pages")
    for name, (read, inside) in results.items():
        print(f"{name:12} {read:4,} pages read, {inside:,} addresses in the box")
    return results


if __name__ == "__main__":
    main()
