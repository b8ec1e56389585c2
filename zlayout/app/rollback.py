"""Determine the statement that undoes what a run rewrote in a table."""

from __future__ import annotations

from zlayout.app.concurrent_reads import read_one
from zlayout.app.results import Applied
from zlayout.formats.base import Backend
from zlayout.spec.model import TableName


def rollback_of(applied: Applied, backend: Backend, table: TableName, timeout: float) -> str:
    """Return the statement that returns a table to the version directly before the first rewrite of a run.

    Returns:
        The statement of Spark SQL; '' if the run rewrote nothing, or if the table cannot be read again. Reading again
        is no part of the run, so that a failure changes neither its result nor its exit code.
    """
    first = next((commit.version for commit in applied.commits if commit.kind == "rewrite"), None)
    if first is None:
        return ""
    try:
        return read_one(lambda: backend.rollback(table, first), table, timeout)
    except Exception:  # the commits are made, and are reported without the statement
        return ""
