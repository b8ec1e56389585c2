"""Projects for the tests of the application layer."""

from support.projects import memory, root

__all__ = ["memory", "root"]
