"""Opens Delta tables with deltalake, and names what prevents it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from textwrap import shorten

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from zlayout.errors import Diagnostic, TableError, first_line
from zlayout.formats.access import cause_of
from zlayout.formats.delta.read.location import is_misread
from zlayout.formats.delta.read.log_copy import Opened, open_copy
from zlayout.formats.delta.read.owned import open_published


def open_table(
    table: object, location: str, version: int | None, options: Mapping[str, str], stack: ExitStack
) -> Opened:
    """Open a table, or a copy of its log where deltalake does not read the original.

    Args:
        table: The name of the table, for messages.
        version: The version, None for the newest one.
        options: The storage options of deltalake.
        stack: Removes the copy when it is closed.

    Raises:
        TableError: ZL110 to ZL114.
    """
    if is_misread(location) and "://" in location:
        raise TableError.of(
            "ZL111",
            f"the location {location} of {table} has '%' and two hexadecimal digits, which deltalake decodes and Spark "
            "does not, so that they would read different folders",
            hint="rename the folder, or move the table",
        )
    try:
        if is_misread(location):
            return open_copy(table, location, version, stack)
        delta = DeltaTable(location, version=version, storage_options=dict(options) or None)
        return Opened(delta, delta.version(), delta.table_uri)
    except TableNotFoundError as error:
        raise TableError.of(
            "ZL110",
            f"expected a Delta table for {table} at {location}, found none ({first_line(error)})",
            hint="check warehouse and tables of the catalog; a Delta table has a folder _delta_log, which Spark's "
            "`CONVERT TO DELTA` adds to a folder of Parquet files",
        ) from error
    except DeltaError as error:
        try:
            if (published := open_published(location, options, version, stack)) is not None:
                return published
        except (DeltaError, OSError) as unread:
            raise unreadable(table, location, unread) from unread
        if version is not None and "not the same as the specified end version" in str(error):
            raise TableError.of(
                "ZL112",
                f"table {table} has no version {version} ({first_line(error)})",
                hint="use a version that DESCRIBE HISTORY lists",
            ) from error
        raise unreadable(table, location, error) from error
    except (OSError, ValueError) as error:
        raise unreadable(table, location, error) from error


def unreadable(table: object, location: str, error: Exception) -> TableError:
    """Return the error for a log that cannot be read: ZL114 if the store cannot be reached, else ZL111."""
    cause = cause_of(error) if "://" in location else None
    if cause is not None:
        message = f"the storage of {table} at {location} cannot be reached: {cause.reason}"
        return TableError.of("ZL114", message, hint=cause.hint)
    return TableError(
        Diagnostic(
            "ZL111",
            f"the log of {table} at {location} cannot be read: {shorten(first_line(error), 400, placeholder=' ...')}",
            hint="check access to _delta_log, and whether a commit or checkpoint is damaged or has a table feature "
            "that deltalake does not support",
        )
    )
