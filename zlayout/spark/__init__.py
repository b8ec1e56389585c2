"""Provides the Spark session, and calls of its JVM through py4j."""
