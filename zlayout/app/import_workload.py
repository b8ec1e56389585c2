"""Import query histories of engines as a workload of the project. Reads no table and starts no JVM."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from zlayout.app.arguments import require_choice, require_count, require_positive, require_project
from zlayout.app.files import write_result
from zlayout.errors import SpecError
from zlayout.spec.model import Project
from zlayout.workload.history.read import read_history
from zlayout.workload.history.records import Problem
from zlayout.workload.history.shapes import BINS, Values, merge, to_file


@dataclass(frozen=True, slots=True)
class ImportedWorkload:
    """An imported workload.

    Attributes:
        text: The workload file: SQL statements with weights.
        statements: The number of its statements.
        executions: The number of executions of these statements.
        problems: The records that could not be read, with their locations.
        left_out: The number of records that are not part of the workload, by the reason.
    """

    text: str
    statements: int
    executions: float
    problems: tuple[Problem, ...]
    left_out: Mapping[str, int]

    def write(self, path: Path, *, replace: bool = False) -> Path:
        """Write the file atomically.

        Raises:
            SpecError: The file exists and `replace` is false, it cannot be written, or its path contains a link.
        """
        if path.exists() and not replace:
            raise SpecError.of("ZL079", f"{path} exists", hint="use --replace, or another --out")
        write_result(path, self.text, "ZL079", str(path), "use another --out", make_folder=True)
        return path


def import_workload(
    project: Project,
    paths: Iterable[str | Path],
    values: str | Values = Values.BIN,
    bins: int = BINS,
    days: float | None = None,
) -> ImportedWorkload:
    """Merge query histories by query shape.

    Args:
        project: The project. Table names in the workload keep the names of its catalogs.
        paths: Spark event logs; query histories of Trino, Databricks, Snowflake, Athena and BigQuery as CSV or JSON;
            scan reports of Iceberg and Delta; workload files.
        values: What happens to constants: "keep" all of them; "bin" them, so that a query shape has at most `bins`
            statements; or "omit" them.
        bins: The maximum number of statements of one query shape, if `values` is "bin".
        days: The number of days that the histories cover. Plans need it to compute the pay-back.

    Raises:
        SpecError: An argument is invalid, a file is not a known history, or the files have no query on a table.
    """
    require_project(project)
    require_choice("values", values, Values)
    require_count("bins", bins)
    if days is not None:
        require_positive("days", days)
    history = read_history(map(Path, paths))
    merged = merge(history, frozenset(project.catalogs), Values(values), bins)
    if not merged:
        first = f"; {history.problems[0].location}: {history.problems[0].reason}" if history.problems else ""
        raise SpecError.of("ZL079", f"the files have no query on a table{first}", hint="export queries that have ended")
    problems, left_out = tuple(history.problems), dict(history.left_out)
    return ImportedWorkload(to_file(merged, days), len(merged), sum(m.count for m in merged), problems, left_out)
