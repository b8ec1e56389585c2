"""Projects and commands for the tests of the command line."""

from support.projects import cli, memory, root
from support.servers import hung

__all__ = ["cli", "hung", "memory", "root"]
