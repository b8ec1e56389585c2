"""Looks up by name, without a JVM, where a catalog says that Delta tables are stored."""
