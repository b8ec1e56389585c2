"""The Java of the extra `local`, for tests and servers that run `java` themselves."""

import os
import shutil
from contextlib import suppress

from zlayout.errors import EngineError
from zlayout.spark.session import check_java


def provide_java() -> None:
    """Put the Java of `make setup` into JAVA_HOME and on the PATH if the machine has none."""
    if not (os.environ.get("JAVA_HOME") or shutil.which("java")):
        with suppress(EngineError):
            check_java()
            os.environ["PATH"] += f"{os.pathsep}{os.environ['JAVA_HOME']}/bin"
