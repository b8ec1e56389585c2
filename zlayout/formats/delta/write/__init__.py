"""Writes and commits through Spark."""
