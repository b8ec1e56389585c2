"""Divide parts by declared cuts, in the first levels of a kd tree, so that files end at the constants of queries.

A quantile of the sample is rarely the constant of a query. The queries on both sides of the constant then open the file
that has values on both sides. Cuts follow qd-trees (Z. Yang et al., "Qd-tree: Learning Data Layouts for Big Data
Analytics", SIGMOD 2020, arXiv 2004.10898), restricted to comparisons of one column with one value, because readers skip
files by the min and max of single columns. The order of the cuts is declared, too: a part is divided by the first cut
whose sides both have enough rows for whole files. If there is none, `zlayout.curve.kd` divides it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from math import ceil, floor
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from zlayout.curve.order import Ranked, rank
from zlayout.curve.sorted_parts import SortedParts
from zlayout.curve.tree import Bool, Int64
from zlayout.predicate.coercion import coerced, instant_of
from zlayout.predicate.model import Compare

# The number of rows of a file may differ by this factor from that of an average file of the table.
MAX_FACTOR = 1.5
_WIDE = Context(prec=80)  # Arrow's decimals have up to 76 digits


@dataclass(frozen=True, slots=True)
class Cuts:
    """k declared cuts in their order.

    Attributes:
        column: int64[k], the column of each cut.
        threshold: int64[k], an ordinal of this column. Rows with lower ordinals are on the left side.
    """

    column: Int64
    threshold: Int64

    def __len__(self) -> int:
        return len(self.column)


NO_CUTS = Cuts(np.zeros(0, np.int64), np.zeros(0, np.int64))


def rank_with_cuts(
    sample: Mapping[str, pa.Array | pa.ChunkedArray], cuts: Sequence[Compare]
) -> tuple[list[Ranked], Cuts]:
    """Rank the columns of a sample together with the values of cuts, so that cuts have ordinals too.

    Args:
        sample: by column, one array of length n.
        cuts: comparisons of columns of the sample by `<` or `<=`. Those for which `first_on_the_right` returns None
            are left out.

    Returns:
        For each column the n ordinals and the distinct values, which include the values of cuts; and the cuts.
    """
    firsts = [(cut.column, first_on_the_right(cut, sample[cut.column].type)) for cut in cuts]
    known = [(name, first.as_py()) for name, first in firsts if first is not None]
    ranked, at = [], np.zeros((2, len(known)), np.int64)
    for number, (name, column) in enumerate(sample.items()):
        own = [position for position, (of, _) in enumerate(known) if of == name]
        chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
        added = pa.array([known[position][1] for position in own], column.type)
        joint = rank(pa.chunked_array([*chunks, added], column.type))
        ranked.append(Ranked(joint.ordinals[: len(column)], joint.distinct))
        at[0, own], at[1, own] = number, joint.ordinals[len(column) :]
    return ranked, Cuts(at[0], at[1])


def divide_by_cuts(
    rows: SortedParts, pieces: Int64, cut: Int64, file_rows: float, cuts: Cuts
) -> tuple[Int64, Int64, Int64]:
    """Find for each part the first of its remaining cuts whose sides both are whole files.

    Args:
        rows: the rows of the parts.
        pieces: int64[parts], the number of files of each part.
        cut: int64[parts], the first cut to try for each part. It is changed, in place, to the first one that has not
            been tried: cuts that do not divide a part do not divide its sides either.
        file_rows: the number of rows of an average file.
        cuts: the cuts.

    Returns:
        int64[parts] three times: the cut (-1 for none), and the number of rows and of files on the left side.
    """
    found = np.full(len(pieces), -1, np.int64)
    left_rows, left_pieces = found.copy(), found.copy()
    cut[pieces < 2] = len(cuts)
    for number in range(int(cut.min(initial=len(cuts))), len(cuts)):
        at = np.flatnonzero((cut == number) & (found < 0))
        cut[at] += 1
        size, files = rows.sizes[at], pieces[at]
        below = rows.below(at, int(cuts.column[number]), int(cuts.threshold[number]))
        left, valid = divide_files(below, size, files, file_rows)
        found[at[valid]] = number
        left_rows[at[valid]], left_pieces[at[valid]] = below[valid], left[valid]
    return found, left_rows, left_pieces


def divide_files(left: Int64, rows: Int64 | int, files: Int64 | int, file_rows: float) -> tuple[Int64, Bool]:
    """Distribute the files of parts over the sides of a cut, in proportion to the rows.

    Args:
        left: int64[n], the number of rows on the left side of the cut.
        rows: int64[n] or one number, the number of rows of the part.
        files: int64[n] or one number, the number of files of the part, at least two.
        file_rows: the number of rows of an average file.

    Returns:
        int64[n], the number of files on the left side, at least one on each side; and bool[n], whether both sides have
        enough rows for whole files.
    """
    found = np.clip(np.rint(files * (left / np.maximum(rows, 1))), 1, files - 1).astype(np.int64)
    return found, _is_whole(left, found, file_rows) & _is_whole(rows - left, files - found, file_rows)


def _is_whole(rows: Int64, files: Int64, file_rows: float) -> Bool:
    return (rows * MAX_FACTOR >= files * file_rows) & (rows <= files * file_rows * MAX_FACTOR)


def first_on_the_right(cut: Compare, type_: pa.DataType) -> pa.Scalar | None:
    """The lowest value of a type that is on the right side of a cut: that does not satisfy the comparison.

    Args:
        cut: a comparison by `<` or `<=`.
        type_: the type of its column.

    Returns:
        The value; None if the constant of the cut cannot be compared with the type, or is beyond its values, so that
        the cut does not divide them.
    """
    value, above = coerced(cut.value, type_), cut.operator == "<="
    try:
        found = None if value is None else _first(value, type_, above)
        return None if found is None else pa.scalar(found, type_)
    except (pa.ArrowInvalid, ArithmeticError, ValueError):
        return None  # beyond the values of the type


def _first(value: Any, type_: pa.DataType, above: bool) -> Any:
    if pt.is_boolean(type_):
        return True if value is not above else None
    if pt.is_integer(type_):
        return floor(value) + 1 if above else ceil(value)
    if pt.is_decimal(type_):
        unit = Decimal(1).scaleb(-type_.scale)
        whole = Decimal(value).quantize(unit, ROUND_FLOOR if above else ROUND_CEILING, _WIDE)
        return _WIDE.add(whole, unit) if above else whole
    if pt.is_floating(type_):
        scalar = type_.to_pandas_dtype()
        near = scalar(value)
        return np.nextafter(near, scalar(np.inf)) if float(near) < value or (above and float(near) == value) else near
    if pt.is_date(type_):
        day = value.date() if isinstance(value, datetime) else value
        later = above or (isinstance(value, datetime) and value > datetime(day.year, day.month, day.day))
        return day + timedelta(days=1) if later else day
    if pt.is_timestamp(type_):
        return instant_of(value) + timedelta(microseconds=1) if above else instant_of(value)
    return value + "\0" if above else value
