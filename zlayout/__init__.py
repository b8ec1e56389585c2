"""Declarative table layout: plan and apply how Delta Lake and Apache Iceberg tables are laid out."""

__version__ = "0.1.0"
