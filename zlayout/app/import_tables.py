"""Make layout specs from all tables of a catalog whose names match a pattern."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from zlayout.app.concurrent_reads import Reading, no_answer, read_all, read_one
from zlayout.app.import_ import ImportedLayout, layout_from
from zlayout.app.project import known_table
from zlayout.errors import SpecError, ZlayoutError
from zlayout.formats.registry import backend_for
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import Project, TableName
from zlayout.spec.patterns import WILDCARDS


@dataclass(frozen=True, slots=True)
class NotImported:
    """A name that matches the pattern and was not imported, and the reason."""

    table: TableName
    error: ZlayoutError


def is_pattern(table: str) -> bool:
    """Return whether the text is a pattern: it contains a wildcard outside of backticks."""
    return any(character in part for part in table.split("`")[::2] for character in WILDCARDS)


def import_tables(
    project: Project,
    pattern: str,
    columns: Sequence[str] = (),
    reading: Reading = Reading(),  # noqa: B008 - frozen
) -> list[ImportedLayout | NotImported]:
    """Make a layout spec for each table that a pattern matches. Reads metadata only.

    Args:
        project: The project with the catalog.
        pattern: `catalog.namespace.table`, in which namespace and table may be globs.
        columns: The z-order columns of all layouts. Default: those of the layout record, or of the external ordering.
        reading: The limits on reading the tables.

    Returns:
        For each matching name, sorted, its layout or the reason why there is none: the catalog's entry is not a table
        of the format, the table has a layout already, it has no known ordering, or it cannot be read.

    Raises:
        SpecError: ZL020 (invalid pattern), ZL021 (unknown catalog), ZL038 (no table matches).
        TableError: The catalog cannot be reached, or is a type that cannot list.
    """
    globs = known_table(project, pattern)
    backend = backend_for(project.catalogs[globs.catalog], SparkRuntime(project))
    listed = read_one(lambda: tuple(backend.list_tables(globs)), globs, reading.timeout)
    if not listed:
        hint = f"check namespace and letter case; list all with {globs.catalog}.*.*"
        raise SpecError.of("ZL038", f"no table of catalog {globs.catalog} matches {globs}", hint=hint)

    def read(number: int) -> ImportedLayout | NotImported:
        table, problem = listed[number].table, listed[number].problem
        try:
            if problem is not None:
                raise problem
            return layout_from(project, table, backend, columns)
        except ZlayoutError as error:
            return NotImported(table, error)

    def late(number: int) -> ImportedLayout | NotImported:
        table = listed[number].table
        return NotImported(table, no_answer(table, reading.timeout))

    return read_all([globs.catalog] * len(listed), read, late, reading)
