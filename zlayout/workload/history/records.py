"""The query histories of engines: the fields of a record in which they store text, state and session of a query.

A record is a row of a CSV file or a JSON object. Its fields are named in lower case, those of nested objects by their
keys joined by dots. KNOWN_HISTORIES lists the known histories, of which "Athena" is the output of
batch-get-query-execution, and "BigQuery jobs" the job resource of the REST API.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from zlayout.errors import Location
from zlayout.workload.statements import parse_weight


@dataclass(frozen=True, slots=True)
class Executed:
    """One statement that an engine executed, or one scan that it reported.

    Attributes:
        text: The SQL text.
        dialect: The dialect of the text, as sqlglot names it.
        location: The file and the line of the record.
        count: The number of executions.
        catalog, schema: The catalog and the schema of table names without them, from the session; may be empty.
    """

    text: str
    dialect: str
    location: Location
    count: float = 1.0
    catalog: str = ""
    schema: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """A record that cannot be read, and the reason."""

    location: Location
    reason: str


@dataclass(slots=True)
class History:
    """The records of history files.

    Attributes:
        executed: The statements and scans.
        problems: The records that cannot be read.
        left_out: The number of ignored records by type, such as failed queries.
    """

    executed: list[Executed] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True, slots=True)
class KnownHistory:
    """The fields of one query history. The name of a field that it does not have is empty.

    Attributes:
        title: The name of the history in messages.
        dialect: The dialect of the texts, as sqlglot names it.
        text: The field with the SQL text.
        requires: Another field that every record has, by which histories with the same text field are distinguished.
        state: The field with the state of the query.
        done: The states of a query that ended without an error, in lower case.
        failed: A field that only failed queries have.
        catalog, schema: The fields with the catalog and the schema of the session.
        count: The field with the number of executions.
    """

    title: str
    dialect: str
    text: str
    requires: str = ""
    state: str = ""
    done: tuple[str, ...] = ("finished",)
    failed: str = ""
    catalog: str = ""
    schema: str = ""
    count: str = ""


KNOWN_HISTORIES = (
    KnownHistory(
        "Trino event listener",
        "trino",
        "metadata.query",
        state="metadata.querystate",
        catalog="context.catalog",
        schema="context.schema",
    ),
    KnownHistory(
        "Athena",
        "athena",
        "query",
        requires="queryexecutionid",
        state="status.state",
        done=("succeeded",),
        catalog="queryexecutioncontext.catalog",
        schema="queryexecutioncontext.database",
    ),
    KnownHistory(
        "BigQuery jobs",
        "bigquery",
        "configuration.query.query",
        state="status.state",
        done=("done",),
        failed="status.errorresult.reason",
        catalog="configuration.query.defaultdataset.projectid",
        schema="configuration.query.defaultdataset.datasetid",
    ),
    KnownHistory(
        "BigQuery INFORMATION_SCHEMA.JOBS",
        "bigquery",
        "query",
        requires="job_id",
        state="state",
        done=("done",),
        failed="error_result.reason",
    ),
    KnownHistory("Databricks system.query.history", "databricks", "statement_text", state="execution_status"),
    KnownHistory(
        "Snowflake QUERY_HISTORY",
        "snowflake",
        "query_text",
        state="execution_status",
        done=("success",),
        catalog="database_name",
        schema="schema_name",
    ),
    KnownHistory("Trino system.runtime.queries", "trino", "query", requires="query_id", state="state"),
    KnownHistory(
        "Trino MySQL event listener",
        "trino",
        "query",
        requires="query_state",
        state="query_state",
        catalog="catalog",
        schema="schema",
    ),
    KnownHistory("CSV with query and count", "spark", "query", requires="count", count="count"),
)

_NOT_ENDED = ("queued", "planning", "starting", "running", "finishing", "pending", "resuming_warehouse")


def known_history(fields: Mapping[str, object]) -> KnownHistory | None:
    """Return the first history whose records have these fields; None if there is none."""
    return next((h for h in KNOWN_HISTORIES if h.text in fields and (not h.requires or h.requires in fields)), None)


def add(record: Mapping[str, object], known: KnownHistory, location: Location, history: History) -> None:
    """Add one record to a history.

    Args:
        record: The values by field.
        known: The history that the record belongs to.
        location: The location of the record.
        history: The history that the record is added to.

    Raises:
        ValueError: The record cannot be read, for the reason in the message.
    """

    def text_of(key: str) -> str:
        return str(record.get(key) or "") if key else ""

    state = text_of(known.state).lower()
    if state in _NOT_ENDED and not text_of(known.failed):
        history.left_out["queries that had not ended"] += 1
    elif text_of(known.failed) or (state and state not in known.done):
        history.left_out["failed or cancelled queries"] += 1
    elif known.state and not state:
        raise ValueError(f"expected a state in {known.state} ({known.title}), found none")
    else:
        text = record.get(known.text)
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"expected a SQL text in {known.text} ({known.title}), found none")
        count = parse_weight(text_of(known.count) or "1", "count")
        session = text_of(known.catalog), text_of(known.schema)
        history.executed.append(Executed(text.strip().rstrip(";"), known.dialect, location, count, *session))


def flattened(value: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """Return the values of nested objects by their keys in lower case, joined by dots."""
    found: dict[str, object] = {}
    for key, part in value.items():
        name = f"{prefix}{key}".lower()
        found |= flattened(part, f"{name}.") if isinstance(part, Mapping) else {name: part}
    return found
