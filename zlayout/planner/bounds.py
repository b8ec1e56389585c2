"""Find columns whose bounds are truncated so much that queries cannot skip files, and the bound length that they need.

`worth_longer` returns the columns whose bounds become longer in rewritten files. Without a sample, a plan sets
`LONG_BOUND`, which is enough for nearly all values and more than most values need. With a sample, `needed_values`
computes the length, and `with_values` sets it in the plan. A note states an upper limit of how much the metadata grows
because the plan enables statistics or makes them longer.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from zlayout.errors import Diagnostic
from zlayout.planner.model import PropertyChange, PropertyReason, Reason, SetProperties, TablePlan, TruncatedBounds
from zlayout.planner.notes import truncation_notes
from zlayout.planner.ranges import stays_unbounded
from zlayout.planner.work import PlannedTable
from zlayout.spec.model import LayoutSpec
from zlayout.table.order import common_length, distinct_rows
from zlayout.table.samples import KeySample
from zlayout.table.state import Bools, Column, ColumnBounds, FileTable, Int64, TableState, is_text
from zlayout.text import plural

# Indistinct bounds.
#
# A truncated lower bound is a prefix of the smallest value. A truncated upper bound is slightly above a prefix of the
# largest value. If values have a common prefix that is longer than the bounds which writers keep, the bounds of all
# files are equal. Such bounds are indistinct: no layout lets queries skip files by them (docs/adr/0004-cut-bounds.md).


# Truncation prevents skipping if at least this share of the files has equal truncated bounds.
MIN_SHARE_EQUAL = 0.25
# If the common prefix of all bounds has at least this share of the length of a bound, too few characters are left to
# distinguish files.
MIN_SHARE_COMMON_PREFIX = 0.25
# A layout by d columns gives equal bounds to N^((d-1)/d) of N files. Only above this multiple of that number is
# truncation the cause.
MAX_FACTOR_OF_LAYOUT = 1.5


def examine(files: FileTable, column: str, *, in_doubt: bool = True) -> TruncatedBounds | None:
    """Describe how the bounds of a column are truncated; None if they are not truncated, or distinguish files.

    Truncated bounds distinguish files if most of them differ and have no long common prefix, as those of hashes. If
    they have a long common prefix, they may be too short even if most of them differ, because bounds of files that are
    not laid out do not show the values between them.

    Args:
        files: The files.
        column: The name of the column.
        in_doubt: Whether bounds with a long common prefix count as too short. False for a table with a chosen bound
            length, for example from a sample.
    """
    bounds = files.bounds.get(column)
    if bounds is None or not len(files):
        return None
    truncated = _truncated(bounds)
    if not truncated.any():
        return None
    lengths = _length(bounds.lower)
    length = int(np.bincount(np.maximum(lengths[truncated], 0)).argmax())
    repeated = max(
        _repeated(files.partition, side, truncated & (_length(side) >= length)) for side in (bounds.lower, bounds.upper)
    )
    alike = _common_prefix(bounds, truncated) >= max(1, MIN_SHARE_COMMON_PREFIX * length)
    equal = _repeated(files.partition, bounds.lower, _one_prefix(bounds))
    if repeated < MIN_SHARE_EQUAL * len(files) and not (alike and in_doubt):
        return None
    return TruncatedBounds(column, length, equal, len(files), same=equal >= MIN_SHARE_EQUAL * len(files) and equal > 1)


def indistinct_partitions(spec: LayoutSpec, state: TableState) -> Bools:
    """Return the partitions, bool[P], whose bounds are indistinct and can be made longer.

    Columns for which the table already keeps long bounds are ignored, so that no second rewrite is planned for this
    reason.
    """
    indistinct = np.zeros(len(state.files.partitions), bool)
    for column in _columns(spec, state):
        if column.longer_bounds:
            indistinct |= _indistinct(state.files, column.name, len(spec.layout.columns))
    return indistinct


def worth_longer(spec: LayoutSpec, state: TableState, chosen: Sequence[Int64]) -> tuple[TruncatedBounds, ...]:
    """Return the columns whose bounds should be longer in the rewritten files.

    Args:
        spec: The layout spec.
        state: The observed table.
        chosen: int64, the indices of the files of each group to rewrite.
    """
    columns = [column for column in _columns(spec, state) if column.longer_bounds]
    if not chosen or not columns:
        return ()
    files, found = state.files.take(np.concatenate(chosen)), []
    for column in columns:
        length_chosen = any(key in state.properties for key, _ in column.longer_bounds)
        truncated = examine(files, column.name, in_doubt=not length_chosen)
        if truncated is None:  # a few partitions may have indistinct bounds although most files are distinguished
            indistinct = _indistinct(files, column.name, len(spec.layout.columns))
            truncated = examine(files.take(np.flatnonzero(indistinct[files.partition])), column.name)
        found += [truncated] if truncated else []
    return tuple(found)


def indistinct_anyway(spec: LayoutSpec, state: TableState) -> tuple[TruncatedBounds, ...]:
    """Return the columns whose bounds are indistinct although the table already keeps long bounds."""
    found = []
    for column in _columns(spec, state):
        truncated = None if column.longer_bounds else examine(state.files, column.name)
        if truncated and truncated.same and _indistinct(state.files, column.name, len(spec.layout.columns)).any():
            found.append(truncated)
    return tuple(found)


def _columns(spec: LayoutSpec, state: TableState) -> list[Column]:
    """Return the z-order columns whose bounds may be truncated."""
    found = (state.column(name) for name in spec.column_names)
    return [c for c in found if c and c.stats and is_text(c.type) and c.name in state.files.bounds]


def _indistinct(files: FileTable, column: str, keys: int) -> Bools:
    """Return the partitions in which too many files have equal truncated bounds. keys: number of z-order columns."""
    bounds = files.bounds[column]
    count = len(files.partitions)
    number = np.bincount(files.partition, minlength=count)
    narrow = np.flatnonzero(_one_prefix(bounds))
    codes = _codes(bounds.lower.take(pa.array(narrow)))
    pairs, group = distinct_rows([files.partition[narrow], codes])
    # A layout by several z-order columns gives some files equal bounds even without truncation.
    limit = np.maximum(1.0, MAX_FACTOR_OF_LAYOUT * number ** ((keys - 1) / keys))
    many = np.bincount(group) > limit[pairs[:, 0]]
    hit = np.bincount(files.partition[narrow][many[group]], minlength=count)
    indistinct: Bools = (hit > 1) & (hit >= MIN_SHARE_EQUAL * number)
    return indistinct


def _one_prefix(bounds: ColumnBounds) -> Bools:
    """Return the files whose two truncated bounds are equal before the last character of the lower bound."""
    one = np.zeros(len(bounds.lower), bool)
    truncated = _truncated(bounds)
    lengths = _length(bounds.lower)
    head = pc.utf8_slice_codeunits if pa.types.is_string(bounds.lower.type) else pc.binary_slice
    for length in np.unique(lengths[truncated & (lengths > 1)]).tolist():
        rows = np.flatnonzero(truncated & (lengths == length))
        index = pa.array(rows)
        low, high = (head(side.take(index), 0, length - 1) for side in (bounds.lower, bounds.upper))
        one[rows] = pc.fill_null(pc.equal(low, high), False).to_numpy(zero_copy_only=False)
    return one & (_length(bounds.upper) >= lengths)


def _truncated(bounds: ColumnBounds) -> Bools:
    """Return the files with a truncated bound. Bounds that are equal to each other are not truncated."""
    if not is_text(bounds.lower.type):
        return np.zeros(len(bounds.lower), bool)
    differ = pc.fill_null(pc.not_equal(bounds.lower, bounds.upper), True).to_numpy(zero_copy_only=False)
    return np.asarray(bounds.truncated & differ, bool)


def _repeated(partition: NDArray[np.int32], side: pa.Array, chosen: Bools) -> int:
    """Return the number of chosen files whose bound another chosen file of the same partition has too."""
    rows = np.flatnonzero(chosen)
    sizes = np.bincount(distinct_rows([partition[rows], _codes(side.take(pa.array(rows)))])[1])
    return int(sizes[sizes > 1].sum())


def _common_prefix(bounds: ColumnBounds, chosen: Bools) -> int:
    index = pa.array(np.flatnonzero(chosen))
    low = pc.min_max(bounds.lower.take(index))["min"].as_py()
    high = pc.min_max(bounds.upper.take(index))["max"].as_py()
    return 0 if low is None or high is None else common_length(low, high)


def _length(side: pa.Array) -> Int64:
    lengths = pc.utf8_length(side) if pa.types.is_string(side.type) else pc.binary_length(side)
    found: Int64 = pc.fill_null(lengths, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return found


def _codes(side: pa.Array) -> Int64:
    codes: Int64 = pc.fill_null(side.dictionary_encode().indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes


# The bound length that the sampled values need, and the growth of the metadata.


# The number of sampled values that are compared with their neighbours: per new file, and at most in total. These are
# more than the two bounds of each file, because values that are not in the sample may be nearer to each other.
VALUES_PER_FILE, MAX_VALUES = 4, 4096
# The share of neighbouring values that must differ within the length. Some values may be nearly equal in any length.
MIN_SHARE_DISTINGUISHED = 0.99
# The number of characters that is added to the length that the sample needs. Lengths are rounded up to a multiple of
# STEP.
MARGIN, STEP = 16, 16
# Parquet writers omit bounds that are longer than about 2 KB.
MAX_LENGTH = 1024
# The maximum number of characters of a minimum or maximum in the metadata, for a number and for a timestamp.
NUMBER_CHARACTERS, TIMESTAMP_CHARACTERS = 20, 30
# The statistics of a column in one file also have a null count. The minimum, the maximum and the null count each have
# the name or id of the column and separators. These are the numbers of characters of the count and of all separators.
COUNT_CHARACTERS, SEPARATORS = 10, 12
_LENGTH = re.compile(r"\d+")


def needed_length(values: pa.Array, files: int) -> int:
    """Return the length in characters (bytes for binary) within which the bounds of neighbouring files differ.

    Args:
        values: Sampled values of a string or binary column, with nulls.
        files: The number of files that the rewrite writes.

    Returns:
        A multiple of STEP, at most MAX_LENGTH; 0 if there are fewer than two different values.
    """
    distinct = pc.unique(values.drop_null())
    distinct = distinct.take(pc.array_sort_indices(distinct))
    count = min(len(distinct), max(VALUES_PER_FILE * files, 2), MAX_VALUES)
    if count < 2:
        return 0
    spaced = np.linspace(0, len(distinct) - 1, count).astype(np.int64)
    common = [common_length(low, high) for low, high in pairwise(distinct.take(pa.array(spaced)).to_pylist())]
    needed = int(np.quantile(common, MIN_SHARE_DISTINGUISHED, method="higher")) + 1 + MARGIN
    length = pc.utf8_length if pa.types.is_string(values.type) else pc.binary_length
    longest = int(pc.max(length(distinct)).as_py())
    return min(-(-min(needed, longest) // STEP) * STEP, MAX_LENGTH)


def needed_values(state: TableState, plan: TablePlan, sample: KeySample) -> dict[str, str | None]:
    """Return the values that the sample requires of the properties of the plan that set a bound length, by name.

    The value is None for a property that need not be set, because the present bounds are long enough.
    """
    files = sum(group.target_files for group in plan.groups)
    found: dict[str, str | None] = {}
    for change in plan.properties:
        if not (wanted := length_in(change.after)):
            continue
        texts = [c for c in state.columns if c.name in sample.keys and is_text(c.type)]
        columns = [c for c in texts if change.name in {name for name, _ in (*c.longer_bounds, *c.enable_stats)}]
        if not columns:
            continue
        length = max(needed_length(sample.keys[c.name], files) for c in columns)
        present = max(c.bound_length or 0 for c in columns)
        if length <= present:
            truncated = any(group.reason is Reason.BOUNDS_TRUNCATED for group in plan.groups)
            found[change.name] = change.after if truncated else None
        else:
            found[change.name] = change.after.replace(str(wanted), str(length))
    return found


def with_values(table: PlannedTable, state: TableState, values: Mapping[str, str | None]) -> PlannedTable:
    """Return the table with other values of properties that set a bound length. None removes the property."""
    spec, plan = table.spec, table.plan
    old = {p.name: p.after for p in plan.properties if length_in(p.after)}
    changed = {name: value for name, value in values.items() if name in old and value != old[name]}
    if not changed:
        return table
    properties = [
        replace(p, after=value) for p in plan.properties if (value := changed.get(p.name, p.after)) is not None
    ]
    others = (action for action in plan.actions if not isinstance(action, SetProperties))
    outdated = {*truncation_notes(spec, state, table.truncated, plan.properties)}
    outdated |= {*growth_notes(spec, state, plan.properties)}
    revised = replace(
        plan,
        actions=(*((SetProperties(tuple(properties)),) if properties else ()), *others),
        diagnostics=(
            *(diagnostic for diagnostic in plan.diagnostics if diagnostic not in outdated),
            *truncation_notes(spec, state, table.truncated, properties),
            *growth_notes(spec, state, properties),
        ),
    )
    return replace(table, plan=revised)


def saved_values(saved: TablePlan, again: TablePlan) -> dict[str, str | None]:
    """Return the values that a saved plan has for properties that set a bound length, by name.

    Args:
        saved: The plan from the file. If it was made without a sample, nothing is returned.
        again: The plan that was made again, without a sample. The value is None for a property that it sets and `saved`
            does not set.
    """
    if saved.sample is None:
        return {}
    kept = {p.name: p.after for p in saved.properties}
    return {p.name: kept.get(p.name) for p in again.properties if length_in(p.after)}


def log_growth(spec: LayoutSpec, state: TableState, properties: Sequence[PropertyChange]) -> dict[str, int]:
    """Return by how many characters per file the statistics of each column grow at most, by name of the column."""
    longer = {p.name: length_in(p.after) for p in properties if p.reason is PropertyReason.BOUNDS_TRUNCATED}
    enabled = {p.name: length_in(p.after) for p in properties if p.reason is PropertyReason.NO_STATISTICS}
    grown: dict[str, int] = {}
    for column in state.columns:
        names = {name for name, _ in column.longer_bounds} & (longer.keys() | enabled.keys())
        if column.stats and names:
            length = max((longer | enabled)[name] for name in names)
            grown[column.name] = _longer(column, state, length)
        elif column.name in spec.column_names and enabled.keys() & {name for name, _ in column.enable_stats}:
            grown[column.name] = _new(column, max(enabled.values(), default=0))
    return grown


def growth_notes(spec: LayoutSpec, state: TableState, properties: Sequence[PropertyChange]) -> Iterator[Diagnostic]:
    """Yield ZL432 if the metadata grows because of the changed properties."""
    growth, files = log_growth(spec, state, properties), len(state.files)
    if not (per_file := sum(growth.values())):
        return
    message = (
        f"statistics of {plural(len(growth), 'column')} grow by at most {per_file:,} characters per file, "
        f"{per_file * files:,} bytes of metadata for {plural(files, 'file')} if the text is ASCII"
    )
    yield Diagnostic("ZL432", message, "note", location=spec.location_of("zorder.columns"))


def written_columns(state: TableState, names: Iterable[str], properties: Mapping[str, str]) -> tuple[Column, ...]:
    """Return columns with the bounds that writers store after table properties are set.

    Args:
        state: The observed table.
        names: The names of the columns.
        properties: The table properties to set.
    """
    lengths = {name: length for name, value in properties.items() if (length := length_in(value))}
    found = []
    for column in state.columns_of(names):
        keys = (key for key, _ in (*column.longer_bounds, *column.enable_stats))
        planned = [lengths[key] for key in keys if key in lengths] if is_text(column.type) else []
        if column.bound_length is not None or not column.stats:  # else writers do not truncate
            column = replace(column, bound_length=max([column.bound_length or 0, *planned]) or None)
        found.append(replace(column, stats=not stays_unbounded(column, state)))
    return tuple(found)


def length_in(value: str) -> int:
    """Return the bound length in a property value: 256 in `256` and in `truncate(256)`; 0 for any other value."""
    numbers = _LENGTH.findall(value) if value.isdecimal() or value.startswith("truncate(") else []
    return int(numbers[0]) if numbers else 0


def _longer(column: Column, state: TableState, length: int) -> int:
    bounds = state.files.bounds.get(column.name)
    if bounds is not None and len(state.files) and not np.any(bounds.truncated):
        return 0
    return 2 * max(length - (column.bound_length or length), 0)


def _new(column: Column, length: int) -> int:
    """Return the number of characters of the new statistics of a column that has none."""
    if is_text(column.type):
        width = max(length, column.bound_length or 0)
    else:
        width = TIMESTAMP_CHARACTERS if pa.types.is_temporal(column.type) else NUMBER_CHARACTERS
        width = max(width, column.type.precision + 2) if pa.types.is_decimal(column.type) else width
    return 3 * len(column.name) + 2 * width + COUNT_CHARACTERS + SEPARATORS
