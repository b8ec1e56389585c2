"""The steps of a commit that are the same for every format."""
