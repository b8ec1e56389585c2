"""The figures of one table on the HTML page: maps of its files, and histograms before and after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from zlayout.planner.model import TablePlan
from zlayout.planner.picture import Boxes, Picture
from zlayout.planner.result import TableResult
from zlayout.report import charts, words

if TYPE_CHECKING:
    import markupsafe


def charts_of(table: TablePlan, result: TableResult | None, picture: Picture | None) -> list[dict[str, Any]]:
    """Return the figures in the order of the page, with `svg` as markup and `alt` and `caption` as text.

    A figure of kind `compare` has two maps in place of `svg`: `before` and `after`, between which the reader moves.
    """
    maps: list[dict[str, Any]] = [
        {**figure, "svg": safe(figure["svg"])} for figure in _maps(result, picture) if figure["svg"]
    ]
    if len(maps) == 2 and picture is not None and (picture.sampled or (result and result.boxes)):
        caption = f"Before: {maps[0]['drawn']}. After: {maps[1]['drawn']}. {maps[1]['meaning']}".removesuffix(".")
        sides = {"before": maps[0], "after": maps[1]}
        maps = [{"kind": "compare", "title": "Files before and after", "caption": caption, **sides}]
    bars = [{**figure, "svg": safe(figure["svg"])} for figure in _histograms(table, result, picture) if figure["svg"]]
    return [*maps, *bars]


def safe(svg: str) -> markupsafe.Markup:
    """Mark SVG as markup that the template must not escape. It was serialised by `charts` from parsed XML."""
    import markupsafe

    return markupsafe.Markup(svg)


def _maps(result: TableResult | None, picture: Picture | None) -> list[dict[str, str]]:
    if picture is None:
        return []
    measured = result.boxes if result else None
    after = measured or picture.after
    where = f" of {picture.partition}" if picture.partition else ""
    shown = [_map("Files before" if after else "Files now", picture, picture.before, "now", where)]
    if after:
        source = "measured" if measured else "from the sample" if picture.sampled else "an illustration"
        shown.append(_map(f"Files after, {source}", picture, after, "after", where))
        if source == "an illustration":
            shown[-1]["caption"] += (
                ". It is made from the bounds of the present files, as if their columns were independent; "
                "`zlayout plan --sample` draws it from rows"
            )
    return shown


def _map(title: str, picture: Picture, boxes: Boxes, color: str, where: str) -> dict[str, str]:
    over = " and ".join(picture.columns)
    drawn = f"all {words.plural(boxes.files, 'file')}"
    one = "one file"
    if boxes.coarse:
        one = f"about {boxes.files / max(boxes.count, 1):.0f} neighbouring files"
        drawn = f"{boxes.count:,} boxes for about {boxes.files:,} files"
    elif boxes.count < boxes.files:
        drawn = f"a sample of {boxes.count:,} of {boxes.files:,} files"
    return {
        "kind": "map",
        "title": title,
        "svg": charts.file_map(boxes, picture.columns, color),
        "alt": f"{title}: the range of {over} of each file as a box.",
        "keys": "",
        "drawn": f"{drawn}{where}",
        "meaning": f"A box is the range of {over} in {one}, on axes in the order of rows.",
        "caption": f"{drawn}{where}; a box is the range of {over} in {one}, on axes in the order of rows",
    }


def _histograms(table: TablePlan, result: TableResult | None, picture: Picture | None) -> list[dict[str, str]]:
    figures = []
    predicted = picture.sizes_after if picture else ()
    after = result.size_histogram if result else predicted
    measured = {c.column: c.depth_histogram for c in result.columns} if result else {}
    if table.size_histogram:
        figures.append(
            {
                "kind": "bars",
                "title": "File sizes",
                "svg": charts.bars(table.size_histogram, after, "size, in multiples of the target"),
                "alt": "File sizes in multiples of the target: " + _listed(table.size_histogram, after),
                "caption": "number of files per class of size",
                "keys": _keys(after, measured=result is not None),
            }
        )
    for column in table.columns[:4]:
        then = measured.get(column.column, ())
        figures.append(
            {
                "kind": "bars",
                "title": f"Depth of {column.column}",
                "svg": charts.bars(column.depth_histogram, then, "files that share a value"),
                "alt": f"Depth of {column.column}: " + _listed(column.depth_histogram, then),
                "caption": "number of files per class of depth, the most files that share one value",
                "keys": _keys(then, measured=True),
            }
        )
    return figures


def _keys(after: Sequence[tuple[str, int]], *, measured: bool) -> str:
    """Return the legend of the second colour of a histogram; '' if it is not used."""
    return ("after, measured" if measured else "after, predicted") if after else ""


def _listed(now: Sequence[tuple[str, int]], after: Sequence[tuple[str, int]]) -> str:
    series = [", ".join(f"{label}: {files:,}" for label, files in part if files) for part in (now, after)]
    return f"now {series[0]}" + (f"; after {series[1]}" if series[1] else "")
