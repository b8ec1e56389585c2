"""Reading metadata, without a JVM."""
