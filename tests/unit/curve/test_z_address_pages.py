"""The example in docs/curves.md: what it prints is what the page shows, and the counts are right."""

from pathlib import Path

import numpy as np
import pytest
import z_address_pages as example

from zlayout.curve.zorder import interleave, round_robin

ROOT = Path(__file__).parents[3]


def pages_that_hold_a_point(low: tuple[int, int], high: tuple[int, int]) -> tuple[int, int, int]:
    """Pages from the box's first corner to its last, pages with a point in the box, and points in the box."""
    x, y = np.random.default_rng(7).integers(0, 1024, (2, example.POINTS))
    schedule = round_robin((10, 10))
    z = interleave([x, y], (10, 10), schedule)
    order = np.argsort(z)
    x, y, z = x[order], y[order], z[order]
    corners = interleave([np.array([low[0], high[0]]), np.array([low[1], high[1]])], (10, 10), schedule)
    page = np.arange(example.POINTS) // example.ADDRESSES_PER_PAGE
    between = page[(z >= corners[0]) & (z <= corners[1])]
    inside = (x >= low[0]) & (x <= high[0]) & (y >= low[1]) & (y <= high[1])
    return len(set(between.tolist())), len(set(page[inside].tolist())), int(inside.sum())


def test_jumps_read_far_fewer_pages_than_a_range_scan(capsys: pytest.CaptureFixture[str]) -> None:
    results = example.main()
    between, needed, inside = pages_that_hold_a_point(example.LOWEST, example.HIGHEST)
    assert {found for _, found in results.values()} == {inside}
    scanned, jumped, listed = (read for read, _ in results.values())
    # a page more at the start, where the sparse index cannot tell whether the address is on the page before
    assert between <= scanned <= between + 1
    # pages that the curve runs through inside the box without a point on it are read for nothing
    assert needed <= jumped <= 1.3 * needed
    assert jumped <= listed < scanned / 3
    assert capsys.readouterr().out.strip() in (ROOT / "docs/curves.md").read_text()
