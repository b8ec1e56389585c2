"""What earlier starts of Spark left, and when it is used."""

import os
import time
from pathlib import Path

import pytest

from zlayout.spark.quick_start import CLASS_PATH, JAVA_OPTIONS, PACKAGES, QuickStart, cache_folder, quick_start

CONF = {"spark.master": "local[2]", PACKAGES: "a:b:1", "spark.jars.excludes": "c:d"}
JAVA = 'openjdk version "17.0.1"\nOpenJDK 64-Bit Server VM (build 17.0.1, mixed mode, sharing)\n'
COMPLETE = bytes.fromhex("a8ab0bf0") + b"..."


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    (tmp_path / "spark" / "jars" / "jackson-core-2.18.2.jar").touch()
    return tmp_path / "spark"


@pytest.fixture
def jars(tmp_path: Path) -> list[Path]:
    """Two jars as Ivy names them; Spark has one of the artifacts itself."""
    (tmp_path / "ivy").mkdir()
    found = [tmp_path / "ivy" / name for name in ("io.delta_delta-spark_2.13-4.0.0.jar", "com_jackson-core-2.13.5.jar")]
    for jar in found:
        jar.write_bytes(b"jar")
    return found


def started(home: Path, tmp_path: Path, conf: dict[str, str] = CONF, *, java: str = JAVA, brief: bool = False, **more):
    environ = {"XDG_CACHE_HOME": str(tmp_path / "cache"), **more}
    return quick_start(conf, {}, home, java, environ, brief=brief)


def remembered(home: Path, tmp_path: Path, jars: list[Path]) -> QuickStart:
    found = started(home, tmp_path)
    assert found.conf() == {}
    found.remember(f"file://{jar}" for jar in jars)
    return found


def options(found: QuickStart) -> list[str]:
    return found.conf()[JAVA_OPTIONS].split()


def test_a_later_start_has_the_jars_on_its_class_path_after_those_of_spark(home, tmp_path, jars):
    remembered(home, tmp_path, jars)
    assert started(home, tmp_path).conf()[CLASS_PATH] == f"{home}/jars/*:{jars[0]}"


@pytest.mark.parametrize("change", ["content", "gone", "damaged"])
def test_a_list_that_does_not_fit_is_not_used(home, tmp_path, jars, change):
    found = remembered(home, tmp_path, jars)
    match change:
        case "content":
            jars[0].write_bytes(b"another")
        case "gone":
            jars[0].unlink()
        case "damaged":
            (found.folder / f"{found.key}.json").write_text('{"a": [1')
    assert found.conf() == {}


@pytest.mark.parametrize("other", [{PACKAGES: "a:b:2"}, {"spark.jars.ivySettings": "settings.xml"}])
def test_other_packages_or_other_repositories_have_a_list_of_their_own(home, tmp_path, jars, other):
    remembered(home, tmp_path, jars)
    assert started(home, tmp_path, CONF | other).conf() == {}


def test_another_spark_has_a_list_of_its_own(home, tmp_path, jars):
    remembered(home, tmp_path, jars)
    (home / "jars" / "spark-core_2.13-4.1.4.jar").touch()
    assert started(home, tmp_path).conf() == {}


def test_a_list_with_which_spark_did_not_start_is_forgotten(home, tmp_path, jars):
    remembered(home, tmp_path, jars).forget()
    assert started(home, tmp_path).conf() == {}


@pytest.mark.parametrize(
    ("conf", "chosen", "environ"),
    [
        ({"spark.master": "spark://master:7077"}, {}, {}),
        ({"spark.master": "local-cluster[2,1,1024]"}, {}, {}),
        ({}, {CLASS_PATH: "/mine/*"}, {}),
        ({}, {JAVA_OPTIONS: "-Xss4m"}, {}),
        ({}, {"spark.jars": "/mine.jar"}, {}),
        ({}, {}, {"PYSPARK_SUBMIT_ARGS": "--driver-class-path /mine.jar pyspark-shell"}),
        ({}, {}, {"XDG_CACHE_HOME": "relative"}),
        ({}, {}, {"XDG_CACHE_HOME": "/with a blank"}),
    ],
)
def test_it_is_for_a_local_spark_whose_class_path_nobody_else_decides(home, tmp_path, conf, chosen, environ):
    environ = {"XDG_CACHE_HOME": str(tmp_path), **environ}
    assert quick_start(CONF | conf, chosen, home, JAVA, environ) is None
    assert quick_start(CONF, {}, home, JAVA, {"XDG_CACHE_HOME": str(tmp_path)})


def test_defaults_of_the_user_are_left_to_spark(home, tmp_path):
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").touch()
    assert started(home, tmp_path, SPARK_CONF_DIR=str(tmp_path / "conf")) is None


def test_a_folder_that_cannot_be_written_is_no_error(home, tmp_path, jars):
    (tmp_path / "cache").write_text("a file")
    remembered(home, tmp_path, jars)
    assert started(home, tmp_path).conf() == {}


def test_the_cache_is_in_the_home_of_the_user():
    assert cache_folder({"HOME": "/home/a"}) == Path("/home/a/.cache/zlayout/spark")
    assert cache_folder({}) is None


class TestArchive:
    def test_the_first_start_from_the_list_writes_it_and_the_next_reads_it(self, home, tmp_path, jars):
        found = remembered(home, tmp_path, jars)
        [written] = [option for option in options(found) if option.startswith("-XX:ArchiveClassesAtExit=")]
        unfinished = Path(written.partition("=")[2])
        unfinished.write_bytes(COMPLETE)
        archive = unfinished.with_name(unfinished.name.split(".")[0] + ".jsa")
        assert f"-XX:SharedArchiveFile={archive}" in options(found)
        assert archive.read_bytes() == COMPLETE
        assert not unfinished.exists()

    def test_an_incomplete_one_is_not_used_and_deleted_after_a_day(self, home, tmp_path, jars):
        found = remembered(home, tmp_path, jars)
        unfinished = Path(options(found)[-1].partition("=")[2])
        unfinished.write_bytes(b"\0" * 8)
        assert options(found)[-1].startswith("-XX:ArchiveClassesAtExit=")
        assert unfinished.exists()
        os.utime(unfinished, (0, time.time() - 2 * 24 * 60 * 60))
        options(found)
        assert not unfinished.exists()

    def test_another_java_has_one_of_its_own(self, home, tmp_path, jars):
        first = remembered(home, tmp_path, jars)
        other = started(home, tmp_path, java=JAVA.replace("17.0.1", "21.0.1"))
        assert options(first)[-1] != options(other)[-1]

    def test_a_java_that_has_none_is_not_asked_for_one(self, home, tmp_path, jars):
        remembered(home, tmp_path, jars)
        other = started(home, tmp_path, java=JAVA.replace(", sharing", ""))
        assert not [option for option in options(other) if "Archive" in option]

    def test_only_those_used_last_are_kept(self, home, tmp_path, jars):
        found = remembered(home, tmp_path, jars)
        for age in range(5):
            (found.folder / f"other{age}.jsa").write_bytes(COMPLETE)
            os.utime(found.folder / f"other{age}.jsa", (0, 1000 - age))
        options(found)
        assert sorted(path.name for path in found.folder.glob("*.jsa")) == ["other0.jsa", "other1.jsa", "other2.jsa"]


@pytest.mark.parametrize("brief", [True, False])
def test_only_a_brief_run_does_without_the_optimising_compiler(home, tmp_path, jars, brief):
    remembered(home, tmp_path, jars)
    assert ("-XX:TieredStopAtLevel=1" in options(started(home, tmp_path, brief=brief))) is brief
