"""Writes and commits Iceberg tables through Spark."""
