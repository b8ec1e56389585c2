"""The Spark session and its JVM: starting one, and calling it through py4j."""
