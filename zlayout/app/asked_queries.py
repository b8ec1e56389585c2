"""Find the workload files of a table, and the queries in them that can skip files of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from zlayout.advisor.model import TableWorkload
from zlayout.advisor.queries import queries_on
from zlayout.errors import SpecError
from zlayout.report.words import printable
from zlayout.spec.model import LayoutSpec, TableName
from zlayout.table.state import TableState
from zlayout.workload import Workload


def sources_of(given: Sequence[str | Path], spec: LayoutSpec) -> list[Path]:
    """Return the given workload files, or those of the layout spec. Raises SpecError ZL077 if there are none."""
    sources = [Path(path) for path in given] or list(spec.workload)
    if not sources:
        hint = "use --workload FILE, or put files with queries into workloads/"
        raise SpecError.of("ZL077", f"no workload is given for {spec.table}, and its layout has none", hint=hint)
    return sources


def on_table_of(workload: Workload, name: TableName, state: TableState) -> TableWorkload:
    """Return the part of the workload on the table. Raises SpecError ZL073 if no query of it can skip files."""
    found = queries_on(workload, name, state)
    if found.queries:
        return found
    if found.coverage.queries:
        reasons = Counter(u.reason for u in found.unused).most_common(3)
        hint = "; ".join(f"{count} times: {reason}" for reason, count in reasons)
        raise SpecError.of(
            "ZL073",
            f"no query of the workload has a condition that can skip files of {name}",
            hint=hint or "use conditions that compare a column with a constant",
        )
    others = sorted({s.table for s in workload.scans})
    hint = f"the queries read {printable(', '.join(others))[:200]}" if others else "no query could be read"
    raise SpecError.of("ZL073", f"no query of the workload reads {name}", hint=hint)
