"""What the commands do, for the command line and the Python API. These modules print nothing."""
