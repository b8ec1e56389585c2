"""Looks up the locations of Delta tables by name in a catalog, without a JVM."""
