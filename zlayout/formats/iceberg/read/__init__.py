"""Reads the metadata of Iceberg tables without a JVM."""
