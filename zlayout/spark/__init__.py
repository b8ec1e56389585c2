"""The Spark session of zlayout, and calls into its JVM through py4j."""
