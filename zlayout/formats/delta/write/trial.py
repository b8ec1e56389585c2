"""Makes and removes the shallow clone of a trial."""

from __future__ import annotations

from typing import TYPE_CHECKING

from zlayout.errors import CommitConflict, EngineError, Refused
from zlayout.formats.delta.read.trial import marker, place
from zlayout.formats.delta.write.failures import spark_errors
from zlayout.formats.delta.write.jvm import DeltaJvm
from zlayout.formats.trial import TRIAL, Trial
from zlayout.message_text import quote_value
from zlayout.sql_text import quote_identifier, string_literal

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def begin(session: SparkSession, table: str, source: str, version: int, clone: str) -> None:
    """Make a shallow clone of a version. It has no data files of its own, and refers to those of the table.

    Raises:
        Refused: ZL256, if one location is inside the other.
        EngineError: Delta failed.
    """
    one, other = (f"{place(location)}/" for location in (source, clone))
    if one.startswith(other) or other.startswith(one):
        raise Refused.of(
            "ZL256",
            f"{table}: the clone {quote_value(clone)} and the table {quote_value(source)} are inside one another",
            hint="use a folder outside of the table, because VACUUM deletes files in the folder of a table",
        )
    with spark_errors(table, f"making the clone {clone}"):
        session.sql(
            f"CREATE TABLE delta.{quote_identifier(clone)} SHALLOW CLONE delta.{quote_identifier(source)} "
            f"VERSION AS OF {version} TBLPROPERTIES ({string_literal(TRIAL)} = {string_literal(marker(clone, source))})"
        ).collect()


def drop(session: SparkSession, trial: Trial) -> None:
    """Remove the folder of a clone.

    Raises:
        CommitConflict: ZL320, if the clone has changed since it was read.
        EngineError: ZL317, the folder could not be removed.
    """
    with spark_errors(str(trial.table), "removing the clone"):
        delta = DeltaJvm(session, trial.location)
        snapshot = delta.snapshot()
        if (str(snapshot.metadata().id()), int(snapshot.version())) != (trial.table_id, trial.version):
            message = f"{trial.table}: the clone has changed since it was read"
            raise CommitConflict.of("ZL320", message, hint="nothing was removed; run it again and review it")
        folder = delta.log_folder().getParent()
        removed = bool(folder.getFileSystem(delta.hadoop_conf()).delete(folder, True))
    if not removed:
        message = f"the folder {trial.location} could not be removed"
        raise EngineError.of("ZL317", message, hint="remove it with the tools of the storage")
