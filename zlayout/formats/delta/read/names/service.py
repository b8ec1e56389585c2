"""The interface of a catalog that stores the locations of tables."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from zlayout.formats.delta.read.names.entry import Entry


class NameService(Protocol):
    """A catalog that stores the locations of tables. Each method raises an error of the catalog's own library."""

    def entry(self, namespace: str, name: str) -> Entry | None:
        """Return the entry of a table, None if the catalog has none."""
        ...

    def namespaces(self) -> Iterable[str]:
        """Return the names of all namespaces."""
        ...

    def entries(self, namespace: str) -> Iterable[Entry]:
        """Return the entries of all tables in a namespace."""
        ...
