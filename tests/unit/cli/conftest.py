"""Projects and commands for the tests of the command line."""

from support.projects import cli, memory, root

__all__ = ["cli", "memory", "root"]
