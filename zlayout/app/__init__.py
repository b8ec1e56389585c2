"""Use cases, one per file: what the command line and the Python API call."""
