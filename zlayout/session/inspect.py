"""Inspect one table, with or without a layout spec: observe the table and measure its layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from zlayout.errors import SpecError
from zlayout.formats.base import RunMetrics
from zlayout.formats.registry import backend_for
from zlayout.planner.model import QueryCost
from zlayout.report.words import version_word
from zlayout.session.concurrent_reads import TIMEOUT, read_table
from zlayout.session.import_ import DEFAULT_SIZE
from zlayout.session.plan import backends_of
from zlayout.session.project import known_table, layout_of
from zlayout.session.rules import layout_of_table, require_branches, table_on
from zlayout.session.workloads import present_cost
from zlayout.spark.session import SparkRuntime
from zlayout.spec.check import column_hint
from zlayout.spec.model import LayoutSpec, Project
from zlayout.spec.semantics import names_in_case_of
from zlayout.table.metrics import ColumnMetrics, SizeBucket, layout_metrics, size_histogram
from zlayout.table.state import TableState
from zlayout.text import plural, size


@dataclass(frozen=True, slots=True)
class Inspection:
    """The observed state and the metrics of one table.

    Attributes:
        state: The observed table, with one row per live file in `state.files`.
        spec: The table's layout spec; None if the project declares none.
        target_size: The declared target size in bytes; 128 MiB without a layout spec.
        sizes: The number of files per class of size.
        columns: The metrics of each column: touched, floor, depth and overlaps.
        last_run: Predicted and measured touched of the last apply, as stored in the table; None if nothing is stored.
        query_cost: The mean of what a query of the workload opens at present; None if the layout spec has no workload,
            if none of its queries can skip files of the table, or if no file is laid out.
    """

    state: TableState
    spec: LayoutSpec | None
    target_size: int
    sizes: tuple[SizeBucket, ...]
    columns: tuple[ColumnMetrics, ...]
    last_run: RunMetrics | None = None
    query_cost: QueryCost | None = None

    def __repr__(self) -> str:
        state = self.state
        version = f"{version_word(state.format)} {state.version}"
        files = f"{plural(len(state.files), 'file')}, {size(int(state.files.bytes.sum()))}"
        return f"<{type(self).__name__} of {state.table}: {state.format}, {version}, {files}>"


def inspect(
    project: Project,
    table: str,
    columns: Sequence[str] | None = None,
    *,
    branch: str | None = None,
    timeout: float = TIMEOUT,
) -> Inspection:
    """Observe one table and measure its layout. Reads metadata only.

    Args:
        project: The project with the table's catalog.
        table: `catalog.namespace.table`; it needs no layout spec.
        columns: The columns to measure. Default: the z-order columns of the spec, or every column with bounds.
        branch: The branch of the table. Default: `ref` of its layout, or main.
        timeout: The limit on each read of the table, in seconds.

    Raises:
        SpecError: An argument or a workload file is invalid, or a column has no bounds.
        Refused: ZL237, ZL238, the table has no such branch.
        TableError: The table cannot be read.
    """
    name = known_table(project, table)
    catalog = project.catalogs[name.catalog]
    runtime = SparkRuntime(project)
    backend = backend_for(catalog, runtime)
    spec, schema = layout_of(project, name), None
    if spec is None:
        schema = read_table(lambda: backend.observe(name, ()), name, timeout)
        spec = layout_of_table(project, name, schema)
    name = table_on(name, spec, branch)
    require_branches(catalog, name)
    spec = None if spec is None else replace(spec, table=name)
    if columns is not None:
        wanted = tuple(dict.fromkeys(columns))
    elif spec is not None:
        wanted = spec.column_names
    else:
        assert schema is not None
        wanted = tuple(c.name for c in schema.columns if c.orderable and c.stats)
    state = read_table(lambda: backend.observe(name, wanted), name, timeout)
    if (present := tuple(dict.fromkeys(map(names_in_case_of(state), wanted)))) != wanted:
        wanted = present
        state = read_table(lambda: backend.observe(name, wanted, state.version), name, timeout)
    if missing := [c for c in wanted if c not in state.files.bounds]:
        hint = column_hint(missing[0], [column.name for column in state.columns])
        raise SpecError.of("ZL049", f"expected columns of {table} with bounds, found {missing[0]!r}", hint=hint)
    target = spec.layout.target_size if spec else DEFAULT_SIZE
    laid_out = (state.files.layout >= 0).any()
    return Inspection(
        state,
        spec,
        target,
        size_histogram(state.files.bytes, target),
        layout_metrics(state.files, wanted),
        backend.last_run(name, state) if laid_out else None,
        present_cost(spec, state, project, backends_of(project, runtime), timeout)
        if spec and spec.workload and laid_out
        else None,
    )
