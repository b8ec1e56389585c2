"""Writes the results of benchmarks/scale.py as tables into docs/scale.md."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from scale_cluster import slopes

DOCS = Path(__file__).parents[1] / "docs" / "scale.md"
Result = dict[str, Any]
Columns = dict[str, Callable[[Result], Any]]


def _number(name: str) -> Callable[[Result], str]:
    def shown(result: Result) -> str:
        value = result.get(name, "")
        return f"{value:,}" if isinstance(value, int | float) else value

    return shown


_MEASURED: Columns = {"seconds": _number("seconds"), "CPU s": _number("cpu_seconds"), "load per core": _number("load")}
BOUNDARIES: Columns = {
    "case": _number("case"),
    "files": _number("files"),
    "sampled rows (spark: rows of the table)": _number("rows"),
    **_MEASURED,
    "driver MB": _number("driver_mb"),
    "executor MB": _number("executor_mb"),
    "shuffle MB": _number("shuffle_mb"),
    "touched / floor": _number("touched_to_floor"),
    "rows per file, variation": lambda result: f"{result['rows_variation']:.1%}",
    "levels": _number("depth"),
}
COMMITS: Columns = {
    "case": _number("case"),
    "files replaced by as many": _number("files"),
    **_MEASURED,
    "Python MB": _number("driver_mb"),
    "JVM MB": _number("executor_mb"),
    "calls to the JVM": _number("calls"),
}
CLUSTER: Columns = {
    "workers": _number("workers"),
    "rows": _number("rows"),
    "files": _number("files"),
    "MB": _number("mb"),
    "seconds": _number("seconds"),
    "CPU s of executors": _number("executor_cpu_seconds"),
    "load per core": _number("load"),
    "shuffle MB": _number("shuffle_mb"),
    "driver MB (Python and JVM)": _number("driver_mb"),
    "largest executor MB": _number("executor_mb"),
}


def write_tables(results: Sequence[Result]) -> None:
    """Replace the tables on the page. A case without results keeps its table."""
    parts = {
        "Boundaries of many files": (BOUNDARIES, ("simulated", "spark")),
        "Commits of many files": (COMMITS, ("delta commit", "iceberg commit")),
        "Rewrites on a cluster": (CLUSTER, ("cluster",)),
    }
    for title, (columns, cases) in parts.items():
        chosen = [each for each in results if each["case"] in cases]
        if chosen:
            lines = [*_table(columns, chosen), *(_growth(chosen) if title.startswith("Rewrites") else ())]
            _replace_table(DOCS, title, lines)


def _table(columns: Columns, results: Sequence[Result]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield "|---" * len(columns) + "|"
    for result in results:
        yield f"| {' | '.join(str(shown(result)) for shown in columns.values())} |"


def _growth(results: Sequence[Result]) -> Iterator[str]:
    """Yield the growth from the smallest to the largest table: an exponent of 1 is linear."""
    yield ""
    by_seconds, by_cpu = slopes(results, "seconds"), slopes(results, "executor_cpu_seconds")
    for workers, slope in by_seconds.items():
        grown = f"seconds grow with rows to the power of {slope}, CPU seconds of executors {by_cpu[workers]}"
        yield f"- Workers {workers}: {grown}."


def _replace_table(path: Path, title: str, lines: Sequence[str]) -> None:
    """Replace the lines between the markers of a table."""
    text = path.read_text(encoding="utf-8")
    begin, end = f"<!-- {title} -->\n", f"<!-- end of {title} -->\n"
    before, _, rest = text.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise ValueError(f"{path} has no markers of {title}")
    path.write_text(before + begin + "\n".join(lines) + "\n" + end + after, encoding="utf-8")
