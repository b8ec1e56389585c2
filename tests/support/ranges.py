"""Conjunctions of ranges as predicates, and the files that they cannot rule out."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from zlayout.predicate.model import And, Compare
from zlayout.predicate.prune import may_match
from zlayout.table.state import FileTable


def files_touched(files: FileTable, conditions: Mapping[str, tuple[Any, Any]]) -> NDArray[np.bool_]:
    """bool[N]: files that `low <= column <= high` for every column cannot rule out; None leaves a side open."""
    sides = [(c, op, v) for c, (low, high) in conditions.items() for op, v in ((">=", low), ("<=", high))]
    compared = [Compare(c, op, v.as_py() if isinstance(v, pa.Scalar) else v) for c, op, v in sides if v is not None]
    return may_match(And(tuple(compared)), files.bounds, files.rows)
