"""Use cases, one per module, for the command line and the Python API. They print nothing."""
