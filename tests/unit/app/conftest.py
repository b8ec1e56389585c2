"""The projects of the command line's tests, which the application layer needs too."""

from unit.cli.conftest import memory, root

__all__ = ["memory", "root"]
