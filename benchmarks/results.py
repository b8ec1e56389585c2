"""Writes RESULTS.md and results/rewrite.json from the results of the rewrite benchmark, also those that are worse."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

SECTION = "## Rewrite"


def write_results(folder: Path, results: list[dict[str, Any]]) -> None:
    """Write both files. Other sections of RESULTS.md, and results that this run does not have, are kept in place."""
    path = folder / "results" / "rewrite.json"
    path.parent.mkdir(exist_ok=True)
    measured = {_part(r) for r in results}
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    order = list(dict.fromkeys(map(_part, before + results)))
    whole = [r for r in before if _part(r) not in measured] + results
    whole.sort(key=lambda r: order.index(_part(r)))
    path.write_text(json.dumps(whole, indent=1) + "\n", encoding="utf-8")
    replace_section(folder / "RESULTS.md", SECTION, "\n".join(_section(whole)) + "\n")


def _part(result: dict[str, Any]) -> tuple[str, ...]:
    """Return what identifies results that are measured together: the format and the keys."""
    return (result["format"], *result["keys"])


def replace_section(path: Path, heading: str, section: str) -> None:
    """Replace one section of a file, or add it at the end. The other sections do not change."""
    text = path.read_text(encoding="utf-8") if path.exists() else "# Benchmark results\n\n"
    before, found, after = text.partition(heading)
    if not found:
        before = f"{text.rstrip()}\n\n"
    rest = after.partition("\n## ")[2] if found else ""
    path.write_text(before + section + (f"\n## {rest}" if rest else ""), encoding="utf-8")


def _section(results: list[dict[str, Any]]) -> Iterator[str]:
    yield f"{SECTION}: TPC-H lineitem"
    yield ""
    yield "Made by `make bench`. An *arm* is one way to write the same rows; the arms alternate, each in its own JVM,"
    yield "after an uncounted round with the same keys. Seconds are wall times; ratios are those of medians. *touched*"
    yield "is the mean number of files that an equality query opens."
    for part in dict.fromkeys(map(_part, results)):
        chosen = [r for r in results if _part(r) == part]
        format, *keys = part
        yield ""
        yield f"### {format.capitalize()}: {', '.join(keys)}"
        yield ""
        yield chosen[0]["run"]
        yield from _times(chosen)
        yield from _touched(chosen, keys)


def _times(results: list[dict[str, Any]]) -> Iterator[str]:
    by_arm = {r["arm"]: r for r in results}
    yield ""
    yield "| arm | median s | range s | / one-shuffle copy | rows per file, variation | files | MiB |"
    yield "|---|---|---|---|---|---|---|"
    for r in results:
        shuffle = by_arm[f"shuffle_copy_{r['format']}"]["wall_median_s"]
        layout = f"{r['rows_cv']:.1%} | {r['files']} | {r['bytes'] / 2**20:.0f}" if r["files"] else "| |"
        yield (
            f"| {r['arm']} | {r['wall_median_s']:.1f} | {r['wall_min_s']:.1f} to {r['wall_max_s']:.1f} "
            f"| {r['wall_median_s'] / shuffle:.2f} | {layout} |"
        )
    yield ""
    ours = f"zlayout_{results[0]['format']}"
    for native in (arm for arm in by_arm if "zorder" in arm):
        ratio = by_arm[native]["wall_median_s"] / by_arm[ours]["wall_median_s"]
        yield f"- {ours} is {ratio:.2f} times as fast as {native}."


def _touched(results: list[dict[str, Any]], keys: Sequence[str]) -> Iterator[str]:
    laid_out = [r for r in results if r["touched"]]

    def row(label: str, values: list[float], digits: int = 1) -> str:
        return f"| {label} | " + " | ".join(f"{value:.{digits}f}" for value in values) + " |"

    yield ""
    yield f"| files touched | {' | '.join(r['arm'] for r in laid_out)} |"
    yield "|---|" + "---|" * len(laid_out)
    for key in keys:
        yield row(f"{key} =", [r["touched"][key] for r in laid_out])
    yield row("mean", [r["touched_mean"] for r in laid_out], 2)
    yield row("joint optimum", [r["floor_mean"] for r in laid_out], 2)
    for name in laid_out[0]["ranges"]:
        yield row(name, [r["ranges"][name] for r in laid_out])
