"""`python -m zlayout`, and the file that spark-submit runs."""

import os
import sys

if __name__ == "__main__":
    # If this file is run, Python searches its folder first, where `secrets` and others would hide modules of Python.
    folder = os.path.dirname(os.path.realpath(__file__))
    sys.path[:] = [os.path.dirname(folder), *(path for path in sys.path if os.path.realpath(path) != folder)]

    from zlayout.cli.main import main

    main()
