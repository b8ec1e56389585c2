"""Sets properties and clustering columns of a Delta table."""

from __future__ import annotations

from zlayout.errors import Refused
from zlayout.formats.base import Commit, PlannedTable
from zlayout.formats.delta.read.schema import STRING_PREFIX
from zlayout.formats.delta.write.jvm import DeltaJvm
from zlayout.formats.delta.write.optimize import optimize_conf
from zlayout.formats.delta.write.outcome import Log
from zlayout.sql_text import path_of, quote_identifier, quote_path, string_literal


def set_properties(delta: DeltaJvm, log: Log, work: PlannedTable, version: int) -> Commit:
    """Set the planned properties by ALTER TABLE. version: the version of the table directly before.

    Raises:
        Refused: ZL204, if the session's Delta does not know a property.
        EngineError: ZL314.
        CommitConflict: ZL321.
        CommitUnknown: ZL331.
    """
    if STRING_PREFIX in dict(work.properties) and not delta.knows_string_prefix:
        raise Refused.of(
            "ZL204",
            f"{work.table} needs longer bounds of strings, for which Delta has {STRING_PREFIX} only since version 4.1",
            hint="apply once with Delta 4.1 or newer, or use z-order columns that differ within 32 characters",
        )
    pairs = ", ".join(f"{string_literal(name)} = {string_literal(value)}" for name, value in work.properties)
    return _altered(delta, log, work, version, f"SET TBLPROPERTIES ({pairs})", "setting table properties")


def set_clustering(delta: DeltaJvm, log: Log, work: PlannedTable, version: int) -> Commit:
    """Change the clustering columns to the planned ones. version: see `set_properties`.

    Raises:
        EngineError: ZL314, if Delta refuses a column.
        CommitConflict: ZL321.
        CommitUnknown: ZL331.
    """
    columns = ", ".join(quote_path(path_of(name)) for name in work.cluster_by or ())
    return _altered(delta, log, work, version, f"CLUSTER BY ({columns})", "changing the clustering columns")


def _altered(delta: DeltaJvm, log: Log, work: PlannedTable, version: int, change: str, doing: str) -> Commit:
    """Run ALTER TABLE, which makes one commit after `version`. change: the clause that follows the table's location."""
    conf = optimize_conf(work.layout, work.run_id, work.spec.commit_properties)
    statement = f"ALTER TABLE delta.{quote_identifier(delta.location)} {change}"
    done, _ = log.run(statement, conf, version, doing)
    return Commit("settings", done[-1].commit.version if done else version)
