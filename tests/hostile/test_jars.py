"""No jar is loaded that differs from what the package lists. A class in planted and changed jars leaves a mark."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from support.hive import JARS

from zlayout.errors import EngineError
from zlayout.spark import jars
from zlayout.spark.jars import Jar, cache_folder, closure, provide, without_those_of_spark
from zlayout.spark.session import packages

COMPILE = Path(__file__).parents[1] / "support" / "java" / "CompileCanary.java"
LOADED = "io.delta.sql.DeltaSparkSessionExtension"  # which each session loads
[DELTA] = [jar for jar in closure(packages([])) if jar.module[1].startswith("delta-spark_")]
FILE = DELTA.path.rpartition("/")[2]


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """XDG_CACHE_HOME with the jars of a local start, which this machine has afterwards."""
    wanted = without_those_of_spark(closure(packages([])), JARS.parent)
    known = provide(wanted, cache_folder(os.environ), os.environ)
    folder = cache_folder({"XDG_CACHE_HOME": str(tmp_path / "cache")})
    for jar in known:
        shutil.copy(jar, folder)
    return tmp_path / "cache"


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """What exists as soon as the planted class was loaded."""
    return tmp_path / "loaded"


@pytest.fixture
def planted(tmp_path: Path, mark: Path) -> Path:
    """A jar with another class of Delta."""
    compiled, jar = tmp_path / "planted.class", tmp_path / "planted.jar"
    command = ["java", "-cp", f"{JARS}/*", "org.codehaus.janino.SimpleCompiler", COMPILE, "CompileCanary"]
    subprocess.run([*command, LOADED, mark, compiled], check=True, capture_output=True)
    with zipfile.ZipFile(jar, "w") as content:
        content.write(compiled, f"{LOADED.replace('.', '/')}.class")
    return jar


def doctor(project: Path, **environ: str) -> subprocess.CompletedProcess[str]:
    """`zlayout doctor --spark` in a process of its own, because a JVM keeps its class path."""
    return subprocess.run(
        [sys.executable, "-m", "zlayout", "doctor", "--spark", "--timeout", "60"],
        cwd=project, text=True, capture_output=True, timeout=300, check=False, env=os.environ | environ,
    )  # fmt: skip


def test_a_changed_jar_ends_the_start_before_a_jvm_loads_it(
    project: Path, cache: Path, planted: Path, mark: Path
) -> None:
    changed = cache / "zlayout" / "spark" / DELTA.name
    shutil.copy(planted, changed)
    done = doctor(project, XDG_CACHE_HOME=str(cache))
    text = "".join(done.stdout.split())
    assert done.returncode == 1, done.stdout + done.stderr
    assert "ZL341" in text
    assert str(changed) in text
    assert DELTA.sha256 in text
    assert jars.sha256_of(planted) in text
    assert not mark.exists()


def test_a_jar_of_a_local_maven_repository_is_not_used(
    project: Path, planted: Path, mark: Path, tmp_path: Path
) -> None:
    repository = tmp_path / ".m2" / "repository" / Path(DELTA.path).parent
    repository.mkdir(parents=True)
    shutil.copy(planted, repository / FILE)
    group, artifact = DELTA.module
    named = f"<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{DELTA.version}</version>"
    pom = repository / FILE.replace(".jar", ".pom")
    pom.write_text(f"<project><modelVersion>4.0.0</modelVersion>{named}</project>")
    (tmp_path / "spark-defaults.conf").touch()  # with which no archive of classes is written, which takes time
    home = {"HOME": str(tmp_path), "JAVA_TOOL_OPTIONS": f"-Duser.home={tmp_path}", "SPARK_CONF_DIR": str(tmp_path)}
    own = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    done = doctor(project, XDG_CACHE_HOME=own, **home)
    assert not mark.exists()
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.long
def test_the_operator_may_name_other_jars(project: Path, planted: Path, mark: Path) -> None:
    """This shows also that the class of the tests above leaves its mark."""
    doctor(project, PYSPARK_SUBMIT_ARGS=f"--jars {planted} pyspark-shell")
    assert mark.exists()


@pytest.mark.parametrize("mode", [0o777, 0o770])
def test_a_folder_to_which_others_can_write_is_refused(project: Path, mode: int, tmp_path: Path) -> None:
    (tmp_path / "cache" / "zlayout").mkdir(parents=True)
    (tmp_path / "cache" / "zlayout").chmod(mode)
    done = doctor(project, XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert done.returncode == 1
    assert "ZL341" in done.stdout
    assert f"mode {mode:o}" in " ".join(done.stdout.split())


def refused(folder: Path) -> str:
    with pytest.raises(EngineError, match="ZL341") as error:
        cache_folder({"XDG_CACHE_HOME": str(folder)})
    return str(error.value)


def test_a_link_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir(mode=0o700)
    (tmp_path / "zlayout").mkdir(mode=0o700)
    (tmp_path / "zlayout" / "spark").symlink_to(tmp_path / "other")
    assert "found a link" in refused(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_the_folder_of_another_user_is_refused(tmp_path: Path) -> None:
    (tmp_path / "zlayout").mkdir(mode=0o700)
    os.chown(tmp_path / "zlayout", 12345, -1)
    assert "of user 12345" in refused(tmp_path)


def test_a_link_in_place_of_a_jar_is_refused(cache: Path) -> None:
    folder = cache / "zlayout" / "spark"
    (folder / DELTA.name).rename(folder / "other.jar")
    (folder / DELTA.name).symlink_to("other.jar")
    with pytest.raises(EngineError, match="ZL341"):
        provide([DELTA], folder, {})


def test_a_package_that_is_not_listed_is_refused() -> None:
    with pytest.raises(EngineError, match=r"ZL341.*org.other:thing:1"):
        closure([*packages([]), "org.other:thing:1"])


class Repository:
    """A Maven repository on the loopback address, with the requests that it received."""

    def __init__(self) -> None:
        self.content: dict[str, bytes] = {}
        self.requested: list[str] = []
        repository = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                repository.requested.append(self.path)
                content = repository.content.get(self.path)
                self.send_response(404 if content is None else 200)
                self.send_header("Content-Length", str(len(content or b"")))
                self.end_headers()
                self.wfile.write(content or b"")

            def log_message(self, *_arguments: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://name:hidden-word@127.0.0.1:{self.server.server_address[1]}/maven"


@pytest.fixture
def repository() -> Iterator[Repository]:
    found = Repository()
    thread = threading.Thread(target=found.server.serve_forever)
    thread.start()
    yield found
    found.server.shutdown()
    thread.join()
    found.server.server_close()


SMALL = Jar("a/b/1/b-1.jar", "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")  # "test"


def test_a_mirror_that_the_environment_names_is_the_only_source(repository: Repository, tmp_path: Path) -> None:
    repository.content["/maven/a/b/1/b-1.jar"] = b"test"
    waited = list[str]()
    for _ in range(2):
        [path] = provide([SMALL], tmp_path, {"ZLAYOUT_MAVEN_URL": f"{repository.url}/"}, waited.append)
    assert waited == ["downloading jar 1 of 1: a_b-1.jar, 0.0 MiB"]  # as the header of the answer states
    assert path.read_bytes() == b"test"
    assert path.name == "a_b-1.jar"
    assert repository.requested == ["/maven/a/b/1/b-1.jar"]


def test_another_content_from_a_mirror_is_refused_and_not_kept(repository: Repository, tmp_path: Path) -> None:
    repository.content["/maven/a/b/1/b-1.jar"] = b"evil"
    with pytest.raises(EngineError, match=f"ZL341 http.*/a/b/1/b-1.jar: expected SHA-256 {SMALL.sha256}") as error:
        provide([SMALL], tmp_path, {"ZLAYOUT_MAVEN_URL": repository.url})
    assert "127.0.0.1" in str(error.value)
    assert "hidden-word" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_an_endless_jar_is_refused_and_not_kept(
    repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jars, "MAX_JAR_BYTES", 2**20)
    repository.content["/maven/a/b/1/b-1.jar"] = bytes(3 * 2**20)
    with pytest.raises(EngineError, match=r"ZL341.*more than 1048576 bytes"):
        provide([SMALL], tmp_path, {"ZLAYOUT_MAVEN_URL": repository.url})
    assert list(tmp_path.iterdir()) == []


def test_what_to_do_without_access_is_said(repository: Repository, tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"ZL304.*404.*ZLAYOUT_MAVEN_URL") as error:
        provide([SMALL], tmp_path, {"ZLAYOUT_MAVEN_URL": repository.url})
    assert "hidden-word" not in str(error.value)
    assert list(tmp_path.iterdir()) == []
