"""Writes and commits Delta tables through Spark."""
