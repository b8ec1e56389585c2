"""Jars of servers that tests start. Ivy, which Spark has, downloads pinned versions once, to `build/ivy`."""

import fcntl
import subprocess
from pathlib import Path

from support.hive import JARS
from support.jre import provide_java

JAVA = Path(__file__).parent / "java"
_BUILD = Path(__file__).parents[2] / "build"


class NotDownloaded(RuntimeError):
    """The jars are not here and cannot be downloaded."""


def jars_of(server: str) -> list[str]:
    """The jars that `java/SERVER-ivy.xml` names, downloaded if necessary.

    `SERVER-ivysettings.xml` states how, if it exists. Other processes wait meanwhile.

    Raises:
        NotDownloaded: if they cannot be downloaded.
    """
    _BUILD.mkdir(exist_ok=True)
    cache, source = _BUILD / "ivy", JAVA / f"{server}-ivy.xml"
    listed, settings = cache / f"{server}-classpath", JAVA / f"{server}-ivysettings.xml"
    with (_BUILD / "ivy.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        known = listed.exists() and listed.stat().st_mtime > source.stat().st_mtime
        if not known or not all(Path(jar).exists() for jar in listed.read_text().split(":")):
            chosen = ("-settings", settings) if settings.exists() else ()
            arguments = (*chosen, "-ivy", source, "-cache", cache, "-cachepath", listed, "-confs", "default", "-warn")
            provide_java()  # `make servers` runs without the configuration of pytest
            command = ["java", "-cp", f"{JARS}/*", "org.apache.ivy.Main", *map(str, arguments)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode or not listed.exists():
                raise NotDownloaded(f"the jars of {server} cannot be downloaded: {done.stdout[-2000:]}")
    return listed.read_text().strip().split(":")
