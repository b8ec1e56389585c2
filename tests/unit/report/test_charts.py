"""Charts as SVG: positions and ticks by hand, areas of a treemap, and text that is markup."""

import random
import re
from itertools import combinations
from xml.etree import ElementTree

import pytest

from zlayout.planner.run_report import Boxes, StripBin
from zlayout.report.html import TREEMAP_SIZE, bars, file_map, lines, partition_strip, treemap

SVG = "{http://www.w3.org/2000/svg}"


def texts(drawn: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(drawn).iter(f"{SVG}text")]


def filled(drawn: str, fill: str) -> list[tuple[float, float, float, float]]:
    """Left, top, width and height of each box of a colour."""
    found = [e.attrib["d"] for e in ElementTree.fromstring(drawn).iter(f"{SVG}path") if e.get("fill") == fill]
    parsed = [re.fullmatch(r"M([\d.-]+),([\d.-]+)h([\d.-]+)v([\d.-]+)h-?[\d.]+Z", path) for path in found]
    return [tuple(map(float, match.groups())) for match in parsed if match]  # type: ignore[misc]


def test_a_file_is_a_box_whose_lower_bounds_are_at_the_left_and_below() -> None:
    drawn = file_map(Boxes((100, 300, 0, 1000), 1), ["a", "b"], "after")
    assert filled(drawn, "var(--after)") == [(25, 0, 50, 250)]
    assert texts(drawn) == ["a", "b"]
    assert file_map(Boxes((), 0), ["a"], "now") == ""


def test_bars_of_now_and_after_are_side_by_side_over_whole_numbers() -> None:
    drawn = bars([("1", 1), ("2", 3)], [("1", 2), ("2", 0)], "touched", 220)
    assert filled(drawn, "var(--before)") == [(20, 80, 40, 40), (120, 0, 40, 120)]
    assert filled(drawn, "var(--after)") == [(60, 40, 40, 80)]
    assert texts(drawn) == ["0", "1", "2", "3", "1", "2", "touched", "files"]
    assert bars([("1", 0)], [], "touched") == ""


@pytest.mark.parametrize(
    ("most", "ticks"),
    [(1, "0 1"), (17, "0 5 10 15 20"), (2_400, "0 500 1k 1.5k 2k 2.5k"), (3_000_000, "0 1M 2M 3M")],
)
def test_ticks_are_round_numbers(most: int, ticks: str) -> None:
    assert " ".join(texts(bars([("1", most)], [], "x"))[:-3]) == ticks


@pytest.mark.parametrize(
    ("values", "ticks"),
    [
        ((4.4, 24), "5 6 7 8 9 10 20"),
        ((1, 1), "1"),
        ((1, 2000), "1 10 100 1k"),
        ((101, 118), "105 110 115"),
        ((3, 200), "5 10 20 50 100 200"),
    ],
)
def test_levels_of_a_line_are_logarithmic(values: tuple[float, float], ticks: str) -> None:
    shown = texts(lines({"a": list(enumerate(values))}, "runs", "touched"))
    assert " ".join(shown[:-5]) == ticks
    assert shown[-5:] == ["0", "1", "a", "runs", "touched"]


def test_labels_without_space_are_left_out() -> None:
    shown = texts(lines({"a": [(n, 2.0) for n in range(100, 200)]}, "runs", "touched"))
    assert shown[1:4] == ["100", "108", "116"]


def test_partitions_with_files_to_rewrite_have_a_mark() -> None:
    drawn = partition_strip([StripBin("p", 1, 1, 0, 1.0), StripBin("q", 1, 1, 5, 9.0)])
    assert len(filled(drawn, "var(--heat-0)")) == len(filled(drawn, "var(--heat-5)")) == 1
    ((left, top, _, _),) = filled(drawn, "var(--after)")
    assert (left, top) == (filled(drawn, "var(--heat-5)")[0][0], 28)


@pytest.mark.parametrize("count", [1, 2, 7, 300])
def test_tiles_cover_the_treemap_by_their_areas_and_do_not_overlap(count: int) -> None:
    numbers = random.Random(count)
    tiles = [(numbers.random() ** 3 + 0.02, "red", str(n)) for n in range(count)]
    found = filled(treemap(tiles), "red")
    whole = TREEMAP_SIZE[0] * TREEMAP_SIZE[1]
    for tile, (left, top, width, height) in zip(tiles, found, strict=True):
        assert 0 <= left <= left + width <= TREEMAP_SIZE[0]
        assert 0 <= top <= top + height <= TREEMAP_SIZE[1]
        area = tile[0] / sum(each[0] for each in tiles) * whole
        assert (width + 1) * (height + 1) == pytest.approx(area, rel=0.25, abs=80)
    for one, other in combinations(found, 2):
        apart = (one[0] + one[2] <= other[0], other[0] + other[2] <= one[0])
        assert any(apart) or one[1] + one[3] <= other[1] or other[1] + other[3] <= one[1]


def test_a_tile_without_area_is_there() -> None:
    assert treemap([(0, "red", "a"), (0, "red", "b")]).count("<path") == 2
    assert treemap([(1, "red", "a"), (0, "red", "b")]).count("<path") == 2


@pytest.mark.parametrize("name", ["<script>", "a & b", '"x"', "\ufffe", "\x1b[0m", "\u202e", "]]>", "n" * 100])
def test_a_name_is_text_and_no_markup(name: str) -> None:
    drawn = [
        file_map(Boxes((0, 10, 0, 10), 1), [name], "now"),
        bars([(name, 1)], [], name),
        lines({name: [(1, 2.0)]}, name, name),
        treemap([(1, "red", name)]),
    ]
    for each in drawn:
        each = each.replace("\ufffe", "?")  # not allowed in XML, but in a page
        tags = {element.tag.removeprefix(SVG) for element in ElementTree.fromstring(each).iter()}
        assert tags <= {"svg", "g", "path", "text", "title", "circle"}
        assert not set(each) & {"\x1b", "\u202e"}
        assert all(len(text) <= 32 for text in texts(each))
