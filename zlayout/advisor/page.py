"""Render a study as one HTML page in the style of the plan report, without external resources."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from zlayout.advisor import compare
from zlayout.advisor.model import Study
from zlayout.report.formats import check_available
from zlayout.report.html import MAP_SIDE, bars, environment, lines, source_hash
from zlayout.report.words import number, printable, version_word
from zlayout.text import plural, size

WORKLOAD = "the workload"
MAX_QUERY_LENGTH = 160  # characters
MAX_BARS = 40  # queries in the picture


def render(study: Study) -> str:
    """Return the HTML page. Raises SpecError ZL062 if a package of the extra `report` is not installed."""
    check_available("html")
    import markupsafe

    pages = environment({"size": lambda n: size(round(n)), "number": number, "plural": plural, "short": _short})
    style = files("zlayout.report").joinpath("page").joinpath("page.css").read_text(encoding="utf-8")
    text = files("zlayout.advisor").joinpath("page.html.jinja").read_text(encoding="utf-8")
    shown = compare.shown_choice(study)
    found = compare.changes(study, shown.costs) if shown else ()
    return pages.from_string(text).render(
        study=study,
        version_word=version_word(study.format),
        verdict=compare.verdict(study),
        shown=shown,
        groups=_groups(found),
        warning=compare.warning(study),
        remarks=list(compare.remarks(study)),
        others=list(compare.other_queries(study)),
        notes=list(compare.column_notes(study)),
        block="" if study.best is None else _lines(compare.zorder_block(study.best)),
        bars=markupsafe.Markup(_bars(found)),
        steps=markupsafe.Markup(_steps(study)),
        columns=study.step_columns,
        style=markupsafe.Markup(style),
        style_hash=source_hash(style),
    )


def _short(text: str) -> str:
    return compare.shorten(printable(text), MAX_QUERY_LENGTH)


def _lines(block: str) -> Any:
    """Return the block sanitized line by line, because line ends are control characters too."""
    import markupsafe

    return markupsafe.Markup("\n").join(markupsafe.escape(printable(line)) for line in block.splitlines())


def _groups(found: tuple[compare.Change, ...]) -> list[tuple[str, str, list[tuple[int, compare.Change]]]]:
    """Return the badge, the title and the numbered changes of each group. The picture shows the same numbers."""
    numbered = list(enumerate(found, 1))
    groups = (("unchanged", "faster"), ("error", "slower"), ("", "same"))
    return [(badge, title, [(n, c) for n, c in numbered if c.verdict == title]) for badge, title in groups]


def _bars(found: tuple[compare.Change, ...]) -> str:
    now, then = ([(str(n), round(c.files[at])) for n, c in enumerate(found[:MAX_BARS], 1)] for at in (0, 1))
    return bars(now, then, "query", 2 * MAP_SIDE)


def _steps(study: Study) -> str:
    if len(study.steps) < 2:
        return ""
    series = {WORKLOAD: [(n, s.costs.mean_files) for n, s in enumerate(study.steps, 1)]}
    for name in study.step_columns:
        series[name] = [(n, s.touched[name]) for n, s in enumerate(study.steps, 1) if name in s.touched]
    return lines(series, "z-order columns", "files opened")
