"""The jars that zlayout requests, each of which is compared with its SHA-256 sum before a JVM can load it (ADR 0039).

`jars.json` lists the jars of each package of `versions.py` with their sums; `make jars` writes it. The jars are kept in
a cache folder to which only the user can write. Missing ones are downloaded from Maven Central, or from the mirror that
the environment names, without Ivy. No other repository is read. For a local Spark, `quick_conf` puts the jars on the
class path of the JVM, so that it starts faster.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from zlayout.errors import EngineError, first_line

LISTED = Path(__file__).with_name("jars.json")
CENTRAL = "https://repo1.maven.org/maven2"
MIRROR = "ZLAYOUT_MAVEN_URL"  # the variable with the URL of a mirror of Maven Central
MAX_JAR_BYTES = 512 * 2**20
_CHUNK_BYTES = 2**20
_TIMEOUT_SECONDS = (10, 60)  # to connect, and between two reads


@dataclass(frozen=True, slots=True)
class Jar:
    """A jar of Maven Central.

    Attributes:
        path: Its path in a Maven repository: group/artifact/version/artifact-version.jar.
        sha256: The SHA-256 sum of its content, in hexadecimal digits.
    """

    path: str
    sha256: str

    @property
    def module(self) -> tuple[str, str]:
        """The group and the artifact."""
        *group, artifact, _version, _file = self.path.split("/")
        return ".".join(group), artifact

    @property
    def version(self) -> str:
        return self.path.split("/")[-2]

    @property
    def name(self) -> str:
        """The name of the file in the cache folder: group_artifact-version.jar, as Ivy names it."""
        return f"{self.module[0]}_{self.path.rpartition('/')[2]}"


def closure(packages: Iterable[str]) -> tuple[Jar, ...]:
    """Return the jars of packages and of all their dependencies. Of each artifact, the newest version is used.

    Args:
        packages: Maven coordinates group:artifact:version.

    Raises:
        EngineError: ZL341, for a package that is not listed.
    """
    listed = json.loads(LISTED.read_bytes())
    newest: dict[tuple[str, str], Jar] = {}
    for package in packages:
        if package not in listed["packages"]:
            raise EngineError.of(
                "ZL341",
                f"{LISTED}: expected the jars of the package {package}, found none",
                hint="name its jars in PYSPARK_SUBMIT_ARGS: see docs/clusters.md",
            )
        for path in listed["packages"][package]:
            jar = Jar(path, listed["sha256"][path])
            newest[jar.module] = max(newest.get(jar.module, jar), jar, key=_by_version)
    return tuple(newest.values())


def _by_version(jar: Jar) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", jar.version)]


def cache_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder for jars and archives of classes, which is created if necessary.

    Raises:
        EngineError: ZL341, if others can write to the folder, or if it is a link; ZL304, if it cannot be created.
    """
    root = Path(environ.get("XDG_CACHE_HOME", ""))
    try:
        if not root.is_absolute():
            root = Path(environ.get("HOME") or Path("~").expanduser(), ".cache")
        folder = root / "zlayout" / "spark"
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        for each in (folder.parent, folder):
            each.mkdir(mode=0o700, exist_ok=True)
            _require_own(each)
    except (OSError, RuntimeError) as error:  # RuntimeError: the user has no home folder
        raise EngineError.of(
            "ZL304",
            f"Spark did not start: the folder for its jars cannot be created: {first_line(error)}",
            hint="set XDG_CACHE_HOME to the path of a folder to which you can write",
        ) from error
    return folder


def _require_own(folder: Path) -> None:
    found = folder.lstat()
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022:
        return
    kind = "link" if stat.S_ISLNK(found.st_mode) else "folder"
    raise EngineError.of(
        "ZL341",
        f"{folder}: expected a folder of yours to which nobody else can write, "
        f"found a {kind} of user {found.st_uid} with mode {stat.S_IMODE(found.st_mode):o}",
        hint="delete it, so that zlayout creates it again, or set XDG_CACHE_HOME to the path of another folder",
    )


def provide(
    jars: Iterable[Jar], folder: Path, environ: Mapping[str, str], waiting: Callable[[str], None] = lambda _: None
) -> list[Path]:
    """Return the paths of jars in the cache folder, with the content that is listed. Missing jars are downloaded.

    Args:
        jars: The jars.
        folder: The cache folder.
        environ: The environment of this process.
        waiting: Called with what is downloaded, in words.

    Raises:
        EngineError: ZL341, if the content of a jar differs from what is listed. ZL304, if a jar cannot be downloaded.
    """
    by_path = {folder / jar.name: jar for jar in jars}
    missing = {path: jar for path, jar in by_path.items() if not os.path.lexists(path)}
    if missing:
        _download(missing, (environ.get(MIRROR) or CENTRAL).rstrip("/"), waiting)
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for (path, jar), found in zip(by_path.items(), pool.map(_found, by_path), strict=True):
            if found != jar.sha256:
                hint = "find out who changed the file, and delete it, so that zlayout downloads it again"
                raise _differs(str(path), jar, found, hint)
    return list(by_path)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 sum of a file. Raises OSError, also for a link."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _found(path: Path) -> str:
    try:
        return sha256_of(path)
    except OSError as error:
        return first_line(error)


def _differs(place: str, jar: Jar, found: str, hint: str) -> EngineError:
    return EngineError.of("ZL341", f"{place}: expected SHA-256 {jar.sha256}, found {found}", hint=hint)


def _download(missing: Mapping[Path, Jar], repository: str, waiting: Callable[[str], None]) -> None:
    """Download jars one after another, so that an interrupt ends it at once."""
    import requests

    with requests.Session() as session:
        for at, (path, jar) in enumerate(missing.items(), 1):
            doing = f"downloading jar {at} of {len(missing)}: {path.name}"
            url = f"{repository}/{jar.path}"
            try:
                handle, name = tempfile.mkstemp(prefix=jar.name, suffix=".tmp", dir=path.parent)
                try:
                    with os.fdopen(handle, "wb") as file:
                        found = _copy(session, url, file, doing, waiting)
                    if found != jar.sha256:
                        raise _differs(url, jar, found, f"check {MIRROR}, and the repository that answered")
                    os.replace(name, path)
                finally:
                    Path(name).unlink(missing_ok=True)
            except OSError as error:  # the base class of the exceptions of requests too
                raise EngineError.of(
                    "ZL304",
                    f"Spark did not start: {url} cannot be downloaded: {first_line(error)}",
                    hint=f"set {MIRROR} to the URL of a mirror of Maven Central, or name the jars in "
                    "PYSPARK_SUBMIT_ARGS: see docs/clusters.md",
                ) from error


def _copy(session: Any, url: str, file: IO[bytes], doing: str, waiting: Callable[[str], None]) -> str:
    digest = hashlib.sha256()
    with session.get(url, stream=True, timeout=_TIMEOUT_SECONDS) as response:
        response.raise_for_status()
        size = response.headers.get("Content-Length", "")
        waiting(f"{doing}, {int(size) / 2**20:.1f} MiB" if re.fullmatch(r"[0-9]{1,12}", size) else doing)
        for chunk in response.iter_content(_CHUNK_BYTES):
            digest.update(chunk)
            file.write(chunk)
            if file.tell() > MAX_JAR_BYTES:
                return f"more than {MAX_JAR_BYTES} bytes"
    return digest.hexdigest()


# Faster starts of a local Spark: the jars are on the class path of the JVM, with an archive of their classes.
#
# A JVM with the jars on its class path needs no copies of them. The archive (Java's class-data sharing, JEP 350) is
# written by the first JVM with these jars, when it exits. The next start stores its SHA-256 sum in its name, and every
# start compares it. Java itself ignores an archive that does not fit the Java version and the jars.


CLASS_PATH = "spark.driver.extraClassPath"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
# If the project sets one of these, it determines the class path or the options of the JVM, and zlayout sets neither.
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
