"""Projects for the tests of the application layer."""

from support.projects import cli, memory, root

__all__ = ["cli", "memory", "root"]
