"""The entry point of `python -m zlayout`, and the script that spark-submit runs."""

import os
import sys

if __name__ == "__main__":
    # Python searches the folder of a script first, where `secrets.py` would shadow the standard module.
    folder = os.path.dirname(os.path.realpath(__file__))
    sys.path[:] = [os.path.dirname(folder), *(path for path in sys.path if os.path.realpath(path) != folder)]

    from zlayout.cli.main import main

    main()
