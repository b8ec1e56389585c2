"""Read the other tables of queries, whose conditions limit a table through joins. Starts no JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import numpy as np

from zlayout.advisor.costs import is_named
from zlayout.advisor.joins import NotEvaluatedError, Rows, Through, with_joins
from zlayout.errors import first_line
from zlayout.formats.base import Backend
from zlayout.session.concurrent_reads import TIMEOUT, read_table
from zlayout.session.sampling import SEED
from zlayout.spec.model import TableName
from zlayout.sql_text import path_of
from zlayout.table.state import TableState
from zlayout.workload import Workload, read_workload

# The limits on what is read of one other table, and on the number of these tables.
MAX_TABLES = 50
MAX_ROWS = 5_000_000
MAX_BYTES = 64 * 1024 * 1024  # of column chunks
Result = TypeVar("Result")


def read_joined(
    workload: Workload,
    sources: Sequence[Path],
    known: Mapping[str, Sequence[str]],
    table: TableName,
    state: TableState,
    backends: Mapping[str, Backend],
    max_ranges: int,
) -> tuple[Workload, tuple[Through, ...]]:
    """Return a workload with the conditions through joins on one table as conditions on its own columns.

    It is read once more if it names other tables, since their columns tell to which table an unqualified name belongs.

    Args:
        workload: What `read_workload` returned for `sources` and `known`.
        sources, known: As in `read_workload`.
        table, state: The table.
        backends: By the name of the catalog.
        max_ranges: The number of ranges of keys by which the engine of the queries skips files.

    Raises:
        SpecError: As `read_workload`.
    """
    queries = {scan.query for scan in workload.scans if is_named(scan.table, table, state.location)}
    names = dict.fromkeys(s.table for s in workload.scans if s.query in queries)
    others = OtherTables(table, backends)
    columns = others.columns(name for name in names if not is_named(name, table, state.location))
    if columns:
        workload = read_workload(sources, {**columns, **known})
    return with_joins(workload, table, state, others.rows, max_ranges)


@dataclass(slots=True)
class OtherTables:
    """The tables that are joined to a table. The metadata of each is read once.

    Attributes:
        table: The table. A name in a query that lacks a namespace or catalog has that of this table.
        backends: By the name of the catalog.
        timeout: The limit on each read, in seconds.
    """

    table: TableName
    backends: Mapping[str, Backend]
    timeout: float = TIMEOUT
    _found: dict[str, tuple[TableName, TableState] | str] = field(default_factory=dict)

    def columns(self, names: Iterable[str]) -> dict[str, list[str]]:
        """Return the names of the columns of tables as far as they can be read, by the name of the table in queries."""
        found = {}
        for name in names:
            if not isinstance(observed := self._table(name), str):
                state = observed[1]
                columns = [c.name for c in state.columns] + [f.source for f in state.partition_fields]
                found[name] = list(dict.fromkeys(part for c in columns for part in (c, path_of(c)[0])))
        return found

    def rows(self, name: str, columns: frozenset[str]) -> Rows:
        """Return the rows of a table, see `zlayout.advisor.joins.ReadRows`. Raises NotEvaluatedError."""
        observed = self._table(name)
        if isinstance(observed, str):
            raise NotEvaluatedError(observed)
        table, state = observed
        if "collations" in state.features:
            raise NotEvaluatedError(f"{name} has columns with a collation")
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
        """Return the table of this name, or the reason why it is unknown."""
        if name not in self._found:
            try:
                self._found[name] = self._observed(name)
            except NotEvaluatedError as error:
                self._found[name] = str(error)
        return self._found[name]

    def _observed(self, name: str) -> tuple[TableName, TableState]:
        own = (self.table.catalog, *self.table.identifier)
        parts = () if "/" in name else tuple(name.split("."))
        catalog, *identifier = (*own[: max(len(own) - len(parts), 0)], *parts) if parts else own[:1]
        backend = self.backends.get(catalog)
        if backend is None or not identifier:
            raise NotEvaluatedError(f"{name} is in no catalog of the project")
        if len(self._found) >= MAX_TABLES:
            raise NotEvaluatedError(f"more than {MAX_TABLES} tables")
        table = TableName(catalog, tuple(identifier[:-1]), identifier[-1])
        return table, self._read(name, lambda: backend.observe(table, ()), table)

    def _read(self, name: str, read: Callable[[], Result], table: TableName) -> Result:
        try:
            return read_table(read, table, self.timeout)
        except Exception as error:  # a reader may raise anything, and the condition is then not used
            raise NotEvaluatedError(f"{name} cannot be read: {first_line(error)}") from None
