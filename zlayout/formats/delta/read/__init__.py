"""Reads the metadata of Delta tables without a JVM."""
