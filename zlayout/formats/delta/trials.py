"""Trials of Delta tables, which are shallow clones."""

from __future__ import annotations

import os
from dataclasses import replace

from zlayout.errors import EngineError, Refused, first_line
from zlayout.formats.delta.backend import session_at
from zlayout.formats.delta.read.location import decoded, delta_location
from zlayout.formats.delta.read.names.lookup import Names, at_location
from zlayout.formats.delta.read.trial import other_files, read_clone
from zlayout.formats.trial import Trial
from zlayout.message_text import quote_value
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import CatalogConfig, TableName
from zlayout.table.state import TableState


class DeltaTrials:
    """See `zlayout.formats.trial.Trials`."""

    def __init__(self, catalog: CatalogConfig, runtime: SparkRuntime) -> None:
        self._catalog = catalog
        self._names = Names(catalog)
        self._runtime = runtime

    def placed(self, table: TableName, where: str) -> tuple[CatalogConfig, TableName]:
        name = replace(table, name=f"{table.name}@clone")
        return at_location(self._catalog, name, _absolute(where)), name

    def read(self, table: TableName, where: str) -> Trial | None:
        """Raises Refused ZL256; TableError ZL101, ZL110 to ZL113, ZL133 to ZL136."""
        catalog, name = self.placed(table, where)
        source = delta_location(self._names.located(table), table)
        return read_clone(catalog, name, _absolute(where), source)

    def rows(self, trial: Trial) -> tuple[int, int] | None:  # noqa: ARG002
        return None

    def begin(self, table: TableName, state: TableState, where: str) -> None:
        """Raises Refused ZL256; EngineError."""
        from zlayout.formats.delta.write.trial import begin

        session = session_at(self._catalog, self._runtime, table, state.location)
        begin(session, str(table), state.location, state.version, _absolute(where))

    def publish(self, trial: Trial) -> None:
        """Raises Refused ZL237: what a clone has is applied to the table by `apply`."""
        raise Refused.of("ZL237", f"{trial.table}: Delta tables have no branches", hint="apply to the table")

    def drop(self, trial: Trial) -> None:
        """Raises Refused ZL256; CommitConflict ZL320; EngineError ZL317."""
        from zlayout.formats.delta.write.trial import drop

        session = session_at(self._catalog, self._runtime, trial.table, trial.location)
        try:
            others = other_files(at_location(self._catalog, trial.table, trial.location), trial.location)
        except (OSError, ValueError) as error:
            message = f"the clone {trial.location} cannot be listed: {first_line(error)}"
            raise EngineError.of("ZL317", message, hint="check access to the folder; nothing was removed") from error
        if others:
            raise Refused.of(
                "ZL256",
                f"{quote_value(trial.location)} has {len(others)} files that are not part of the clone",
                hint="move them to another folder, or remove the clone with the tools of the storage",
                detail=others[0],
            )
        drop(session, trial)


def _absolute(where: str) -> str:
    """Return the location of a clone; a path is that of the working directory."""
    where = decoded(where)  # as in a catalog, so that Spark makes the clone where it is read
    return where if "://" in where else os.path.abspath(where.removeprefix("file:"))
