"""The self-test: whether engine zlayout places rows in a Spark session as the reference implementation in numpy does.

The engine runs on a version of Spark that zlayout was not tested with only if the self-test passes.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from zlayout.curve.layout import build_map
from zlayout.errors import ZlayoutError, first_line
from zlayout.rewrite.engine import place, rewrite_conf
from zlayout.rewrite.rows import GroupTarget, Source
from zlayout.spark.arrow import from_arrow, to_arrow
from zlayout.spec.model import Layout, ZorderColumn

_ROWS, _SOURCE_FILES, _NEW_FILES = 600, 3, 5
_LAYOUT = Layout(
    (ZorderColumn("number"), ZorderColumn("text")), "kd", 32, False, 1 << 20, sort_within=True, engine="zlayout"
)

_known: dict[str, str | None] = {}  # by Spark application: the reason of a failure, or None


def failed_self_test(session: SparkSession) -> str | None:
    """Return how the engine fails in this session, None if it works. The test runs once per Spark application.

    The test rewrites a few hundred rows in memory, with the sample, the placement, the shuffle and the gate.
    """
    application = str(session.sparkContext.applicationId)
    if application not in _known:
        _known[application] = _failure(session)
    return _known[application]


def _failure(session: SparkSession) -> str | None:
    try:
        return _difference(session)
    except (Py4JError, PySparkException, ZlayoutError, AttributeError, TypeError) as error:
        return first_line(error)


def _difference(session: SparkSession) -> str | None:
    rows = _rows()
    source = Source(from_arrow(session, rows), F.col("file"), F.col("position"))
    paths = pa.array([f"file{i}" for i in range(_SOURCE_FILES)])
    with rewrite_conf(session):
        placed = place(source, _LAYOUT, [GroupTarget("self-test", paths, _ROWS, _NEW_FILES)])
        found = to_arrow(placed.frame.select("id", F.spark_partition_id().alias("at"))).sort_by("id")
        placed.gate.check()
    keys = {column.name: rows[column.name] for column in _LAYOUT.columns}
    mapped = build_map(keys, _LAYOUT, _NEW_FILES)
    expected = mapped.locate(keys, np.zeros(_ROWS, np.int64))
    wrong = int(np.count_nonzero(found["at"].to_numpy() != expected))
    return f"{wrong} of {_ROWS} rows are in other files than expected" if wrong else None


def _rows() -> pa.Table:
    ids = np.arange(_ROWS)
    number, text = ids * 7919 % 613 - 300, ids * 104729 % 397
    return pa.table(
        {
            "id": ids,
            "number": pa.array(number, mask=ids % 17 == 3),
            "text": pa.array([f"é{value}" for value in text], mask=ids % 19 == 5),
            "file": [f"file{i % _SOURCE_FILES}" for i in ids],
            "position": ids // _SOURCE_FILES,
        }
    )
