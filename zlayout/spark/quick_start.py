"""Starts a local Spark from what earlier starts left: the list of jars that Ivy resolved, and an archive of classes.

Both are in the user's cache folder. The list is written after a start that asked Ivy for the packages. A later start
puts the same jars on the class path of the JVM, which needs neither Ivy nor copies of the jars. The archive (Java's
class-data sharing, JEP 350) is written by the first JVM that starts from the list, while it exits. Java itself checks
that the archive fits its version and the jars, and ignores it otherwise.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

CLASS_PATH = "spark.driver.extraClassPath"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
PACKAGES = "spark.jars.packages"
# Who sets one of these decides about the class path or the options of the JVM; nothing of this module is then used.
_DECIDED_BY_THE_USER = {
    "spark.jars",
    CLASS_PATH,
    JAVA_OPTIONS,
    "spark.driver.userClassPathFirst",
    "spark.executor.userClassPathFirst",
}
_LOCAL = re.compile(r"local(\[[^]]*\])?")
_VERSION = re.compile(r"-\d.*")
_COMPLETE = bytes.fromhex("a8ab0bf0")  # the header of a dynamic archive, which Java writes last
_KEPT_ARCHIVES = 3
_DAY = 24 * 60 * 60


@dataclass(frozen=True, slots=True)
class QuickStart:
    """What earlier starts with one configuration left in the cache folder.

    Attributes:
        folder: The cache folder.
        key: A digest of what determines the jars.
        spark_home: The folder of Spark's own jars.
        java: What `java -version` prints.
        brief: Whether the run is expected to be so short that Java's optimising compiler costs more than it gains.
    """

    folder: Path
    key: str
    spark_home: Path
    java: str
    brief: bool = False

    def conf(self) -> dict[str, str]:
        """Return the configuration that replaces the packages, or an empty one if their jars are not known."""
        jars = self._jars()
        if not jars:
            return {}
        provided = self.spark_home / "jars" / "*"  # first, so that Spark's own classes win, as with packages
        return {
            CLASS_PATH: os.pathsep.join(map(str, (provided, *jars))),
            JAVA_OPTIONS: " ".join(self._java_options(jars)),
        }

    def remember(self, jars: Iterable[str]) -> None:
        """Write the list of jars, given as the URIs of `spark.jars`. A folder that cannot be written is no error."""
        own = {_VERSION.sub("", jar.name) for jar in (self.spark_home / "jars").glob("*.jar")}
        paths = [Path(jar.removeprefix("file://")) for jar in jars]
        added = [path for path in paths if _artifact(path) not in own]
        with suppress(OSError):
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            listed = [[str(path), *_identity(path)] for path in added]
            unfinished = self.folder / f"{self.key}.{os.getpid()}.json.tmp"
            unfinished.write_text(json.dumps(listed))
            unfinished.replace(self._list)

    def forget(self) -> None:
        """Delete the list, after a start with it failed."""
        with suppress(OSError):
            self._list.unlink(missing_ok=True)

    @property
    def _list(self) -> Path:
        return self.folder / f"{self.key}.json"

    def _jars(self) -> tuple[Path, ...]:
        """Return the jars of the list. Returns an empty tuple if there is no list, or if a jar has changed."""
        try:
            listed = json.loads(self._list.read_bytes())
            paths = tuple(Path(name) for name, *_ in listed)
            unchanged = all([*_identity(Path(name))] == identity for name, *identity in listed)
        except (OSError, ValueError, TypeError):
            return ()
        return paths if unchanged else ()

    def _java_options(self, jars: Iterable[Path]) -> list[str]:
        # What Java says of its archives goes to its log: standard output belongs to the command.
        options = ["-Xlog:disable", "-Xlog:all=warning:stderr"]
        if self.brief:
            options.append("-XX:TieredStopAtLevel=1")
        if "sharing" not in self.java:
            return options  # a Java without class-data sharing
        content = json.dumps([self.java, *(_identity(jar) for jar in jars)])
        name = f"{self.key}-{_digest(content)}"
        archive = self.folder / f"{name}.jsa"
        with suppress(OSError):
            _tidy(archive)
        if archive.exists():
            return [*options, f"-XX:SharedArchiveFile={archive}"]
        return [*options, f"-XX:ArchiveClassesAtExit={self.folder / f'{name}.{os.getpid()}.jsa.tmp'}"]


def quick_start(
    conf: Mapping[str, str],
    chosen: Mapping[str, str],
    spark_home: Path,
    java: str,
    environ: Mapping[str, str],
    *,
    brief: bool = False,
) -> QuickStart | None:
    """Return what earlier starts left, or None where a start must not depend on it.

    That is so for a cluster, for a process that spark-submit started, and where the user sets the class path, the
    options of the JVM, or Spark's defaults.

    Args:
        chosen: The part of it that the project sets.
        spark_home: Where Spark is installed.
        java: What `java -version` prints.
        brief: See `QuickStart`.
    """
    folder = cache_folder(environ)
    defaults = Path(environ.get("SPARK_CONF_DIR") or spark_home / "conf", "spark-defaults.conf")
    if (
        folder is None
        or PACKAGES not in conf
        or not _LOCAL.fullmatch(conf.get("spark.master", ""))
        or _DECIDED_BY_THE_USER & set(chosen)
        or "PYSPARK_SUBMIT_ARGS" in environ
        or defaults.exists()
    ):
        return None
    settings = sorted((key, value) for key, value in conf.items() if key.startswith("spark.jars"))
    own = sorted(jar.name for jar in (spark_home / "jars").glob("*.jar"))
    if not own:
        return None
    return QuickStart(folder, _digest(json.dumps([str(spark_home), own, settings])), spark_home, java, brief)


def cache_folder(environ: Mapping[str, str]) -> Path | None:
    """Return the folder for what starts leave, None if there is no home. A blank in it would split Java's options."""
    root = environ.get("XDG_CACHE_HOME") or (environ.get("HOME") and f"{environ['HOME']}/.cache")
    return (
        Path(root, "zlayout", "spark")
        if root and Path(root).is_absolute() and not re.search(r"[\s'\"]", root)
        else None
    )


def _tidy(archive: Path) -> None:
    """Give a complete archive its name, delete what dead processes left, and keep only the archives used last."""
    now = time.time()
    for unfinished in archive.parent.glob("*.jsa.tmp"):
        if unfinished.name.startswith(archive.stem) and not archive.exists() and _is_complete(unfinished):
            unfinished.replace(archive)
        elif now - unfinished.stat().st_mtime > _DAY:
            unfinished.unlink(missing_ok=True)
    if archive.exists():
        os.utime(archive)
    newest_first = sorted(archive.parent.glob("*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
    for surplus in newest_first[_KEPT_ARCHIVES:]:
        surplus.unlink(missing_ok=True)


def _is_complete(archive: Path) -> bool:
    with archive.open("rb") as file:
        return file.read(len(_COMPLETE)) == _COMPLETE


def _identity(path: Path) -> tuple[int, int]:
    """Return the size and the time of change of a file, by which Java also recognises a jar."""
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _artifact(jar: Path) -> str:
    """Return the artifact of a jar in Ivy's folder, which is named group_artifact-version.jar."""
    return _VERSION.sub("", jar.name.partition("_")[2])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
