"""The Spark session of zlayout: one with a JVM, and calls into it through py4j, or one of Spark Connect."""
