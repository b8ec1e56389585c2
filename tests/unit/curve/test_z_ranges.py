import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zlayout.curve.zorder import interleave, is_relevant, round_robin, z_ranges


def pairs(found: tuple[np.ndarray, np.ndarray]) -> list[tuple[int, int]]:
    return list(zip(found[0].tolist(), found[1].tolist(), strict=True))


def test_the_box_of_the_worked_value() -> None:
    # its positions are 11, 14, 15, 33, 36, 37
    assert pairs(z_ranges(11, 37)) == [(11, 11), (14, 15), (33, 33), (36, 37)]


def test_the_smallest_gaps_go_first_and_of_equal_ones_the_later() -> None:
    assert pairs(z_ranges(11, 37, limit=3)) == [(11, 11), (14, 15), (33, 37)]
    assert pairs(z_ranges(11, 37, limit=2)) == [(11, 15), (33, 37)]
    assert pairs(z_ranges(11, 37, limit=1)) == [(11, 37)]


def cover(box: list[int], limit: int | None) -> list[tuple[int, int]]:
    """Runs of the box's positions, gaps closed one by one."""
    runs: list[tuple[int, int]] = []
    for z in box:
        if runs and runs[-1][1] == z - 1:
            runs[-1] = (runs[-1][0], z)
        else:
            runs.append((z, z))
    while limit is not None and len(runs) > limit:
        at = min(range(len(runs) - 1), key=lambda i: (runs[i + 1][0] - runs[i][1], -i))
        runs[at : at + 2] = [(runs[at][0], runs[at + 1][1])]
    return runs


@given(st.data(), st.lists(st.integers(1, 5), min_size=1, max_size=4), st.none() | st.integers(1, 12))
def test_ranges_are_those_of_brute_force(data: st.DataObject, widths: list[int], limit: int | None) -> None:
    widths = widths if sum(widths) <= 12 else widths[:2]
    schedule = tuple(data.draw(st.permutations(round_robin(widths))))
    corners = [sorted(data.draw(st.tuples(*[st.integers(0, 2**w - 1)] * 2))) for w in widths]
    zmin, zmax = (int(interleave([np.array([c[i]]) for c in corners], widths, schedule)[0]) for i in (0, 1))
    box = np.flatnonzero(is_relevant(zmin, zmax, np.arange(2 ** len(schedule)), schedule)).tolist()
    assert pairs(z_ranges(zmin, zmax, schedule, limit)) == cover(box, limit)


def test_a_limit_keeps_the_work_small_however_large_the_surface() -> None:
    widths = [31, 31]
    schedule = round_robin(widths)
    low, high = ([np.array([v]), np.array([v + 5])] for v in (123_456_789, 1_987_654_321))
    first, last = z_ranges(
        int(interleave(low, widths, schedule)[0]), int(interleave(high, widths, schedule)[0]), schedule, 64
    )
    # without a limit this box has some 2**30 ranges
    assert len(first) == len(last) == 64
    assert (first[1:] > last[:-1] + 1).all()


def test_the_whole_grid_is_one_range() -> None:
    assert pairs(z_ranges(0, 2**63 - 1, round_robin([21] * 3))) == [(0, 2**63 - 1)]


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(ValueError, match="limit of at least 1"):
        z_ranges(11, 37, limit=0)
    with pytest.raises(ValueError, match="12 above 35"):
        z_ranges(12, 35)
