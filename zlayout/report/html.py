"""The plan as one HTML page: it loads nothing, and no name in it can run or break anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from zlayout.errors import SpecError
from zlayout.planner.model import ColumnForecast, Plan, TablePlan, summary
from zlayout.planner.picture import Boxes, Picture
from zlayout.report import charts
from zlayout.report.pages import environment, source_hash
from zlayout.report.text import (
    decay_text,
    declared,
    last_line,
    layout_text,
    left_over_text,
    not_reached,
    reasons_text,
    result_text,
    rewrite_text,
)
from zlayout.report.words import OUTCOMES, STATES, number, plural, setting, share, size, version_word

if TYPE_CHECKING:
    import markupsafe

# Names of partitions, groups and so on: a page is for reading, the JSON report has all of them.
MOST_ROWS = 200


_FILTERS: dict[str, Callable[..., Any]] = {
    "size": size,
    "number": number,
    "plural": plural,
    "version_word": version_word,
    "setting": setting,
    "declared": declared,
    "share": share,
    "decay": decay_text,
}


def check_available() -> None:
    """Raise SpecError ZL062 when a package of the extra `report` is not installed."""
    try:
        import jinja2  # noqa: F401
        import vl_convert  # noqa: F401
    except ImportError as error:
        raise SpecError.of(
            "ZL062",
            f"the html report needs a package that is not installed: {error.name}",
            hint="pip install 'zlayout[report]'",
        ) from error


def render(plan: Plan) -> str:
    """The whole page. Pictures are drawn for the tables whose plan has one. Raises SpecError ZL062."""
    check_available()
    page = files("zlayout.report").joinpath("page")
    style, script = (page.joinpath(name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    template = environment(_FILTERS).from_string(page.joinpath("page.html.jinja").read_text(encoding="utf-8"))
    return template.render(
        plan=plan,
        title="zlayout: what apply did" if any(t.result for t in plan.tables) else "zlayout: plan",
        headline=last_line(plan),
        counts=_counts(plan),
        tables=[_table(n, t) for n, t in enumerate(plan.tables, 1)],
        style=style,
        script=script,
        style_hash=source_hash(style),
        script_hash=source_hash(script),
        most_rows=MOST_ROWS,
    )


def _counts(plan: Plan) -> list[tuple[str, int, str]]:
    """(kind, number, label) of the figures under the headline: what is planned, or how tables ended."""
    tables = [("", len(plan.tables), "table" if len(plan.tables) == 1 else "tables")]
    if outcomes := [t.result.outcome for t in plan.tables if t.result]:
        kinds = {o: "unchanged" if o in ("as_declared", "within_budget") else "error" for o in OUTCOMES}
        ended = [(kinds[o], outcomes.count(o), OUTCOMES[o].partition(":")[0]) for o in OUTCOMES if o in outcomes]
        return [*tables, *ended, *not_reached(plan)]
    counts = summary(plan.tables)
    return [
        *tables,
        ("changes", counts.rewrite, "to rewrite"),
        ("changes", counts.alter, "to alter"),
        ("unchanged", counts.unchanged, "as declared"),
        ("refused", counts.refused, "refused"),
        ("error", counts.failed, "with errors"),
    ]


def _table(index: int, table: TablePlan) -> dict[str, Any]:
    result = table.result
    strip = (result.strip if result else ()) or (table.picture.strip if table.picture else ())
    return {
        "id": f"table-{index}",
        "plan": table,
        "state": OUTCOMES[result.outcome] if result else STATES[table.status],
        "kind": "unchanged" if not table.is_open else "error" if result else table.status,
        "first": layout_text(table) if table.is_first else "",
        "rewrite": rewrite_text(table) if table.groups else "",
        "reasons": reasons_text(table.groups) if table.groups else "",
        "left_over": left_over_text(table.left_over) if table.left_over else "",
        "result": result_text(result) if result else "",
        "diagnostics": (*table.diagnostics, *(result.problems if result else ())),
        "worst": max((c.touched for c in table.columns), default=None),
        "after": _after(table),
        "measured": bool(result and result.columns),
        "columns": [_column(c, table) for c in table.columns],
        "charts": _charts(table),
        "strip": strip,
        "strip_svg": _safe(charts.partition_strip(strip)),
    }


def _after(table: TablePlan) -> dict[str, float | str | None]:
    """files and touched (of the worst column) after the rewrite, None where there is none; sign `~` for predictions."""
    result = table.result
    if result and result.columns:
        files = table.files - result.files_removed + result.files_added
        return {"files": files, "touched": max(c.touched for c in result.columns), "sign": ""}
    if not table.groups:
        return {"files": None, "touched": None, "sign": ""}
    files = table.files + sum(g.target_files - g.files for g in table.groups)
    touched = max((c.predicted for c in table.columns if c.predicted is not None), default=None)
    return {"files": files, "touched": touched, "sign": "~"}


def _column(column: ColumnForecast, table: TablePlan) -> dict[str, Any]:
    measured = {c.column: c for c in table.result.columns} if table.result else {}
    return {"now": column, "after": measured.get(column.column)}


def _charts(table: TablePlan) -> list[dict[str, Any]]:
    """Figures in the order of the page: svg as safe markup, alt and caption as text."""
    figures = [*_maps(table), *_histograms(table)]
    return [{**figure, "svg": _safe(figure["svg"])} for figure in figures if figure["svg"]]


def _safe(svg: str) -> markupsafe.Markup:
    """Markup that is not escaped again: `charts` made it from parsed XML."""
    import markupsafe

    return markupsafe.Markup(svg)


def _maps(table: TablePlan) -> list[dict[str, str]]:
    picture = table.picture
    if picture is None:
        return []
    real = table.result.boxes if table.result else None
    after = real or picture.after
    where = f" of {picture.partition}" if picture.partition else ""
    shown = [_map("Files before" if after else "Files now", picture, picture.before, "now", where)]
    if after:
        title = "Files after, measured" if real else "Files after, predicted"
        shown.append(_map(title, picture, after, "after", where))
    return shown


def _map(title: str, picture: Picture, boxes: Boxes, color: str, where: str) -> dict[str, str]:
    over = " and ".join(picture.columns)
    drawn = f"all {plural(boxes.files, 'file')}"
    one = "one file"
    if boxes.coarse:
        one = f"about {boxes.files / max(boxes.count, 1):.0f} neighbouring files"
        drawn = f"{boxes.count:,} boxes that stand for ~{boxes.files:,} files"
    elif boxes.count < boxes.files:
        drawn = f"a sample of {boxes.count:,} of {boxes.files:,} files"
    return {
        "kind": "map",
        "title": title,
        "svg": charts.file_map(boxes, picture.columns, color),
        "alt": f"{title}: each file's range of {over} as a box.",
        "keys": "",
        "caption": f"{drawn}{where}; a box is the range of {over} in {one}, by the order of the rows",
    }


def _histograms(table: TablePlan) -> list[dict[str, str]]:
    figures = []
    result = table.result
    predicted = table.picture.sizes_after if table.picture else ()
    after = result.size_histogram if result else predicted
    measured = {c.column: c.depth_histogram for c in result.columns} if result else {}
    if table.size_histogram:
        figures.append(
            {
                "kind": "bars",
                "title": "File sizes",
                "svg": charts.bars(table.size_histogram, after, "size, in multiples of the target"),
                "alt": "File sizes in multiples of the target: " + _listed(table.size_histogram, after),
                "caption": "how many files are how large",
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
                "caption": "how many files overlap how many others at one value, themselves included",
                "keys": _keys(then, measured=True),
            }
        )
    return figures


def _keys(after: Sequence[tuple[str, int]], *, measured: bool) -> str:
    """What the second colour of a histogram stands for; empty where there is none."""
    return ("after, measured" if measured else "after, predicted") if after else ""


def _listed(now: Sequence[tuple[str, int]], after: Sequence[tuple[str, int]]) -> str:
    series = [", ".join(f"{label}: {files:,}" for label, files in part if files) for part in (now, after)]
    return f"now {series[0]}" + (f"; after {series[1]}" if series[1] else "")
