"""Projects, commands, and services that fail."""

from support.projects import cli, root
from support.servers import hung, plain_http

__all__ = ["cli", "hung", "plain_http", "root"]
