"""The figures of one table on the HTML page: maps of its files, and histograms before and after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from zlayout.message_text import plural
from zlayout.planner.model import TablePlan
from zlayout.planner.picture import Boxes, Picture
from zlayout.planner.result import TableResult
from zlayout.report import charts

Figure = dict[str, Any]
Histogram = Sequence[tuple[str, int]]
_ILLUSTRATION = (
    ". This picture is made from the bounds of the present files, as if their columns were independent; "
    "`zlayout plan --sample` makes it from rows"
)


def charts_of(table: TablePlan, result: TableResult | None, picture: Picture | None) -> list[Figure]:
    """Return the figures in the order of the page, with `svg` as markup and `alt` and `caption` as text.

    A figure of kind `compare` has the maps `before` and `after` instead of `svg`. The page has a slider between them.
    """
    maps = [figure for figure in _maps(result, picture) if figure["svg"]]
    if len(maps) == 2 and picture is not None and (picture.sampled or (result and result.boxes)):
        before, after = maps
        caption = f"Before: {before['drawn']}. After: {after['drawn']}. A {after['meaning']}"
        sides = {"before": before, "after": after}
        maps = [{"kind": "compare", "title": "Files before and after", "caption": caption, **sides}]
    return [*maps, *(figure for figure in _histograms(table, result, picture) if figure["svg"])]


def _maps(result: TableResult | None, picture: Picture | None) -> Iterator[Figure]:
    if picture is None:
        return
    measured = result.boxes if result else None
    after = measured or picture.after
    yield _map("Files before" if after else "Files now", picture, picture.before, "now")
    if after:
        source = "measured" if measured else "from the sample" if picture.sampled else "an illustration"
        figure = _map(f"Files after, {source}", picture, after, "after")
        if not (measured or picture.sampled):
            figure["caption"] += _ILLUSTRATION
        yield figure


def _map(title: str, picture: Picture, boxes: Boxes, color: str) -> Figure:
    over = " and ".join(picture.columns)
    one, drawn = "one file", f"all {plural(boxes.files, 'file')}"
    if boxes.coarse:
        one = f"about {boxes.files / max(boxes.count, 1):.0f} neighbouring files"
        drawn = f"{boxes.count:,} boxes for about {boxes.files:,} files"
    elif boxes.count < boxes.files:
        drawn = f"a sample of {boxes.count:,} of {boxes.files:,} files"
    drawn += f" of {picture.partition}" if picture.partition else ""
    meaning = f"box is the range of {over} in {one}, on axes in the order of rows"
    return {
        "kind": "map",
        "title": title,
        "svg": charts.file_map(boxes, picture.columns, color),
        "alt": f"{title}: the range of {over} of each file as a box.",
        "keys": "",
        "drawn": drawn,
        "meaning": meaning,
        "caption": f"{drawn}; a {meaning}",
    }


def _histograms(table: TablePlan, result: TableResult | None, picture: Picture | None) -> Iterator[Figure]:
    if table.size_histogram:
        after = result.size_histogram if result else picture.sizes_after if picture else ()
        sizes = _bars(table.size_histogram, after, "size, in multiples of the target", measured=result is not None)
        alt = f"File sizes in multiples of the target: {sizes['alt']}"
        yield {**sizes, "title": "File sizes", "alt": alt, "caption": "number of files per class of size"}
    measured = {c.column: c.depth_histogram for c in result.columns} if result else {}
    caption = "number of files per class of depth, the most files that share one value"
    for column in table.columns[:4]:
        title, then = f"Depth of {column.column}", measured.get(column.column, ())
        depths = _bars(column.depth_histogram, then, "files that share a value", measured=True)
        yield {**depths, "title": title, "alt": f"{title}: {depths['alt']}", "caption": caption}


def _bars(now: Histogram, after: Histogram, axis: str, *, measured: bool) -> Figure:
    """Return a histogram without title and caption. `keys` is the legend for the colour of the bars of `after`."""
    numbers = [", ".join(f"{label}: {files:,}" for label, files in part if files) for part in (now, after)]
    return {
        "kind": "bars",
        "svg": charts.bars(now, after, axis),
        "alt": f"now {numbers[0]}" + (f"; after {numbers[1]}" if numbers[1] else ""),
        "keys": ("after, measured" if measured else "after, predicted") if after else "",
    }
