"""What a type checker sees of the public API. mypy checks this file with the product; nothing runs it.

`assert_type` fails on any other type. An ignored error that does not occur is an error itself.
"""

from pathlib import Path
from typing import Any, assert_type

import numpy as np

import zlayout
from zlayout.table.metrics import ColumnMetrics

Int64 = np.ndarray[tuple[Any, ...], np.dtype[np.int64]]

project = zlayout.load_project(Path("."))
plan = zlayout.plan(project, ["lake.*"], max_rewrite_bytes=10)


def show(event: zlayout.ApplyEvent) -> None:
    assert_type(event, zlayout.TableStarted | zlayout.Progress | zlayout.TableEvent | zlayout.TableFinished)


assert_type(project, zlayout.Project)
assert_type(plan, zlayout.ProjectPlan)
assert_type(zlayout.apply(plan, on_event=show), zlayout.RunReport)
assert_type(zlayout.drift(project).drifted, tuple[zlayout.TablePlan, ...])
assert_type(zlayout.inspect(project, "lake.db.t").columns, tuple[ColumnMetrics, ...])
assert_type(zlayout.z_ranges(0, 3), tuple[Int64, Int64])
zlayout.apply(zlayout.drift(project).plan)  # type: ignore[arg-type]
zlayout.plan("nothing")  # type: ignore[arg-type]
zlayout.nothing  # type: ignore[attr-defined]  # noqa: B018
