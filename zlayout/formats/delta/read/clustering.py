"""Reads how Delta itself clusters a table: its clustering columns, and by which columns each file is clustered.

The clustering columns are in the domain metadata `delta.clustering`. A file that OPTIMIZE has clustered has the
clustering provider `liquid` and the file tags ZCUBE_ID and ZCUBE_ZORDER_BY (`ZCubeInfo` in the Delta source). Files
with the same ZCUBE_ID are a ZCube: one OPTIMIZE clustered them together.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from zlayout.errors import TableError
from zlayout.formats.delta.read.features import CLUSTERING
from zlayout.formats.delta.read.log import LogFiles
from zlayout.formats.delta.read.schema import Leaf, dotted, parse_names
from zlayout.formats.delta.read.tags import PROVIDER, ZCUBE_COLUMNS, ZCUBE_ID, codes_of
from zlayout.spec.layout import CLUSTERED_BY
from zlayout.table.order import distinct_rows
from zlayout.table.state import Int32, LayoutRecord

DOMAIN = "delta.clustering"
LIQUID = "liquid"  # the provider of Delta's own OPTIMIZE


def clustering_columns(
    log: LogFiles, version: int, features: frozenset[str], all_leaves: Sequence[Leaf]
) -> tuple[str, ...] | None:
    """Return the clustering columns of a version, empty after CLUSTER BY NONE; None for a table without clustering.

    Args:
        features: The table features. The log is read only if clustering is one of them.

    Raises:
        TableError: ZL111, if the domain metadata cannot be understood; ZL113, if a commit is missing.
    """
    if CLUSTERING not in features:
        return None
    configuration = _configuration(log, version)
    names = {leaf.physical: leaf.name for leaf in all_leaves}
    try:
        physical = json.loads(configuration).get("clusteringColumns", []) if configuration else []
        return tuple(names[tuple(path)] for path in physical)
    except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
        raise TableError.of(
            "ZL111",
            f"expected domain metadata {DOMAIN} with columns of the table, found {configuration[:200]}",
            hint="run ALTER TABLE ... CLUSTER BY with the columns by which the table should be clustered",
        ) from error


def clustering_records(annotations: pa.Table) -> tuple[Int32, tuple[LayoutRecord, ...], Int32]:
    """Do what `zlayout.formats.delta.read.tags.layout_records` does, for a clustered table.

    The files of one ZCube are one group. A file that no OPTIMIZE has clustered has neither record nor group (-1). The
    record of a file of another clustering provider has no columns, because only that provider knows them.

    Args:
        annotations: See `zlayout.formats.delta.read.tags.read_annotations`.
    """
    encoded = [codes_of(annotations[name]) for name in (PROVIDER, ZCUBE_ID, ZCUBE_COLUMNS)]
    distinct, of_file = distinct_rows([codes for codes, _ in encoded])  # about one row per ZCube
    texts = [values.to_pylist() for _, values in encoded]
    found: dict[tuple[str, tuple[str, ...]], int] = {}
    cubes: dict[str, int] = {}
    layout = np.full(len(distinct), -1, np.int32)
    group = np.full(len(distinct), -1, np.int32)
    names: tuple[str, ...]
    for at in np.argsort(np.unique(of_file, return_index=True)[1]).tolist():  # in the order of their first files
        codes = distinct[at].tolist()
        provider, cube, columns = (
            values[code] if code >= 0 else None for code, values in zip(codes, texts, strict=True)
        )
        if provider not in (None, LIQUID):
            writer, names, cube = f"{PROVIDER}={provider}", (), f"{PROVIDER}={provider}"
        else:
            writer, names = LIQUID, _column_names(columns)
            if cube is None or not names:
                continue
        layout[at] = found.setdefault((writer, names), len(found))
        group[at] = cubes.setdefault(cube, len(cubes))
    records = tuple(LayoutRecord(provider, {CLUSTERED_BY: list(columns)}) for provider, columns in found)
    return layout[of_file], records, group[of_file]


def _column_names(text: str | None) -> tuple[str, ...]:
    """Return the column names in the tag ZCUBE_ZORDER_BY, as in the table state; empty if it is invalid."""
    try:
        names = json.loads(text or "")
        return tuple(dotted(parsed) for name in names for parsed in parse_names(name)[:1])
    except (ValueError, TypeError, RecursionError):
        return ()


def _configuration(log: LogFiles, version: int) -> str:
    segment = log.segment(version)
    for name in (*reversed(segment.commits), *segment.checkpoint):
        found = None
        for action in log.actions(name, "domainMetadata"):
            if action.get("domain") == DOMAIN:
                found = "" if action.get("removed") else str(action.get("configuration") or "")
        if found is not None:
            return found
    return ""
