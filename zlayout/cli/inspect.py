"""The command `inspect`: print files, sizes and metrics of one table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

from zlayout.cli.console import Console
from zlayout.formats.base import RunMetrics
from zlayout.planner.model import QueryCost
from zlayout.report.words import cost_text, duration, number, printable, setting, version_word
from zlayout.secrets import without_secrets
from zlayout.session.concurrent_reads import TIMEOUT
from zlayout.session.import_ import split_columns
from zlayout.session.inspect import Inspection, inspect
from zlayout.session.project import load_project
from zlayout.spec.model import CLUSTERED_BY
from zlayout.table.state import LayoutRecord
from zlayout.text import plural, size

MAX_BAR_CHARACTERS = 30
# The metrics of a column in the JSON document.
_METRICS = ("column", "touched", "bytes_read", "floor", "depth", "overlaps", "unbounded")


def inspect_command(
    project: Path,
    table: str,
    columns: str | None,
    console: Console,
    *,
    branch: str | None = None,
    timeout: float = TIMEOUT,
) -> int:
    """Print the inspection of a table. Raises the errors of `zlayout.inspect`."""
    wanted = None if columns is None else split_columns(columns)
    found = inspect(load_project(project), table, wanted, branch=branch, timeout=timeout)
    console.document(as_document(found))
    lines = [*_facts(found), "", *_sizes(found), "", *_metrics(found)]
    lines += _last_run(found.last_run, version_word(found.state.format), found.query_cost)
    console.text("\n".join(lines) + "\n")
    return 0


def as_document(found: Inspection) -> dict[str, Any]:
    """Return an inspection as plain data."""
    state, files, order = found.state, found.state.files, found.state.ordering
    return {
        "table": state.table,
        "format": state.format,
        "version": state.version,
        "location": without_secrets(state.location),
        "partition_by": [str(field) for field in state.partition_fields],
        "partitions": len(files.partitions),
        "files": len(files),
        "bytes": int(files.bytes.sum()),
        "rows": int(files.live_rows.sum()),
        "deleted_rows": int(files.deleted.sum()),
        "deleted_rows_exact": not state.estimated_deletes,
        "features": sorted(state.features),
        "layouts": [
            {"layout_id": record.layout_id, "files": count, "settings": dict(record.settings), "declared": declared}
            for record, count, declared in _layouts(found)
        ],
        "files_not_laid_out": int((files.layout < 0).sum()),
        "cluster_by": None if state.clustering is None else list(state.clustering),
        "ordering": None if order is None else asdict(order),
        "refusals": [asdict(refusal) for refusal in state.refusals],
        "target_size": found.target_size,
        "size_histogram": [asdict(bucket) for bucket in found.sizes],
        "columns": [{name: getattr(column, name) for name in _METRICS} for column in found.columns],
        "last_run": None if found.last_run is None else asdict(found.last_run),
        "query": None if found.query_cost is None else asdict(found.query_cost),
    }


def _layouts(found: Inspection) -> Iterator[tuple[LayoutRecord, int, bool]]:
    """Yield (layout record, number of live files, whether it is the declared layout)."""
    for index, record in enumerate(found.state.files.layouts):
        # A record without live files belongs to another branch, or its files have been replaced.
        if count := int((found.state.files.layout == index).sum()):
            layout = None if found.spec is None else found.spec.layout
            yield record, count, layout is not None and layout.covers(record.layout_id, record.settings)


def _facts(found: Inspection) -> Iterator[str]:
    state, files = found.state, found.state.files
    at = f", {version_word(state.format)} {state.version}" if state.version >= 0 else ""
    yield f"{printable(state.table)} ({state.format}{at})"
    yield f"  location        {printable(without_secrets(state.location))}"
    yield f"  partitioned by  {', '.join(printable(str(f)) for f in state.partition_fields) or 'nothing'}"
    parts = plural(len(files.partitions), "partition")
    yield f"  files           {plural(len(files), 'file')} in {parts}, {size(int(files.bytes.sum()))}"
    rows, deleted = number(int(files.live_rows.sum())), number(int(files.deleted.sum()))
    if state.estimated_deletes:
        yield f"  rows            about {rows}, about {deleted} deleted (estimated from delete files)"
    else:
        yield f"  rows            {rows}, {deleted} deleted"
    yield f"  features        {', '.join(sorted(state.features)) or 'none'}"
    for record, count, covered in _layouts(found):
        declared = " (the declared layout)" if covered else ""
        columns, curve = record.settings.get("zorder.columns"), record.settings.get("zorder.curve")
        if (clustered_by := record.settings.get(CLUSTERED_BY)) is not None:
            columns, curve = clustered_by or "unknown columns", "clustered by"
        how = f"{setting(curve)} {setting(columns)}" if columns else "compaction alone"
        yield f"  laid out        {plural(count, 'file')} by {record.layout_id}: {how}{declared}"
    if state.clustering is not None:
        yield f"  cluster by      {', '.join(map(printable, state.clustering)) or 'nothing'}"
    yield f"  not laid out    {plural(int((files.layout < 0).sum()), 'file')}"
    if order := state.ordering:
        yield f"  ordered by      {order.source}: {order.curve} {setting(list(order.columns))}"
    for refusal in state.refusals:
        yield f"  cannot rewrite  {printable(str(refusal))}"


def _sizes(found: Inspection) -> Iterator[str]:
    yield f"  file sizes, in multiples of the target {size(found.target_size)}"
    most = max((b.files for b in found.sizes), default=0)
    for bucket in found.sizes:
        bar = "#" * round(MAX_BAR_CHARACTERS * bucket.files / most) if most else ""
        yield f"    {bucket.label:<8} {plural(bucket.files, 'file'):>15} {size(bucket.bytes):>9}  {bar}".rstrip()


def _metrics(found: Inspection) -> Iterator[str]:
    metrics = found.columns
    if not metrics:
        yield "  no column with bounds"
        return
    width = max(6, *(len(printable(m.column)) for m in metrics))
    heads = ("touched", "bytes read", "floor", "depth", "overlaps", "no bounds")
    yield f"  {'column':<{width}}" + "".join(f" {head:>10}" for head in heads)
    for m in metrics:
        floor = "?" if m.floor is None else number(m.floor)
        numbers = (number(v) for v in (m.depth, m.overlaps, m.unbounded))
        cells = (number(m.touched), size(round(m.bytes_read)), floor, *numbers)
        yield f"  {printable(m.column):<{width}}" + "".join(f" {cell:>10}" for cell in cells)
    if any(m.floor is None for m in metrics):
        first = "" if found.spec is not None else "with a layout for the table, "
        yield f"  floor ?: the metadata does not show how often values occur; {first}`zlayout plan --sample` does"
    for m in metrics:
        if deep := [b for b in m.depth_histogram if b.files]:
            listed = ", ".join(f"{plural(b.files, 'file')} at {b.label}" for b in deep)
            yield f"  depth of {printable(m.column)}: {listed}"


def _last_run(run: RunMetrics | None, version: str, now: QueryCost | None = None) -> Iterator[str]:
    if run is None:
        return
    yield ""
    yield f"  last apply ({version} {run.version}): touched, predicted and measured"
    if run.cost is not None:
        yield f"  rewrote {size(run.cost.bytes)} in {duration(run.cost.seconds)}"
    if now is not None:
        before = "not predicted" if run.query_cost is None else f"predicted {cost_text(run.query_cost)}"
        yield f"  a query of the workload opens {cost_text(now)} now; {before}"
    width = max(6, *(len(printable(c.column)) for c in run.columns))
    yield f"  {'column':<{width}} {'predicted':>10} {'measured':>10} {'ratio':>10}"
    for c in run.columns:
        predicted = "not known" if c.predicted is None else number(c.predicted)
        ratio = f"{c.predicted / c.measured:.2f}" if c.predicted is not None and c.measured else ""
        yield f"  {printable(c.column):<{width}} {predicted:>10} {number(c.measured):>10} {ratio:>10}".rstrip()
