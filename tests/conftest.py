"""Generated examples are new on each run here, and the same on each run in CI, where a failure must be repeatable."""

import os

from hypothesis import settings

settings.register_profile("ci", derandomize=True)
if os.environ.get("CI"):
    settings.load_profile("ci")
