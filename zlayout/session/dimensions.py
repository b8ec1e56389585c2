"""Read the other tables of queries, whose conditions limit a table through joins. Starts no JVM."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as arrow_csv
import pyarrow.parquet as pq
import pyarrow.types as pt

from zlayout.advisor.costs import is_named
from zlayout.advisor.joins import MAX_RANGES, Bounds, NotEvaluatedError, Rows, Through, with_joins
from zlayout.errors import SpecError, TableError, first_line
from zlayout.formats.base import Backend
from zlayout.predicate.model import columns
from zlayout.reading import open_file
from zlayout.session.concurrent_reads import TIMEOUT, begin_read, read_table
from zlayout.session.sampling import SEED
from zlayout.spec.load import Folder
from zlayout.spec.model import Export, Project, TableName
from zlayout.table.location import canonical
from zlayout.table.partition import source_columns
from zlayout.table.state import Column, TableState
from zlayout.text import path_of, quote_value
from zlayout.workload.files import read_workload
from zlayout.workload.model import Scan, Workload
from zlayout.workload.queries import FURTHER

# The limits on what is read of one other table, and on the number of these tables.
MAX_TABLES = 50
MAX_ROWS = 5_000_000
MAX_BYTES = 64 * 1024 * 1024  # of column chunks, or of CSV files
MAX_FILES = 1000  # of one export
MAX_STRING_BYTES = 256 * 1024 * 1024  # of strings in Parquet files, after decompression
BATCH_ROWS = 1 << 14
Result = TypeVar("Result")


def read_joined(
    workload: Workload,
    sources: Sequence[Path],
    known: Mapping[str, Sequence[str]],
    table: TableName,
    state: TableState,
    backends: Mapping[str, Backend],
    project: Project,
    candidates: Iterable[str] = (),
) -> tuple[Workload, tuple[Through, ...]]:
    """Return a workload with the conditions through joins on one table as conditions on its own columns.

    It is read once more if it names other tables, since their columns tell to which table an unqualified name belongs.

    Args:
        workload: What `read_workload` returned for `sources` and `known`.
        sources, known: As in `read_workload`.
        table, state: The table.
        backends: By the name of the catalog.
        project: The project, with the engine of the queries and the exports.
        candidates: The columns by which the table may be partitioned, besides those by which it is.

    Raises:
        SpecError: As `read_workload`; ZL098, an export that the queries need cannot be read.
    """
    skipping = project.key_skipping
    if len(state.files) < skipping.min_files or state.files.bytes.sum() < skipping.min_bytes:
        return workload, ()
    keys = (*source_columns(state.partition_fields), *candidates)
    by_partitions = {name.lower() for name in keys} if skipping.partitions else None
    if by_partitions is not None and not by_partitions:  # for most tables, without a look at each query
        return workload, ()
    own = [scan for scan in workload.scans if is_named(scan.table, table, state.location)]
    queries = {scan.query for scan in own if by_partitions is None or _may_join_by(by_partitions, scan)}
    if not queries:
        return workload, ()
    names = dict.fromkeys(s.table for s in workload.scans if s.query in queries)
    unread = project.exports if by_partitions is not None else ()  # see `OtherTables.rows`
    others = OtherTables(table, backends, project)
    of_others = others.columns(n for n in names if n not in unread and not is_named(n, table, state.location))
    if of_others:
        workload = read_workload(sources, {**of_others, **known})
    if by_partitions is None:
        return with_joins(workload, table, state, others.rows, 1, project.exports, skipping.rows)
    exports, rows, bounds = project.exports, skipping.rows, _bounds_of(table, state, backends[table.catalog])
    return with_joins(workload, table, state, others.rows, MAX_RANGES, exports, rows, by_partitions, bounds)


def _bounds_of(table: TableName, state: TableState, backend: Backend) -> Bounds:
    """Return a function that returns the bounds of a column of integers or dates; None if they are unknown."""

    @cache
    def bounds(column: Column) -> tuple[pa.Scalar, pa.Scalar] | None:
        if not (pt.is_signed_integer(column.type) or pt.is_date32(column.type)):
            return None
        files = state.files
        if column.name not in files.bounds:
            try:
                files = read_table(lambda: backend.observe(table, (column.name,), state.version), table).files
            except Exception:  # a reader may raise anything, and bounds are needed only if there are many ranges
                return None
        of = files.bounds[column.name]
        known = of.lower.is_valid().to_numpy(zero_copy_only=False) & of.upper.is_valid().to_numpy(zero_copy_only=False)
        if not known.any() or not (known | (of.null_count == files.rows)).all():
            return None
        return pc.min(of.lower), pc.max(of.upper)

    return bounds


def column_names(state: TableState) -> list[str]:
    """Return the names of the columns, and of the columns that contain nested columns."""
    names = [c.name for c in state.columns] + [f.source for f in state.partition_fields]
    return list(dict.fromkeys(part for name in names for part in (name, path_of(name)[0])))


def _may_join_by(names: Collection[str], scan: Scan) -> bool:
    """Return whether a query may join a table by one of these columns, so that other tables must be read to know."""
    text = scan.query.text.lower()
    known = (name.lower() for predicate in scan.through for name in columns(predicate))
    return any(name in names for name in known) or "natural" in text or any(name in text for name in names)


@dataclass(slots=True)
class OtherTables:
    """The tables that are joined to a table. The metadata of each is read once.

    Attributes:
        table: The table. A name in a query that lacks a namespace or catalog has that of this table.
        backends: By the name of the catalog.
        project: The project. Its exports are read instead of the tables of these names.
        timeout: The limit on each read, in seconds.
    """

    table: TableName
    backends: Mapping[str, Backend]
    project: Project
    timeout: float = TIMEOUT
    _found: dict[str, tuple[TableName, TableState] | str] = field(default_factory=dict)
    _files: dict[str, _ExportedTable] = field(default_factory=dict)

    def columns(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Return the names of the columns of tables as far as they can be read, by the name of the table in queries.

        An export may lack columns of the table. Raises SpecError ZL098.
        """
        found = {}
        for name in names:
            if name in self.project.exports:
                found[name] = [*self._exported(name).columns, FURTHER]
            elif not isinstance(observed := self._table(name), str):
                found[name] = column_names(observed[1])
        return found

    def rows(self, name: str, columns: frozenset[str]) -> Rows:
        """Return the rows of a table as `zlayout.advisor.joins.ReadRows` does.

        Raises:
            NotEvaluatedError: A table of a catalog cannot be used.
            SpecError: ZL098, an export cannot be read.
        """
        limit = self.project.key_skipping.max_bytes
        if name in self.project.exports:
            if limit is not None:
                raise NotEvaluatedError(
                    f"the size of {name} is unknown, by which Spark decides whether to broadcast it"
                )
            exported = self._exported(name)
            return Rows(exported.columns, exported.within(lambda: exported.read(columns), self.timeout, self.table))
        observed = self._table(name)
        if isinstance(observed, str):
            raise NotEvaluatedError(observed)
        table, state = observed
        if "collations" in state.features:
            raise NotEvaluatedError(f"{name} has columns with a collation")
        if limit is not None and int(state.files.bytes.sum()) > limit:
            raise NotEvaluatedError(f"{name} has more than {limit // 1024**2} MiB, and Spark may not broadcast it")
        if not (count := int(state.files.rows.sum())):
            raise NotEvaluatedError(f"{name} has no rows")
        if count > MAX_ROWS:
            raise NotEvaluatedError(f"{name} has {count:,} rows, and at most {MAX_ROWS:,} are read")
        known = {c.name.lower(): c for c in state.columns}
        wanted = [known[column].name for column in sorted(columns) if column in known]
        every = np.arange(len(state.files))
        backend = self.backends[table.catalog]
        sample = self._read(name, lambda: backend.sample_keys(table, state, every, wanted, MAX_BYTES, SEED), table)
        if not sample.complete:
            raise NotEvaluatedError(f"the columns of {name} have more than {MAX_BYTES // 1024**2} MiB")
        return Rows(known, sample.keys)

    def _table(self, name: str) -> tuple[TableName, TableState] | str:
        if name not in self._found:
            try:
                self._found[name] = self._observed(name)
            except NotEvaluatedError as error:
                self._found[name] = str(error)
        return self._found[name]

    def _observed(self, name: str) -> tuple[TableName, TableState]:
        if "/" in name:
            table = self._at(canonical(name))
        else:
            own, parts = (self.table.catalog, *self.table.identifier), name.split(".")
            catalog, *identifier = (*own[: max(len(own) - len(parts), 0)], *parts)
            table = TableName(catalog, tuple(identifier[:-1]), identifier[-1]) if identifier else None
        backend = None if table is None else self.backends.get(table.catalog)
        if table is None or backend is None:
            raise NotEvaluatedError(f"{name} is in no catalog of the project")
        if len(self._found) >= MAX_TABLES:
            raise NotEvaluatedError(f"more than {MAX_TABLES} tables")
        state = self._read(name, lambda: backend.observe(table, ()), table)
        if "/" in name and canonical(state.location) != canonical(name):
            raise NotEvaluatedError(f"{name} is in no catalog of the project")
        return table, state

    def _at(self, location: str) -> TableName | None:
        for name, catalog in self.project.catalogs.items():
            if catalog.type != "path":
                continue
            for table, at in catalog.options.get("tables", {}).items():
                if canonical(at) == location:
                    *namespace, last = table.split(".")
                    return TableName(name, tuple(namespace), last)
            warehouse = canonical(catalog.options["warehouse"]) if catalog.options.get("warehouse") else location
            if location.startswith(f"{warehouse}/"):
                *namespace, last = location.removeprefix(f"{warehouse}/").split("/")
                return TableName(name, tuple(namespace), last)
        return None

    def _read(self, name: str, read: Callable[[], Result], table: TableName) -> Result:
        try:
            return read_table(read, table, self.timeout)
        except Exception as error:  # a reader may raise anything, and the condition is then not used
            raise NotEvaluatedError(f"{name} cannot be read: {first_line(error)}") from None

    def _exported(self, name: str) -> _ExportedTable:
        if name not in self._files:
            table = _ExportedTable(self.project.exports[name], self.project.root)
            table.within(table.open, self.timeout, self.table)
            self._files[name] = table
        return self._files[name]


@dataclass(slots=True)
class _ExportedTable:
    """The files of an export. columns: by name in lower case, known after `open`. Methods raise SpecError ZL098."""

    export: Export
    root: Path
    columns: dict[str, Column] = field(default_factory=dict)
    _paths: list[Path] = field(default_factory=list)

    def within(self, read: Callable[[], Result], timeout: float, table: TableName) -> Result:
        """Return the result of `read`, one of the methods below, within a time limit."""
        try:
            return begin_read(read, table, timeout)()
        except TableError:
            raise self._error(f"the files were not read within {timeout:g} s", "copy them to a local disk") from None

    def open(self) -> None:
        """Find the files, and determine the columns from the declaration or from the footers of all files."""
        folder, files = Folder(self.root), self.export.files
        try:
            found = sorted(path for path in folder.matching(files) if not path.is_dir())
        except ValueError as error:
            raise self._error(f"expected a file pattern, found {quote_value(files)}: {error}") from None
        if not found:
            raise self._error(f"no file matches {quote_value(files)}", "export the table, or correct the pattern")
        if len(found) > MAX_FILES:
            raise self._error(f"{len(found):,} files match {quote_value(files)}, and zlayout reads {MAX_FILES:,}")
        for path in found:
            if not folder.contains(path):
                raise self._error("a link points outside the project", "copy the file into the project", path)
        self._paths = found
        types = {name: _type_of(kind) for name, kind in self.export.columns.items()} or self._footers()
        self.columns = {name.lower(): Column(name, kind, orderable=True) for name, kind in types.items()}

    def read(self, names: frozenset[str]) -> dict[str, pa.Array]:
        """Return the values of the columns of these names, as far as there are any."""
        wanted = [self.columns[name] for name in sorted(names) if name in self.columns]
        if not wanted:
            return {}
        batches = self._csv(wanted) if self.export.columns else self._parquet(wanted)
        parts: dict[str, list[pa.Array]] = {column.name: [] for column in wanted}
        rows = 0
        for batch in batches:
            rows += batch.num_rows
            if rows > MAX_ROWS:
                raise self._error(f"the files have more than {MAX_ROWS:,} rows, the limit of zlayout")
            for column in wanted:
                parts[column.name].append(batch.column(column.name))
        if not rows:
            raise NotEvaluatedError(f"the export of {self.export.table} has no rows")
        return {column.name: pa.concat_arrays(parts[column.name]) for column in wanted}

    def _footers(self) -> dict[str, pa.DataType]:
        types: dict[str, pa.DataType] = {}
        for path in self._paths:
            with self._reading(path), open_file(path) as file:
                schema = pq.ParquetFile(file).schema_arrow
            here = {f.name: f.type.value_type if pt.is_dictionary(f.type) else f.type for f in schema}
            if len({name.lower() for name in here}) < len(schema):
                raise self._error("expected columns whose names differ by more than letter case", "", path)
            if types and here != types:
                raise self._error(f"expected the columns and types of {self._paths[0].name}", "", path)
            types = here
        return {name: kind for name, kind in types.items() if _is_flat(kind)}

    def _parquet(self, wanted: Sequence[Column]) -> Iterator[pa.RecordBatch]:
        names = [column.name for column in wanted]
        texts = [c.name for c in wanted if pt.is_string(c.type) or pt.is_large_string(c.type)]
        size = decoded = 0
        for path in self._paths:
            with self._reading(path), open_file(path) as file:
                parquet = pq.ParquetFile(file, read_dictionary=texts)
                groups = [parquet.metadata.row_group(n) for n in range(parquet.metadata.num_row_groups)]
                chunks = (group.column(n) for group in groups for n in range(group.num_columns))
                size += sum(chunk.total_compressed_size for chunk in chunks if chunk.path_in_schema in names)
                self._require_size(size, path)
                for batch in parquet.iter_batches(BATCH_ROWS, columns=names, use_threads=False):
                    # A value that occurs often takes its bytes once in a file, and for each row after it is decoded.
                    decoded += sum(_decoded_bytes(batch.column(name)) for name in texts)
                    if decoded > MAX_STRING_BYTES:
                        message = f"the strings have more than {MAX_STRING_BYTES // 1024**2} MiB, the limit of zlayout"
                        raise self._error(message, "", path)
                    plain = [_plain(batch.column(column.name), column.type) for column in wanted]
                    yield pa.record_batch(plain, names=names)

    def _csv(self, wanted: Sequence[Column]) -> Iterator[pa.RecordBatch]:
        size = 0
        convert = arrow_csv.ConvertOptions(
            column_types={column.name: column.type for column in wanted},
            include_columns=[column.name for column in wanted],
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        )
        for path in self._paths:
            with self._reading(path):
                with open_file(path) as file:
                    content = file.read(MAX_BYTES - size + 1)
                size += len(content)
                self._require_size(size, path)
                if b'\\"' in content:
                    hint = "export it as Parquet, or without a character that escapes quotes"
                    raise self._error("expected quotes in values to be doubled, found \\ before a quote", hint, path)
                if content.count(b'"') % 2:
                    raise self._error("expected an even number of quotes", "a quote is missing", path)
                header = next(csv.reader(io.StringIO(content[: 1 << 16].decode("utf-8-sig", "replace"))), [])
                for column in wanted:
                    if header.count(column.name) != 1:
                        found = "no such column" if column.name not in header else "several"
                        message = f"expected a header with the column {quote_value(column.name)}, found {found}"
                        raise self._error(message, "", path)
                read = arrow_csv.ReadOptions(use_threads=False)
                parse = arrow_csv.ParseOptions(newlines_in_values=True)
                yield from arrow_csv.open_csv(io.BytesIO(content), read, parse, convert)

    def _require_size(self, size: int, path: Path) -> None:
        if size > MAX_BYTES:
            what = "the files have" if self.export.columns else "the columns that the queries need have"
            hint = "export only the columns that the queries need" if self.export.columns else ""
            raise self._error(f"{what} more than {MAX_BYTES // 1024**2} MiB, the limit of zlayout", hint, path)

    @contextmanager
    def _reading(self, path: Path) -> Iterator[None]:
        kind = "CSV file" if self.export.columns else "Parquet file"
        try:
            yield
        except (OSError, pa.ArrowException, UnicodeError, csv.Error) as error:
            raise self._error(f"expected a {kind} of the declared columns: {first_line(error)}", "", path) from None

    def _error(self, message: str, hint: str = "", path: Path | None = None) -> SpecError:
        at = "" if path is None else f" ({path.relative_to(self.root)})"
        message = f"the export of {quote_value(self.export.table)} cannot be read: {message}{at}"
        return SpecError.of("ZL098", message, hint=hint, location=self.export.location)


def _type_of(declared: str) -> pa.DataType:
    if declared.startswith("decimal"):
        precision, scale = map(int, declared.removeprefix("decimal(").rstrip(")").split(","))
        return pa.decimal128(precision, scale)
    return {"integer": pa.int64(), "string": pa.string(), "date": pa.date32(), "boolean": pa.bool_()}[declared]


def _is_flat(kind: pa.DataType) -> bool:
    checks = (pt.is_signed_integer, pt.is_decimal128, pt.is_float64, pt.is_string, pt.is_large_string, pt.is_date32)
    return bool(pt.is_boolean(kind)) or any(check(kind) for check in checks)


def _decoded_bytes(values: pa.Array) -> int:
    if pt.is_dictionary(values.type):
        lengths = pc.binary_length(values.dictionary).take(values.indices)
    else:
        lengths = pc.binary_length(values)
    return pc.sum(lengths.cast(pa.int64())).as_py() or 0


def _plain(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values.dictionary_decode().cast(kind) if pt.is_dictionary(values.type) else values
