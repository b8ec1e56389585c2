"""Makes, reads and removes trials of Delta tables, which are shallow clones.

A clone is read without a JVM, to find out whether zlayout made it and which commits it has.
"""

from __future__ import annotations

import json
import os
from dataclasses import replace

import pyarrow.fs as pa_fs

from zlayout.errors import CommitConflict, EngineError, Refused, first_line
from zlayout.formats.delta.backend import session_at
from zlayout.formats.delta.read.history import commit_infos, run_of
from zlayout.formats.delta.read.location import decoded, delta_location, local_path, table_files
from zlayout.formats.delta.read.log import LOG, LogFiles
from zlayout.formats.delta.read.names.lookup import Names, at_location
from zlayout.formats.delta.read.observe import observe_delta
from zlayout.formats.delta.read.opening import unreadable
from zlayout.formats.delta.read.orphans import named_files
from zlayout.formats.storage import deltalake_options
from zlayout.formats.trial import TRIAL, Trial, TrialCommit
from zlayout.message_text import quote_value
from zlayout.reading import parse_json
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import CatalogConfig, TableName
from zlayout.sql_text import quote_identifier, string_literal
from zlayout.table.location import canonical
from zlayout.table.state import TableState

MAX_COMMITS = 10_000
_WITHOUT_ROWS = ("VACUUM START", "VACUUM END")  # operations of the commits in which VACUUM records its start and end


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
        """See `zlayout.formats.trial.Trials`.

        Raises:
            Refused: ZL256, if the folder has files and is not a Delta table.
            TableError: ZL101, ZL110 to ZL114, ZL133 to ZL136.
        """
        catalog, name = self.placed(table, where)
        location, source = _absolute(where), delta_location(self._names.located(table), table)
        path, options = local_path(location), deltalake_options(catalog)
        if path is not None and not os.path.isdir(path):  # deltalake would create the folder
            return None
        log = LogFiles(table_files(location, options))
        if not log.sizes:
            if log.storage.get_file_info(pa_fs.FileSelector("", allow_not_found=True)):
                raise Refused.of(
                    "ZL256",
                    f"{quote_value(location)} is neither empty nor a Delta table",
                    hint="use a folder that does not exist yet",
                )
            return None
        state = observe_delta(name, location, (), None, options)
        try:
            infos = list(commit_infos(log, state.version, MAX_COMMITS))
        except (OSError, ValueError, RecursionError) as error:
            raise unreadable(name, location, error) from error
        first = next((info for info in infos if info["version"] == 0), {})
        cloned = first.get("operation") == "CLONE"
        later = [info for info in reversed(infos) if info["version"] > 0]
        return Trial(
            table=name,
            format="delta",
            table_id=state.table_id,
            location=state.location,
            marked=_is_marked(state.properties.get(TRIAL), location, source),
            main=-1,
            version=state.version,
            commits=tuple(_made(info) for info in later if info.get("operation") not in _WITHOUT_ROWS),
            known=cloned and len(later) == state.version,
        )

    def rows(self, trial: Trial) -> tuple[int, int] | None:  # noqa: ARG002
        return None

    def begin(self, table: TableName, state: TableState, where: str) -> None:
        """Make a shallow clone. It has no data files of its own, and refers to those of the table.

        Raises:
            Refused: ZL256, if one location is inside the other.
            EngineError: If Delta fails.
        """
        from zlayout.formats.delta.write.outcome import spark_errors

        clone, source = _absolute(where), state.location
        one, other = (f"{_resolved(location)}/" for location in (source, clone))
        if one.startswith(other) or other.startswith(one):
            raise Refused.of(
                "ZL256",
                f"{table}: one of the locations {quote_value(clone)} (clone) and {quote_value(source)} (table) is "
                "inside the other",
                hint="use a folder outside of the table, because VACUUM deletes files in the folder of a table",
            )
        session = session_at(self._catalog, self._runtime, table, source)
        with spark_errors(str(table), f"making the clone {clone}"):
            session.sql(
                f"CREATE TABLE delta.{quote_identifier(clone)} SHALLOW CLONE delta.{quote_identifier(source)} VERSION "
                f"AS OF {state.version} TBLPROPERTIES "
                f"({string_literal(TRIAL)} = {string_literal(_marker(clone, source))})"
            ).collect()

    def publish(self, trial: Trial) -> None:
        """Raise Refused ZL237, because only a branch can be published."""
        raise Refused.of("ZL237", f"{trial.table}: Delta tables have no branches", hint="run apply on the table itself")

    def drop(self, trial: Trial) -> None:
        """Remove the folder of a clone.

        Raises:
            Refused: ZL256, if the folder has files that are not part of the clone.
            CommitConflict: ZL320, if the clone has changed since it was read.
            EngineError: ZL317, if the folder cannot be listed or removed.
        """
        from zlayout.formats.delta.write.jvm import DeltaJvm
        from zlayout.formats.delta.write.outcome import spark_errors

        location = trial.location
        session = session_at(self._catalog, self._runtime, trial.table, location)
        try:
            others = _other_files(at_location(self._catalog, trial.table, location), location)
        except (OSError, ValueError) as error:
            message = f"the clone {location} cannot be listed: {first_line(error)}"
            raise EngineError.of("ZL317", message, hint="check access to the folder; nothing was removed") from error
        if others:
            raise Refused.of(
                "ZL256",
                f"{quote_value(location)} has {len(others)} files that are not part of the clone",
                hint="move them to another folder, or remove the clone with the tools of the storage",
                detail=others[0],
            )
        with spark_errors(str(trial.table), "removing the clone"):
            delta = DeltaJvm(session, location)
            snapshot = delta.snapshot()
            if (str(snapshot.metadata().id()), int(snapshot.version())) != (trial.table_id, trial.version):
                message = f"{trial.table}: the clone has changed since it was read"
                hint = "nothing was removed; run drop-trial again and review it"
                raise CommitConflict.of("ZL320", message, hint=hint)
            folder = delta.log_folder().getParent()
            removed = bool(folder.getFileSystem(delta.hadoop_conf()).delete(folder, True))
        if not removed:
            message = f"the folder {location} could not be removed"
            raise EngineError.of("ZL317", message, hint="remove it with the tools of the storage")


def _absolute(where: str) -> str:
    """Return the location of a clone as a URL or an absolute path. A relative path starts at the working directory."""
    where = decoded(where)  # as `delta_location` does, so that Spark makes the clone at the location that is read
    return where if "://" in where else os.path.abspath(where.removeprefix("file:"))


def _resolved(location: str) -> str:
    """Return the canonical form of a location. Links in local paths are followed."""
    found = canonical(location)
    return os.path.realpath(found) if "://" not in found else found


def _marker(clone: str, source: str) -> str:
    """Return the value of the table property `TRIAL` of a clone.

    It contains both locations. A copy of the clone has the same value at another location, and is not a trial.
    """
    return json.dumps({"clone": _resolved(clone), "of": _resolved(source)}, separators=(",", ":"))


def _is_marked(found: str | None, location: str, source: str) -> bool:
    try:
        return found is not None and parse_json(found) == parse_json(_marker(location, source))
    except ValueError:
        return False


def _made(info: dict[str, object]) -> TrialCommit:
    run_id = run_of(info)
    return TrialCommit(int(str(info["version"])), str(info.get("operation")), run_id, rewrite=bool(run_id))


def _other_files(catalog: CatalogConfig, location: str) -> list[str]:
    """Return the paths of the files in the folder of a clone that its log does not name.

    Raises:
        OSError: If the log or the folder cannot be read.
        ValueError: If a file of the log is not a commit or checkpoint.
    """
    storage = table_files(location, deltalake_options(catalog))
    named = frozenset(named_files(storage))
    selector = pa_fs.FileSelector("", recursive=True)
    files = (info.path.strip("/") for info in storage.get_file_info(selector) if info.type == pa_fs.FileType.File)
    return [
        path for path in files if not path.startswith(f"{LOG}/") and path not in named and not _is_checksum(path, named)
    ]


def _is_checksum(path: str, named: frozenset[str]) -> bool:
    """Return whether a file is the checksum that Hadoop writes beside a local file of the table."""
    folder, _, name = path.rpartition("/")
    of = f"{folder}/" * bool(folder) + name[1:].removesuffix(".crc")
    return name.startswith(".") and name.endswith(".crc") and of in named
