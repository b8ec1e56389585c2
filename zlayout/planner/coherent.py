"""Whether a plan that was read makes sense beyond its types: what reports count and draw must be countable."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import astuple

from zlayout.planner.model import Status, TablePlan, summary
from zlayout.planner.picture import Boxes
from zlayout.planner.run_report import RunReport

MAX_NUMBER = 2**63
MOST_BOXES = 10_000
MOST_CELLS = 10_000
MOST_LABELS = 100


def incoherence(report: RunReport) -> str:
    """What makes no sense in a report, '' for nothing."""
    plan = report.plan
    names = [table.table for table in plan.tables]
    if len(set(names)) < len(names):
        return "a table is in it twice"
    if unknown := report.results.keys() - set(names):
        return f"a result of a table that is not planned: {min(unknown)[:60]}"
    if wrong := next((f"{table.table}: {wrong}" for table in plan.tables for wrong in _wrong(table, report)), ""):
        return wrong
    # each number fits, and what the plan is written with are their sums
    return "counts that add up to more than 64 bits" if max(astuple(summary(plan.tables))) >= MAX_NUMBER else ""


def _wrong(table: TablePlan, report: RunReport) -> Iterator[str]:
    counts = [table.files, table.bytes, table.rows, table.partitions]
    counts += [n for g in table.groups for n in (g.files, g.bytes, g.rows, g.target_files)]
    if any(n < 0 for n in counts):
        yield "a count below 0"
    if table.status is Status.CHANGES and table.version is None:
        yield "changes without what they require"
    picture, result = report.pictures.get(table.table), report.results.get(table.table)
    drawn = [b for b in (picture and picture.before, picture and picture.after, result and result.boxes) if b]
    if any(map(_wrong_boxes, drawn)):
        yield "boxes that cannot be drawn"
    if picture and not 1 <= len(picture.columns) <= 2:
        yield f"a picture of {len(picture.columns)} columns"
    strips = [*(picture.strip if picture else ()), *(result.strip if result else ())]
    if len(strips) > MOST_CELLS or any(cell.partitions < 0 for cell in strips):
        yield "a strip that cannot be drawn"
    histograms = [table.size_histogram, *(c.depth_histogram for c in table.columns)]
    histograms += [picture.sizes_after] if picture else []
    histograms += [result.size_histogram, *(c.depth_histogram for c in result.columns)] if result else []
    if any(len(h) > MOST_LABELS or any(files < 0 for _, files in h) for h in histograms):
        yield "a histogram that cannot be drawn"


def _wrong_boxes(boxes: Boxes) -> bool:
    positions = boxes.positions
    return len(positions) % 4 != 0 or boxes.count > MOST_BOXES or boxes.files < 0 or any(p < 0 for p in positions)
