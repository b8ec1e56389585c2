"""Makes starts of a local Spark faster: the jars are on the class path of the JVM, with an archive of their classes.

A JVM with the jars on its class path needs no copies of them. The archive (Java's class-data sharing, JEP 350) is
written by the first JVM with these jars, when it exits. The next start stores its SHA-256 sum in its name, and every
start compares it. Java itself ignores an archive that does not fit the Java version and the jars.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from zlayout.spark.jars import Jar, sha256_of

CLASS_PATH = "spark.driver.extraClassPath"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
# If the project sets one of these, it determines the class path or the options of the JVM, and this module is not used.
_OWN_CLASS_PATH = {
    "spark.jars",
    CLASS_PATH,
    JAVA_OPTIONS,
    "spark.driver.userClassPathFirst",
    "spark.executor.userClassPathFirst",
}
_LOCAL = re.compile(r"local(\[[^]]*\])?")
_SPLITS = re.compile(rf"[\s'\"{os.pathsep}]")  # what would split Java's options or a class path
_VERSION = re.compile(r"-\d.*")
_COMPLETE = bytes.fromhex("a8ab0bf0")  # the first bytes of a dynamic archive, which Java writes last
_KEPT_ARCHIVES = 3
_DAY = 24 * 60 * 60


def can_start_quickly(
    conf: Mapping[str, str], chosen: Mapping[str, str], folder: Path, spark_home: Path, defaults: Path, *, submits: bool
) -> bool:
    """Return whether zlayout may set the class path of the JVM.

    It may for a local Spark, and only if the user does not set the class path, the options of the JVM, or Spark's
    defaults.

    Args:
        conf: The Spark configuration of the project.
        chosen: The part of `conf` that the project itself sets.
        folder: The cache folder.
        spark_home: Where Spark is installed.
        defaults: The path of Spark's defaults.
        submits: Whether the environment has arguments of spark-submit.
    """
    return (
        bool(_LOCAL.fullmatch(conf.get("spark.master", "")))
        and not _OWN_CLASS_PATH & set(chosen)
        and not submits
        and not defaults.exists()
        and not _SPLITS.search(str(folder))
        and any((spark_home / "jars").glob("*.jar"))
    )


def without_those_of_spark(jars: Iterable[Jar], spark_home: Path) -> list[Jar]:
    """Return the jars of artifacts that Spark's own distribution does not have; its own have precedence."""
    own = {_VERSION.sub("", jar.name) for jar in (spark_home / "jars").glob("*.jar")}
    return [jar for jar in jars if jar.module[1] not in own]


def quick_conf(
    jars: Mapping[Path, Jar], folder: Path, spark_home: Path, java: str, *, brief: bool = False
) -> dict[str, str]:
    """Return the configuration of a JVM with the jars on its class path, which reads or writes an archive of classes.

    Args:
        jars: The jars by their paths.
        folder: The cache folder.
        spark_home: Where Spark is installed.
        java: What `java -version` prints.
        brief: Whether the run is expected to be so short that Java's optimising compiler costs more than it gains.
    """
    # Make Java write messages about its archives to standard error. Standard output belongs to the command.
    options = ["-Xlog:disable", "-Xlog:all=warning:stderr"]
    if brief:
        options.append("-XX:TieredStopAtLevel=1")
    if "sharing" in java:  # a Java with class-data sharing
        with suppress(OSError):
            options.append(_archive_option(_key(jars, spark_home, java), folder))
    provided = spark_home / "jars" / "*"  # first, so that Spark's own classes have precedence
    return {CLASS_PATH: os.pathsep.join(map(str, (provided, *jars))), JAVA_OPTIONS: " ".join(options)}


def _key(jars: Mapping[Path, Jar], spark_home: Path, java: str) -> str:
    """Return a digest of what an archive depends on. Java identifies a jar by its size and modification time too."""
    own = sorted(jar.name for jar in (spark_home / "jars").glob("*.jar"))
    listed = [(str(path), jar.sha256, path.stat().st_mtime_ns) for path, jar in jars.items()]
    return hashlib.sha256(json.dumps([str(spark_home), own, java, listed]).encode()).hexdigest()[:16]


def _archive_option(key: str, folder: Path) -> str:
    """Return the option by which Java reads the archive with a key, or writes it if there is none."""
    for archive in folder.glob(f"{key}.*.jsa"):  # KEY.SHA256.jsa
        if sha256_of(archive) != archive.name.split(".")[1]:
            archive.unlink()
    known = next(folder.glob(f"{key}.*.jsa"), None)
    now = time.time()
    for unfinished in folder.glob("*.jsa.tmp"):  # a complete one of an earlier JVM gets its name
        if known is None and unfinished.name.startswith(key) and _is_complete(unfinished):
            known = unfinished.replace(folder / f"{key}.{sha256_of(unfinished)}.jsa")
        elif now - unfinished.stat().st_mtime > _DAY:
            unfinished.unlink(missing_ok=True)
    if known is not None:
        os.utime(known)
    newest_first = sorted(folder.glob("*.jsa"), key=lambda path: path.stat().st_mtime, reverse=True)
    for surplus in newest_first[_KEPT_ARCHIVES:]:
        surplus.unlink(missing_ok=True)
    if known is not None:
        return f"-XX:SharedArchiveFile={known}"
    return f"-XX:ArchiveClassesAtExit={folder / f'{key}.{os.getpid()}.jsa.tmp'}"


def _is_complete(archive: Path) -> bool:
    with archive.open("rb") as file:
        return file.read(len(_COMPLETE)) == _COMPLETE
