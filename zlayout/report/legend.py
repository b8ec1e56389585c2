"""Write the legend of a plan: its signs in one line, and the terms that it uses in one more where they fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from zlayout.planner.model import Status, TablePlan
from zlayout.report.lines import wrapped
from zlayout.report.phrases import shown_decay

_BETWEEN = " " * 4
_NO_BREAK = "\N{NO-BREAK SPACE}"


def legend(tables: Sequence[TablePlan], width: int, *, verbose: bool) -> Iterator[tuple[str, str]]:
    """Yield (style, line) of the signs and the terms that the text of these tables uses; nothing if none changes."""
    changing = [t for t in tables if t.status is Status.CHANGES]
    if not changing:
        return
    signs = {
        "+ first layout": any(t.is_first for t in changing),
        "~ alter settings": any(t.alters or t.drift for t in changing),
        "-/+ rewrite files": any(t.groups for t in changing),
    }
    columns = [column for table in tables for column in table.columns]
    curves = {dict(t.settings).get("zorder.curve") for t in changing if t.is_first}
    terms = {
        "touched: files opened for one value": bool(columns),
        "floor: fewest possible": any(column.floor is not None for column in columns),
        "hot: partitions with recent writes": any(t.hot for t in changing),
        "decay: data changed since": any(shown_decay(t, verbose=verbose) for t in tables),
        "kd: k-d tree": "kd" in curves,
        "curve workload: files end at constants of queries": "workload" in curves,
    }
    if any(signs.values()):
        yield "", f"  {_BETWEEN.join(_used(signs))}"
    # The words of a term stay in one line.
    line = _BETWEEN.join(term.replace(" ", _NO_BREAK) for term in _used(terms))
    for piece in wrapped(f"  {line}", width, 2) if line else ():
        yield "dim", piece.replace(_NO_BREAK, " ")
    yield "", ""


def _used(entries: Mapping[str, bool]) -> list[str]:
    return [entry for entry, used in entries.items() if used]
