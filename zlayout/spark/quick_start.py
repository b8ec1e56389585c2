"""Makes later starts of a local Spark faster: keeps the list of jars that Ivy resolved, and an archive of classes.

Both are in the user's cache folder. The list is written after a start that resolved the packages with Ivy. A later
start puts the same jars on the class path of the JVM, which needs neither Ivy nor copies of the jars. The archive
(Java's class-data sharing, JEP 350) is written by the first JVM that starts from the list, when it exits. Java itself
checks whether the archive fits the Java version and the jars, and ignores an archive that does not.
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
# If the project sets one of these, it determines the class path or the options of the JVM, and this module is not used.
_OWN_CLASS_PATH = {
    "spark.jars",
    CLASS_PATH,
    JAVA_OPTIONS,
    "spark.driver.userClassPathFirst",
    "spark.executor.userClassPathFirst",
}
_LOCAL = re.compile(r"local(\[[^]]*\])?")
_VERSION = re.compile(r"-\d.*")
_COMPLETE = bytes.fromhex("a8ab0bf0")  # the first bytes of a dynamic archive, which Java writes last
_KEPT_ARCHIVES = 3
_DAY = 24 * 60 * 60


@dataclass(frozen=True, slots=True)
class QuickStart:
    """The files in the cache folder from earlier starts with the same packages.

    Attributes:
        folder: The cache folder.
        key: A digest of the settings and the Spark distribution, which determine the jars.
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
        """Return the configuration that replaces the packages; empty if the list is missing or a jar has changed."""
        jars = self._jars()
        if not jars:
            return {}
        provided = self.spark_home / "jars" / "*"  # first, so that Spark's own classes have precedence
        return {
            CLASS_PATH: os.pathsep.join(map(str, (provided, *jars))),
            JAVA_OPTIONS: " ".join(self._java_options(jars)),
        }

    def remember(self, jars: Iterable[str]) -> None:
        """Write the list of jars. Does nothing if the cache folder cannot be written.

        jars: the URIs in `spark.jars`. Jars of artifacts that Spark's own distribution has are left out.
        """
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
        """Delete the list, because a start with it failed."""
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
        # Make Java write messages about its archives to standard error. Standard output belongs to the command.
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
    """Return the files of earlier starts, or None if a start must not depend on them.

    They are used for a local Spark alone, and only if the user does not set the class path, the options of the JVM, or
    Spark's defaults.

    Args:
        conf: The Spark configuration of the project.
        chosen: The part of `conf` that the project itself sets.
        spark_home: Where Spark is installed.
        java: What `java -version` prints.
        environ: The environment of this process.
        brief: See `QuickStart`.
    """
    folder = cache_folder(environ)
    defaults = Path(environ.get("SPARK_CONF_DIR") or spark_home / "conf", "spark-defaults.conf")
    if (
        folder is None
        or PACKAGES not in conf
        or not _LOCAL.fullmatch(conf.get("spark.master", ""))
        or _OWN_CLASS_PATH & set(chosen)
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
    """Return the cache folder, None if no home folder is known or if its path is relative.

    None also for a path with a space or a quote, which would split Java's options.
    """
    root = environ.get("XDG_CACHE_HOME") or (environ.get("HOME") and f"{environ['HOME']}/.cache")
    return (
        Path(root, "zlayout", "spark")
        if root and Path(root).is_absolute() and not re.search(r"[\s'\"]", root)
        else None
    )


def _tidy(archive: Path) -> None:
    """Give a complete archive its final name, delete unfinished archives after a day, and keep only the newest ones.

    archive: the final name of the archive of this start.
    """
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
    """Return the size and the modification time of a file, by which Java too identifies a jar."""
    found = path.stat()
    return found.st_size, found.st_mtime_ns


def _artifact(jar: Path) -> str:
    """Return the artifact of a jar in Ivy's folder. Ivy names the jar group_artifact-version.jar."""
    return _VERSION.sub("", jar.name.partition("_")[2])


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
