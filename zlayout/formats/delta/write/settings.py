"""Sets properties of a Delta table."""

from __future__ import annotations

from zlayout.formats.base import Commit, Work
from zlayout.formats.delta.write.jvm import DeltaJvm
from zlayout.formats.delta.write.native import optimize_conf
from zlayout.formats.delta.write.outcome import Log
from zlayout.sql_text import quote_identifier, string_literal


def set_properties(delta: DeltaJvm, log: Log, work: Work, version: int) -> Commit:
    """Set the properties of the work by ALTER TABLE. version: the version of the table directly before.

    Raises:
        EngineError: ZL314.
        CommitConflict: ZL321.
        CommitUnknown: ZL331.
    """
    pairs = ", ".join(f"{string_literal(name)} = {string_literal(value)}" for name, value in work.properties)
    conf = optimize_conf(work.layout, work.run_id)
    statement = f"ALTER TABLE delta.{quote_identifier(delta.location)} SET TBLPROPERTIES ({pairs})"
    done, _ = log.run(statement, conf, version, "setting table properties")  # the statement makes one commit
    return Commit("settings", done[-1].version if done else version)
