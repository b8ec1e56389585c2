"""`inspect`: one table's layout facts, with or without a spec."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from zlayout.cli.console import Console
from zlayout.cli.project import known_table, open_project
from zlayout.errors import SpecError
from zlayout.formats.orphans import Orphans, find_orphans
from zlayout.formats.registry import backend_for
from zlayout.planner.forecast import Promise, promises
from zlayout.report.words import number, plural, printable, setting, size, version_word
from zlayout.secrets import without_secrets
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import LayoutSpec
from zlayout.table.histogram import size_histogram
from zlayout.table.metrics import ColumnMetrics, layout_metrics
from zlayout.table.state import TableState

DEFAULT_TARGET = 128 * 1024 * 1024
BAR = 30
LISTED = 20


def inspect_command(project: Path, table: str, columns: str | None, console: Console, *, orphans: bool = False) -> int:
    """Print the facts. Raises SpecError for an unknown catalog or column, TableError for an unreadable table."""
    loaded = open_project(project)
    name = known_table(loaded, table)
    spec = next((s for s in loaded.layouts if s.table == name), None)
    backend = backend_for(loaded.catalogs[name.catalog], SparkRuntime(loaded))
    wanted = _columns(columns, spec)
    if wanted is None:
        schema = backend.observe(name, ())
        wanted = tuple(c.name for c in schema.columns if c.orderable and c.stats)
    state = backend.observe(name, wanted)
    if missing := [c for c in wanted if c not in state.files.bounds]:
        raise SpecError.of("ZL049", f"table {table} has no column {missing[0]!r} that bounds could be read for")
    weights = spec.layout.weights if spec and columns is None else dict.fromkeys(wanted, 1.0)
    target = spec.layout.target_size if spec else DEFAULT_TARGET
    lines = [*_facts(state, spec), "", *_sizes(state, target), "", *_metrics(layout_metrics(state.files, weights))]
    if orphans:
        lines += ["", *_orphans(find_orphans(loaded.catalogs[name.catalog], name), console.verbose)]
    if spec is not None and columns is None and backend.capabilities.can_predict(spec.layout):
        lines += _promises(*promises(state.files, spec), len(state.files.partitions))
    console.result("\n".join(lines) + "\n")
    return 0


def _columns(columns: str | None, spec: LayoutSpec | None) -> tuple[str, ...] | None:
    if columns is not None:
        return tuple(dict.fromkeys(c.strip() for c in columns.split(",") if c.strip()))
    return spec.column_names if spec else None


def _facts(state: TableState, spec: LayoutSpec | None) -> Iterator[str]:
    files = state.files
    yield f"{printable(state.table)} ({state.format}, {version_word(state.format)} {state.version})"
    yield f"  location        {printable(without_secrets(state.location))}"
    yield f"  partitioned by  {setting([str(f) for f in state.partition_fields])}"
    parts = plural(len(files.partitions), "partition")
    yield f"  files           {plural(len(files), 'file')} in {parts}, {size(int(files.bytes.sum()))}"
    yield f"  rows            {number(int(files.live_rows.sum()))}, {number(int(files.deleted.sum()))} deleted"
    yield f"  features        {', '.join(sorted(state.features)) or 'none'}"
    for index, record in enumerate(files.layouts):
        here = plural(int((files.layout == index).sum()), "file")
        mine = " (the declared layout)" if spec and record.layout_id == spec.layout.layout_id else ""
        columns = setting(record.settings.get("zorder.columns"))
        curve = setting(record.settings.get("zorder.curve"))
        yield f"  laid out        {here} by {record.layout_id}: {curve} {columns}{mine}"
    yield f"  not laid out    {plural(int((files.layout < 0).sum()), 'file')}"
    if order := state.ordering:
        yield f"  ordered by      {order.source}: {order.curve} {setting(list(order.columns))}"
    for refusal in state.refusals:
        yield f"  cannot rewrite  {printable(str(refusal))}"


def _orphans(found: Orphans, verbose: bool) -> Iterator[str]:
    files = found.files
    if not files:
        yield "  orphans         none: every file in the table's folder belongs to a version of it"
        return
    yield f"  orphans         {plural(len(files), 'file')}, {size(sum(o.bytes for o in files))}, oldest first"
    for orphan in files if verbose else files[:LISTED]:
        when = f"{orphan.modified:%Y-%m-%d %H:%M}" if orphan.modified else "?"
        yield f"    {when:<16} {size(orphan.bytes):>9}  {printable(orphan.path)}"
    if not verbose and len(files) > LISTED:
        yield f"    and {len(files) - LISTED:,} more; -v lists them all"
    yield "  No version that the table retains names them: a writer was stopped, or is still at work."
    yield "  zlayout deletes none. What is old enough to be removed is listed, on Spark, by"
    yield f"    {printable(without_secrets(found.remedy))}"


def _sizes(state: TableState, target: int) -> Iterator[str]:
    yield f"  file sizes, in multiples of the target {size(target)}"
    buckets = size_histogram(state.files.bytes, target)
    most = max((b.files for b in buckets), default=0)
    for bucket in buckets:
        bar = "#" * round(BAR * bucket.files / most) if most else ""
        yield f"    {bucket.label:<8} {bucket.files:>9,} files {size(bucket.bytes):>9}  {bar}".rstrip()


def _metrics(metrics: tuple[ColumnMetrics, ...]) -> Iterator[str]:
    if not metrics:
        yield "  no column with bounds"
        return
    width = max(6, *(len(printable(m.column)) for m in metrics))
    yield f"  {'column':<{width}} {'touched':>10} {'floor':>10} {'depth':>10} {'overlaps':>10} {'no bounds':>10}"
    for m in metrics:
        cells = "".join(f" {number(v):>10}" for v in (m.touched, m.floor, m.depth, m.overlaps, m.unbounded))
        yield f"  {printable(m.column):<{width}}{cells}"
    for m in metrics:
        if deep := [b for b in m.depth_histogram if b.files]:
            listed = ", ".join(f"{b.files:,} at {b.label}" for b in deep)
            yield f"  files by depth of {printable(m.column)}: {listed}"


def _promises(kept: tuple[Promise, ...], partitions: int, of: int) -> Iterator[str]:
    """Whether the rewrites left what plan says of such layouts; nothing before the first apply."""
    if not kept:
        return
    where = f", in {partitions:,} of {of:,} partitions" if of > 1 else ""
    yield ""
    yield f"  what plan predicts for the declared layout, beside what its rewrites left{where}"
    width = max(6, *(len(printable(p.column)) for p in kept))
    yield f"  {'column':<{width}} {'predicted':>10} {'measured':>10} {'ratio':>10}"
    for p in kept:
        ratio = f"{p.predicted / p.measured:.2f}" if p.measured else ""
        yield f"  {printable(p.column):<{width}} {number(p.predicted):>10} {number(p.measured):>10} {ratio:>10}"
