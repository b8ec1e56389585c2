"""The entry point of `python -m zlayout`, and the script that spark-submit runs."""

import os
import sys

if __name__ == "__main__":
    # Python searches the folder of a script first, where `secrets.py` would shadow the standard module. With -m, it
    # searches the working directory first, where a file of the project would shadow a package that zlayout imports.
    folder = os.path.dirname(os.path.realpath(__file__))
    has_working_directory = __spec__ is not None and not sys.flags.safe_path
    searched = sys.path[1:] if has_working_directory else sys.path
    sys.path[:] = [os.path.dirname(folder), *(path for path in searched if os.path.realpath(path) != folder)]

    from zlayout.cli.main import main

    main()
