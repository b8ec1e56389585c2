"""Reads the layout records, the groups and the baselines of live files from their file tags."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zlayout.formats.delta.read.tags import BASELINE, GROUP, LAYOUT, LAYOUT_ID
from zlayout.reading import parse_json
from zlayout.spec.layout import COLUMN_IDS
from zlayout.table.baseline import Baseline, parse_baseline
from zlayout.table.order import distinct_rows
from zlayout.table.state import Int32, LayoutRecord, are_settings


def codes_of(column: pa.ChunkedArray) -> tuple[Int32, pa.Array]:
    """Return int32 codes of the values in order of first appearance (-1 for null), and the value of each code."""
    encoded = column.combine_chunks().dictionary_encode()
    codes = pc.fill_null(encoded.indices, -1).to_numpy(zero_copy_only=False).astype(np.int32)
    return codes, encoded.dictionary


def layout_records(annotations: pa.Table) -> tuple[Int32, tuple[LayoutRecord, ...], Int32]:
    """Return the layout index of each file (-1 for none), the layout records, and the group of each file (-1 for none).

    A record has the files with the same layout id and column ids. Its settings are the first valid ones among them.
    """
    layout, ids = codes_of(annotations[LAYOUT_ID])
    written, texts = codes_of(annotations[LAYOUT])
    known = layout >= 0
    pairs, of_pair = distinct_rows([layout[known], written[known]])
    parsed = [_settings(text.as_py()) for text in texts]
    records: dict[tuple[int, str], LayoutRecord] = {}
    number = np.empty(len(pairs), np.int32)
    for at, (name, text) in enumerate(pairs.tolist()):
        settings = parsed[text] if text >= 0 else {}
        key = (name, str(settings.get(COLUMN_IDS)))
        records.setdefault(key, LayoutRecord(ids[name].as_py()))
        if settings and not records[key].settings:
            records[key] = LayoutRecord(ids[name].as_py(), settings)
        number[at] = list(records).index(key)
    index = np.full(len(layout), -1, np.int32)
    index[known] = number[of_pair]
    return index, tuple(records.values()), np.where(index < 0, np.int32(-1), codes_of(annotations[GROUP])[0])


def baselines(group: Int32, annotations: pa.Table) -> dict[int, Baseline]:
    """Return the first valid baseline among the files of each group, by the number of the group."""
    written, texts = codes_of(annotations[BASELINE])
    known = (group >= 0) & (written >= 0)
    pairs, _ = distinct_rows([group[known], written[known]])
    parsed = [parse_baseline(text) for text in texts.to_pylist()]
    found: dict[int, Baseline] = {}
    for number, text in pairs.tolist():
        if (baseline := parsed[text]) is not None:
            found.setdefault(number, baseline)
    return found


def _settings(text: str) -> dict[str, Any]:
    """Return the layout settings in a file tag, empty if the tag is invalid. Without them, drift is not explained."""
    try:
        parsed = parse_json(text)
    except ValueError:
        return {}
    return parsed if are_settings(parsed) else {}
