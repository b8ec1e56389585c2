"""The class path and the archive of classes of a local Spark, and when they are used."""

import os
import shutil
import time
from pathlib import Path

import pytest

from zlayout.spark.jars import (
    CLASS_PATH,
    JAVA_OPTIONS,
    Jar,
    can_start_quickly,
    quick_conf,
    sha256_of,
    without_those_of_spark,
)

CONF = {"spark.master": "local[2]"}
JAVA = 'openjdk version "17.0.1"\nOpenJDK 64-Bit Server VM (build 17.0.1, mixed mode, sharing)\n'
COMPLETE = bytes.fromhex("a8ab0bf0") + b"..."
DELTA = Jar("io/delta/delta-spark_2.13/4.0.0/delta-spark_2.13-4.0.0.jar", "d" * 64)
JACKSON = Jar("com/fasterxml/jackson-core/2.13.5/jackson-core-2.13.5.jar", "j" * 64)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "spark" / "jars").mkdir(parents=True)
    (tmp_path / "spark" / "jars" / "jackson-core-2.18.2.jar").touch()
    return tmp_path / "spark"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The cache folder with the jar of Delta."""
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / DELTA.name).write_bytes(b"jar")
    return tmp_path / "cache"


def conf(home: Path, folder: Path, java: str = JAVA, jar: Jar = DELTA, *, brief: bool = False) -> dict[str, str]:
    return quick_conf({folder / DELTA.name: jar}, folder, home, java, brief=brief)


def options(home: Path, folder: Path, java: str = JAVA, jar: Jar = DELTA, *, brief: bool = False) -> list[str]:
    return conf(home, folder, java, jar, brief=brief)[JAVA_OPTIONS].split()


def test_the_jars_are_on_the_class_path_after_those_of_spark(home, folder):
    assert conf(home, folder)[CLASS_PATH] == f"{home}/jars/*:{folder / DELTA.name}"


def test_an_artifact_that_spark_has_itself_is_not_added(home):
    assert without_those_of_spark([DELTA, JACKSON], home) == [DELTA]


@pytest.mark.parametrize(
    ("conf", "chosen", "folder", "submits"),
    [
        ({"spark.master": "spark://master:7077"}, {}, "/cache", False),
        ({"spark.master": "local-cluster[2,1,1024]"}, {}, "/cache", False),
        ({}, {CLASS_PATH: "/mine/*"}, "/cache", False),
        ({}, {JAVA_OPTIONS: "-Xss4m"}, "/cache", False),
        ({}, {"spark.jars": "/mine.jar"}, "/cache", False),
        ({}, {}, "/cache", True),
        ({}, {}, "/with a blank", False),
        ({}, {}, "/with:a colon", False),
    ],
)
def test_it_is_for_a_local_spark_whose_class_path_nobody_else_decides(home, conf, chosen, folder, submits):
    defaults = home / "conf" / "spark-defaults.conf"
    assert not can_start_quickly(CONF | conf, chosen, Path(folder), home, defaults, submits=submits)
    assert can_start_quickly(CONF, {}, Path("/cache"), home, defaults, submits=False)


def test_defaults_of_the_user_are_left_to_spark(home, folder):
    defaults = home / "spark-defaults.conf"
    defaults.touch()
    assert not can_start_quickly(CONF, {}, folder, home, defaults, submits=False)


class TestArchive:
    def written(self, home: Path, folder: Path) -> Path:
        """What the JVM of a start leaves when it exits."""
        [option] = [option for option in options(home, folder) if option.startswith("-XX:ArchiveClassesAtExit=")]
        unfinished = Path(option.partition("=")[2])
        unfinished.write_bytes(COMPLETE)
        return unfinished

    def test_the_first_start_writes_it_and_the_next_reads_it(self, home, folder):
        unfinished = self.written(home, folder)
        key, digest = unfinished.name.split(".")[0], sha256_of(unfinished)
        archive = folder / f"{key}.{digest}.jsa"
        for _ in range(2):
            assert f"-XX:SharedArchiveFile={archive}" in options(home, folder)
        assert archive.read_bytes() == COMPLETE
        assert not unfinished.exists()

    def test_a_changed_one_is_deleted_and_written_again(self, home, folder):
        self.written(home, folder)
        options(home, folder)
        [archive] = folder.glob("*.jsa")
        archive.write_bytes(COMPLETE + b"changed")
        assert options(home, folder)[-1].startswith("-XX:ArchiveClassesAtExit=")
        assert not archive.exists()

    def test_a_link_is_no_archive(self, home, folder, tmp_path):
        self.written(home, folder)
        options(home, folder)
        [archive] = folder.glob("*.jsa")
        shutil.move(archive, tmp_path / "other")
        archive.symlink_to(tmp_path / "other")
        assert not [option for option in options(home, folder) if "Archive" in option]

    def test_an_incomplete_one_is_not_used_and_deleted_after_a_day(self, home, folder):
        unfinished = self.written(home, folder)
        unfinished.write_bytes(b"\0" * 8)
        assert options(home, folder)[-1].startswith("-XX:ArchiveClassesAtExit=")
        assert unfinished.exists()
        os.utime(unfinished, (0, time.time() - 2 * 24 * 60 * 60))
        options(home, folder)
        assert not unfinished.exists()

    @pytest.mark.parametrize("change", ["java", "spark", "sum", "time"])
    def test_with_another_java_spark_or_jar_it_is_another(self, home, folder, change):
        first = options(home, folder)[-1]
        java, jar = JAVA, DELTA
        match change:
            case "java":
                java = JAVA.replace("17.0.1", "21.0.1")
            case "spark":
                (home / "jars" / "spark-core_2.13-4.1.4.jar").touch()
            case "sum":
                jar = Jar(DELTA.path, "e" * 64)
            case "time":
                os.utime(folder / DELTA.name, (0, 0))
        assert options(home, folder, java, jar)[-1] != first

    def test_a_java_that_has_none_is_not_asked_for_one(self, home, folder):
        java = JAVA.replace(", sharing", "")
        assert not [option for option in options(home, folder, java) if "Archive" in option]

    def test_only_those_used_last_are_kept(self, home, folder):
        for age in range(5):
            (folder / f"other{age}.jsa").write_bytes(COMPLETE)
            os.utime(folder / f"other{age}.jsa", (0, 1000 - age))
        options(home, folder)
        assert sorted(path.name for path in folder.glob("*.jsa")) == ["other0.jsa", "other1.jsa", "other2.jsa"]


@pytest.mark.parametrize("brief", [True, False])
def test_only_a_brief_run_does_without_the_optimising_compiler(home, folder, brief):
    assert ("-XX:TieredStopAtLevel=1" in options(home, folder, brief=brief)) is brief
