"""Writing and committing, through Spark."""
