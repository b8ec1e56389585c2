"""The exceptions of py4j. A client of Spark Connect has no py4j, so that none of them is ever raised."""

from __future__ import annotations

try:
    from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
except ImportError:

    class Py4JError(Exception):  # type: ignore[no-redef]
        """Never raised."""

    class Py4JJavaError(Py4JError):  # type: ignore[no-redef, misc]
        """Never raised."""

    class Py4JNetworkError(Py4JError):  # type: ignore[no-redef, misc]
        """Never raised."""


__all__ = ["Py4JError", "Py4JJavaError", "Py4JNetworkError"]
