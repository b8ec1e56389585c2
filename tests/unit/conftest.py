"""Catalogs in SQLite that do not wait for the disk: a commit would take 6 ms, and the tests make hundreds."""

import sqlite3

from sqlalchemy import Engine, event


@event.listens_for(Engine, "connect")
def _write_without_waiting(connection: object, _record: object) -> None:
    if isinstance(connection, sqlite3.Connection):
        connection.execute("PRAGMA synchronous = OFF")
