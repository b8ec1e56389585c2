"""Simulate layouts of a table on a sample of its rows, search for the layout with the lowest cost, and write it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from zlayout.advisor.costs import EVERY_ROW, in_partitions
from zlayout.advisor.joins import Through, through_texts
from zlayout.advisor.model import Study
from zlayout.advisor.partitioning import MAX_SOURCES, partition_keys
from zlayout.advisor.query_costs import declared_layout, fitting, queried_columns, rewrite_of_table, searched
from zlayout.advisor.study import Progress, Question, study, with_workload
from zlayout.errors import Location, SpecError
from zlayout.formats.base import Backend
from zlayout.formats.registry import backend_for
from zlayout.planner.sampled import columns_of_moves
from zlayout.planner.simulation import targets_of
from zlayout.process import give_back_freed_memory
from zlayout.session.concurrent_reads import read_table
from zlayout.session.files import write_atomically
from zlayout.session.import_ import layouts_of, parse_columns, target_size
from zlayout.session.plan import backends_of
from zlayout.session.project import MAX_NEW_FILES, known_table, layout_of, load_project, require_count, require_number
from zlayout.session.rules import layout_of_table
from zlayout.session.sampling import draw_sample, rows_of_small, stored_rows
from zlayout.session.workloads import OtherTables, column_names, on_table_of, read_joined, sources_of
from zlayout.spark.session import SparkRuntime, runtime_for
from zlayout.spec.formats import FORMATS
from zlayout.spec.layouts import with_layout
from zlayout.spec.model import CLUSTERING_CURVE, Layout, LayoutSpec, Project, TableName
from zlayout.table.partition import PartitionField
from zlayout.table.state import TableState
from zlayout.text import first_of, plural
from zlayout.workload.files import read_workload

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


SAMPLE_ROWS_PER_FILE = 2_000  # as many as a rewrite samples
MAX_THROUGH_SHOWN = 5
MIN_SAMPLE_ROWS, MAX_SAMPLE_ROWS = 50_000, 1_000_000


@dataclass(frozen=True, slots=True)
class SampleStarted:
    """Spark begins to sample a table.

    Attributes:
        rows: The number of rows to draw.
        total: The number of live rows of the table.
        seed: The seed of the sample.
    """

    table: str
    rows: int
    total: int
    seed: int


AdviceEvent = SampleStarted | Progress


@dataclass(frozen=True, slots=True)
class StudyOptions:
    """Options of a study. The constructor raises SpecError ZL084 for an invalid number.

    Attributes:
        columns: The layouts to simulate. Each is a list of columns with weights, for example `a,b=2`.
        curve: The curve of these layouts, and the only one that the search uses. Default: the declared curve for these
            layouts, and all curves for the search.
        files: The number of files after the rewrite, at most 10,000,000. Default: derived from the target size.
        sample_rows: The number of rows to draw. Default: 2,000 per file, at least 50,000 and at most 1,000,000.
        seed: The seed of the sample.
        search: Whether to search for a layout with lower cost.
        time_limit: The limit on search and measurement, in seconds.
    """

    columns: tuple[str, ...] = ()
    curve: str | None = None
    files: int | None = None
    sample_rows: int | None = None
    seed: int = 0
    search: bool = True
    time_limit: float = 60.0

    def __post_init__(self) -> None:
        require_number("time_limit", self.time_limit)
        for name, value, most in (("files", self.files, MAX_NEW_FILES), ("sample_rows", self.sample_rows, None)):
            if value is not None:
                require_count(name, value, most)


def advise(
    project: Project,
    table: str,
    workload: Sequence[str | Path],
    options: StudyOptions = StudyOptions(),
    *,
    spark: SparkSession | None = None,
    on_event: Callable[[AdviceEvent], None] | None = None,
) -> Study:
    """Find the columns, weights and curve with the lowest cost for a workload.

    The rows are sampled on Spark, unless the table is small. Nothing is written.

    Args:
        project: The project with the table's catalog.
        table: `catalog.namespace.table`; it needs no layout spec.
        workload: Files with queries: `.sql`, `.csv` or Spark event logs. Empty: the workload of the table's layout, or
            of the project if it has no layout.
        options: What to simulate; `StudyOptions(columns=("a,b",), search=False)` only simulates the given layouts.
        spark: A running session to draw the sample in; see `apply`. Default: a new one.
        on_event: Called with each `SampleStarted` and each `Progress` of the search.

    Returns:
        The simulated layouts with their cost per query, and a recommendation.

    Raises:
        SpecError: The table name, the workload or the options are invalid, or no query can skip files.
        TableError: The table cannot be read.
        EngineError: The sample cannot be drawn.
        Refused: `spark` is a session that zlayout cannot work in.
    """
    runtime = runtime_for(project, spark, [project.catalogs[known_table(project, table).catalog]])
    return make_study(project, table, workload, options, runtime, on_event or (lambda _event: None))


def make_study(
    project: Project,
    table: str,
    workload: Sequence[str | Path],
    options: StudyOptions,
    runtime: SparkRuntime,
    on_event: Callable[[AdviceEvent], None],
) -> Study:
    """Make a study on a runtime that is stopped at the end. Raises the errors of `advise`.

    The log of Spark is kept only if an error is raised.
    """
    name = known_table(project, table)
    backend = backend_for(project.catalogs[name.catalog], runtime)
    schema = read_table(lambda: backend.observe(name, ()), name)
    spec = fitting(layout_of_table(project, name, schema) or _empty_spec(project, name, schema), schema)
    sources = sources_of(workload, spec)
    declared, notes = declared_layout(spec, schema, backend.capabilities)
    base, curve = searched(spec, schema), options.curve or (CLUSTERING_CURVE if schema.clustering else None)
    given = layouts_of([parse_columns(text) for text in options.columns], curve, base, schema)
    known = {name.name: column_names(schema)}
    read = read_workload(sources, known)
    is_free = project.key_skipping.partitions and options.search and _may_be_partitioned(spec, schema)
    backends = backends_of(project, runtime) | {name.catalog: backend}
    candidates = [c.name for c in schema.columns if is_free and partition_keys(c, transforms=False)]
    read, used = read_joined(read, sources, known, schema, OtherTables(name, backends, project), candidates)
    through = through_texts(used)
    partitions = _partition_keys(used, schema, backend) if is_free else ()
    on_table = on_table_of(read, name, schema)
    layouts = (*given, declared) if declared else given
    columns = queried_columns([c.name for layout in layouts for c in layout.columns], on_table.queries, schema)
    state = read_table(lambda: backend.observe(name, columns, schema.version), name)
    if not (files := int(targets_of(state.files, spec.layout.target_size, options.files).sum())):
        raise SpecError.of("ZL075", f"{name} has no rows", hint="load data into the table first")
    rows = options.sample_rows or min(max(SAMPLE_ROWS_PER_FILE * files, MIN_SAMPLE_ROWS), MAX_SAMPLE_ROWS)
    total = int(state.files.live_rows.sum())
    on_event(SampleStarted(str(name), min(rows, total), total, options.seed))
    sampled = tuple(dict.fromkeys((*columns, *columns_of_moves(state, state.partition_fields))))
    sample = rows_of_small(backend, name, state, sampled, rows, options.seed)
    if sample is None:
        give_back_freed_memory()  # the JVM of Spark needs the memory
        with runtime:
            sample = draw_sample(backend, name, state, sampled, rows, options.seed)
            runtime.discard_log()
    if not len(sample):
        hint = "use a larger --sample-rows, or another --seed"
        raise SpecError.of("ZL075", f"the sample of {name} is empty", hint=hint)
    cuts = options.search and curve is None and base.engine == "zlayout"
    stored = stored_rows(backend, name, state, np.arange(len(state.files), dtype=np.int64), columns)
    question = Question(given, declared, base, options.search, curve, options.time_limit, cuts, partitions)
    rewrite = rewrite_of_table(spec, state, columns, sample, options.files, stored)
    found = study(state, in_partitions(on_table.queries, state), rewrite, question, on_event)
    if through:
        joined, how, rest = first_of(through, MAX_THROUGH_SHOWN), "to skip files", ""
        if project.key_skipping.partitions:
            has_partitions = bool(state.partition_fields) or (found.best is not None and found.best.partition_by)
            how = "to skip partitions" if has_partitions else "but Spark skips only partitions by them"
            every = sum(all(p == EVERY_ROW for p in query.predicates) for query in found.queries)
            if every and not has_partitions:
                rest = f" Without partitions, {every:,} of {plural(len(found.queries), 'query')} read every file."
        notes = (*notes, f"Conditions on other tables are used through joins, {how}: {joined}.{rest}")
    return with_workload(replace(found, notes=(*notes, *found.notes)), tuple(map(str, sources)), read, on_table)


def _may_be_partitioned(spec: LayoutSpec, state: TableState) -> bool:
    has_partitions = any(p.fields for p in state.files.partitions) or state.partition_fields
    return not has_partitions and not state.clustering and spec.layout.engine == "zlayout" and spec.where is None


def _partition_keys(used: Sequence[Through], state: TableState, backend: Backend) -> tuple[PartitionField, ...]:
    weights: dict[str, float] = {}
    for one in used:
        weights[one.column] = weights.get(one.column, 0.0) + one.query.weight
    known = {column.name.lower(): column for column in state.columns}
    transforms = FORMATS[state.format].partition_transforms
    sources = [known[name.lower()] for name in sorted(weights, key=lambda name: (-weights[name], name))][:MAX_SOURCES]
    found = (field for column in sources for field in partition_keys(column, transforms=transforms))
    return tuple(field for field in found if not backend.partition_diagnostics((field,), state))


def _empty_spec(project: Project, name: TableName, state: TableState) -> LayoutSpec:
    layout = Layout((), "kd", 1000, False, target_size(state), True, "zlayout")
    return LayoutSpec(name, layout, Location(str(name)), workload=project.workload)


def own_layout(project: Project, table: str) -> LayoutSpec:
    """Return the layout spec that names the table. Raises SpecError ZL076 if there is none."""
    spec = layout_of(project, known_table(project, table))
    if spec is None:
        hint = f"write one first: `zlayout import {table}`. A rule is not changed"
        raise SpecError.of("ZL076", f"no layout file names {table}", hint=hint)
    return spec


def write_advice(project: Project, found: Study) -> Path | None:
    """Write the best layout of a study into the layout file of its table.

    The project is then loaded again, to check that it declares this layout.

    Returns:
        The path of the file; None if nothing was written, because no layout is recommended or it is the declared one.

    Raises:
        SpecError: ZL076, the table has no layout file, or the file cannot be changed. It then keeps its content. A
            link is kept, and the file in the project to which it leads is changed.
    """
    spec = own_layout(project, found.table)
    if found.best is None or (found.best.layout == spec.layout and found.best.partition_by is None):
        return None
    path, wanted = Path(spec.location.path), found.best.layout
    partition_by = found.best.partition_by
    target = Path(os.path.realpath(path))  # in the project: other links are refused when it is loaded
    try:
        before = target.read_bytes().decode("utf-8")
        write_atomically(target, with_layout(before, spec.layout, wanted, partition_by))
        if _declared(project, found.table) == (wanted, spec.partition_by if partition_by is None else partition_by):
            return path
        write_atomically(target, before)
        reason = "with the change, it would not declare the recommended layout"
    except OSError as error:
        reason = error.strerror or type(error).__name__
    raise SpecError.of(
        "ZL076", f"cannot change {path}: {reason}", hint="copy the printed keys into the file", location=spec.location
    )


def _declared(project: Project, table: str) -> object:
    try:
        spec = own_layout(load_project(project.root), table)
        return spec.layout, spec.partition_by
    except SpecError:
        return None
