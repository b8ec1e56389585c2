"""`python -m zlayout`, and the file that spark-submit runs."""

import sys
from pathlib import Path

if __name__ == "__main__":
    # Run as a file, Python searches the package's folder first, where `secrets` and others would hide those of Python.
    package = Path(__file__).resolve().parent
    sys.path[:] = [path for path in sys.path if not path or Path(path).resolve() != package]
    sys.path.insert(0, str(package.parent))

    from zlayout.cli.main import main

    main()
