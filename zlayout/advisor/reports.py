"""Render a study: as plain text for the terminal, and as one HTML page in the style of the plan report.

The page has no external resources.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from importlib.resources import files as resources
from pathlib import Path
from typing import Any

from zlayout.advisor import compare
from zlayout.advisor.model import Choice, Study
from zlayout.report.formats import check_available
from zlayout.report.html import MAP_SIDE, bars, environment, lines, source_hash
from zlayout.report.words import number, printable, share, version_word
from zlayout.spec.load import shown
from zlayout.text import plural, size
from zlayout.workload.model import Unused

MAX_QUERIES_PER_GROUP = 20


def render(study: Study, width: int = 100, *, verbose: bool = False) -> str:
    """Return the text report.

    Args:
        study: The study.
        width: The number of columns of the terminal.
        verbose: Whether to list all queries and all unused conditions.
    """
    first = compare.warning(study)
    lines = [*_wrapped(f"warning: {printable(str(first))}", width), ""] if first else []
    lines += [line for long in _heading(study) for line in _wrapped(long, width)]
    for sentence in (compare.verdict(study), *compare.remarks(study), *study.notes):
        lines += ["", *_wrapped(printable(sentence), width)]
    lines += ["", *_layouts(study, width)]
    shown = compare.shown_choice(study)
    if shown is not None:
        lines += ["", *_queries(study, shown, width, verbose)]
    if len(study.steps) > 1:
        lines += ["", *_steps(study, width)]
    if study.columns:
        lines += ["", *_columns(study, width)]
    if study.unused:
        lines += ["", *_unused(study, width, verbose)]
    if study.best is not None:
        lines += ["", "Keys for the layout spec:", "", *map(printable, compare.zorder_block(study.best).splitlines())]
    return "\n".join(lines) + "\n"


def _wrapped(line: str, width: int) -> list[str]:
    start = " " * (len(line) - len(line.lstrip()) + 4)
    return textwrap.wrap(line, width, subsequent_indent=start, drop_whitespace=True, break_on_hyphens=False)


def _heading(study: Study) -> Iterator[str]:
    yield f"{printable(study.table)} ({study.format}, {version_word(study.format)} {study.version})"
    yield f"  files     {plural(study.files, 'file')}, {size(study.bytes)}, {plural(study.rows, 'row')}"
    exact = " (all of them)" if study.sampled == study.rows else ""
    yield f"  sample    {plural(study.sampled, 'row')}{exact}, seed {study.seed}"
    read = f"{plural(study.statements, 'query')}, {len(study.queries)} with conditions on this table"
    yield f"  workload  {', '.join(printable(shown(Path(file))) for file in study.workload)}: {read}"
    for sentence in compare.other_queries(study):
        yield f"            {sentence}, not counted below"
    if study.tried > len(study.choices):
        ended = "; the time limit ended the search" if study.interrupted else ""
        yield f"  search    {study.tried} layouts in {study.seconds:.0f} s{ended}"


def _layouts(study: Study, width: int) -> Iterator[str]:
    rows = [("now", study.files, study.now)]
    if study.declared is not None:
        rows.append((f"declared, {study.declared.title}", study.declared.files, study.declared.costs))
    rows += [(_marked(c, study), c.files, c.costs) for c in study.choices]
    rows.append(("floor: each query alone", 0, study.floor))
    room = max(12, min(max(len(r[0]) for r in rows), width - 36))
    yield f"  {'layout':<{room}} {'files':>7} {'opened':>9} {'bytes read':>11}"
    for title, files, costs in rows:
        first, *rest = textwrap.wrap(printable(title), room) or [""]
        count = f"{files:,}" if files else ""
        yield f"  {first:<{room}} {count:>7} {number(costs.mean_files):>9} {size(round(costs.mean_bytes)):>11}"
        yield from (f"    {line}" for line in rest)


def _marked(choice: Choice, study: Study) -> str:
    return f"{choice.title}  <- best" if choice is study.best and len(study.choices) > 1 else choice.title


def _queries(study: Study, shown: Choice, width: int, verbose: bool) -> Iterator[str]:
    found = compare.changes(study, shown.costs)
    yield from _wrapped(f"Query by query, with {printable(shown.title)}", width)
    texts = {change: printable(change.text) for change in found}
    room = min(max(map(len, texts.values()), default=5), width - 52)
    yield f"  {'':<{room}} {'weight':>7} {'files':>15} {'floor':>7} {'bytes read':>11}"
    limit = len(found) if verbose else MAX_QUERIES_PER_GROUP
    for group, title in (("faster", "faster"), ("slower", "slower"), ("same", "unchanged")):
        some = [c for c in found if c.verdict == group]
        yield f"  {title}{'' if some else ': none'}"
        for change in some[:limit]:
            yield f"  {compare.shorten(texts[change], room):<{room}} {_numbers(change)}"
            if verbose:
                yield f"    {_short(printable(change.location), width - 4)}"
        if len(some) > limit:
            yield f"  ... and {len(some) - limit:,} more (-v shows them)"


def _numbers(change: compare.Change) -> str:
    now, then, floor = (number(v) for v in change.files)
    before, after, _ = change.bytes
    grown = share(after / before) if before else "new" if after else ""
    return f"{change.weight:>7g} {now + ' -> ' + then:>15} {floor:>7} {grown:>11}"


def _short(text: str, room: int) -> str:
    return text if len(text) <= room else "..." + text[3 - room :]


def _steps(study: Study, width: int) -> Iterator[str]:
    """Yield the cost of one more column: touched of each column in the best layouts with 1, 2, ... columns."""
    names = sorted(study.step_columns, key=lambda n: [n in step.touched for step in study.steps].index(True))
    yield "Cost of each further column: files that `column = value` opens"
    room = min(max(map(len, map(printable, [*names, "the workload"]))), width - 9 * len(study.steps) - 12)
    best = {c.name for c in study.best.layout.columns} if study.best else set()
    heads = [f"{n}{'*' if set(step.touched) == best else ''}" for n, step in enumerate(study.steps, 1)]
    yield f"  {'':<{room}} {''.join(f'{head:>9}' for head in heads)}  columns"
    for name in names:
        numbers = "".join(f"{number(s.touched[name]) if name in s.touched else '':>9}" for s in study.steps)
        yield f"  {_short(printable(name), room):<{room}} {numbers}".rstrip()
    numbers = "".join(f"{number(s.costs.mean_files):>9}" for s in study.steps)
    yield f"  {'the workload':<{room}} {numbers}"
    if any(head.endswith("*") for head in heads):
        yield "  * the columns of the best layout"


def _columns(study: Study, width: int) -> Iterator[str]:
    yield "Columns of the workload"
    notes = list(compare.column_notes(study))
    room = min(max(len(printable(name)) for name, _ in notes), width // 2)
    for name, note in notes:
        lines = textwrap.wrap(note, max(width - room - 4, 30))
        yield f"  {_short(printable(name), room):<{room}}  {lines[0]}"
        yield from (f"  {'':<{room}}  {line}" for line in lines[1:])


def _unused(study: Study, width: int, verbose: bool) -> Iterator[str]:
    total = sum(study.coverage.weights.values())
    yield f"{plural(len(study.unused), 'condition')} of the queries on this table cannot be used"
    reasons: dict[str, list[Unused]] = {}
    for unused in study.unused:
        reasons.setdefault(unused.reason, []).append(unused)
    weights = {reason: sum(q.weight for q in {u.query for u in some}) for reason, some in reasons.items()}
    for reason, some in sorted(reasons.items(), key=lambda item: -weights[item[0]]):
        part = f", {share(weights[reason] / total)} of the weight" if total else ""
        yield from _wrapped(f"  {len(some):>4}  {reason}{part}", width)
        for unused in some if verbose else some[:1]:
            yield f"        {compare.shorten(printable(' '.join(unused.text.split())), max(width - 8, 30))}"
            if verbose:
                yield f"          {_short(printable(unused.query.location), width - 10)}"
    if not verbose:
        yield "  -v lists all of them"


# The HTML page.


WORKLOAD = "the workload"
MAX_QUERY_LENGTH = 160  # characters
MAX_BARS = 40  # queries in the picture


def render_page(study: Study) -> str:
    """Return the HTML page. Raises SpecError ZL062 if a package of the extra `report` is not installed."""
    check_available("html")
    import markupsafe

    pages = environment({"size": lambda n: size(round(n)), "number": number, "plural": plural, "short": _page_text})
    style = resources("zlayout.report").joinpath("page").joinpath("page.css").read_text(encoding="utf-8")
    text = resources("zlayout.advisor").joinpath("page.html.jinja").read_text(encoding="utf-8")
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
        steps=markupsafe.Markup(_step_lines(study)),
        columns=study.step_columns,
        style=markupsafe.Markup(style),
        style_hash=source_hash(style),
    )


def _page_text(text: str) -> str:
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


def _step_lines(study: Study) -> str:
    if len(study.steps) < 2:
        return ""
    series = {WORKLOAD: [(n, s.costs.mean_files) for n, s in enumerate(study.steps, 1)]}
    for name in study.step_columns:
        series[name] = [(n, s.touched[name]) for n, s in enumerate(study.steps, 1) if name in s.touched]
    return lines(series, "z-order columns", "files opened")
