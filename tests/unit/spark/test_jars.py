"""The list of jars: every package that zlayout requests is in it, with a sum for each jar."""

import json
import re

import pytest
from support.jars import BUILDS, requests

from zlayout.errors import EngineError
from zlayout.spark import jars
from zlayout.spark.jars import Jar, cache_folder, closure
from zlayout.spark.session import default_jars, names_jars
from zlayout.spark.versions import Release


@pytest.mark.parametrize("release", BUILDS, ids=lambda release: f"{release.spark}-{release.scala}")
def test_every_package_of_every_release_is_listed_with_its_own_jar(release: Release) -> None:
    for packages in requests(release):
        listed = {(*jar.module, jar.version) for jar in closure(packages)}
        assert {tuple(package.split(":")) for package in packages} <= listed


def test_each_listed_jar_has_a_sum_and_belongs_to_a_package_that_is_requested() -> None:
    listed = json.loads(jars.LISTED.read_bytes())
    requested = {package for release in BUILDS for packages in requests(release) for package in packages}
    assert set(listed["packages"]) == requested
    assert {path for paths in listed["packages"].values() for path in paths} == set(listed["sha256"])
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in listed["sha256"].values())


def test_the_newest_version_of_an_artifact_is_used() -> None:
    of_mysql = "com.mysql:mysql-connector-j:9.4.0", "com.google.cloud.bigdataoss:gcs-connector:hadoop3-2.2.25"
    for packages in (of_mysql, of_mysql[::-1]):
        assert [jar.version for jar in closure(packages) if jar.module[1] == "protobuf-java"] == ["4.31.1"]


def test_a_jar_has_the_name_that_ivy_gives_it() -> None:
    jar = Jar("io/delta/delta-spark_2.13/4.0.0/delta-spark_2.13-4.0.0.jar", "")
    assert jar.module == ("io.delta", "delta-spark_2.13")
    assert jar.name == "io.delta_delta-spark_2.13-4.0.0.jar"


def test_the_cache_is_in_the_home_of_the_user_and_closed_to_others(tmp_path) -> None:
    for environ in ({"HOME": str(tmp_path)}, {"HOME": str(tmp_path), "XDG_CACHE_HOME": "relative"}):
        folder = cache_folder(environ)
        assert folder == tmp_path / ".cache" / "zlayout" / "spark"
        assert folder.stat().st_mode & 0o777 == folder.parent.stat().st_mode & 0o777 == 0o700
    assert cache_folder({"XDG_CACHE_HOME": str(tmp_path)}) == tmp_path / "zlayout" / "spark"


def test_a_cache_that_cannot_be_created_is_an_error_that_says_what_to_set(tmp_path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(EngineError, match=r"ZL304.*cannot be created.*XDG_CACHE_HOME"):
        cache_folder({"XDG_CACHE_HOME": str(tmp_path / "file")})


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("--jars a.jar pyspark-shell", True),
        ("--packages=a:b:1 pyspark-shell", True),
        ('--conf "spark.jars=/a.jar" pyspark-shell', True),
        ("--conf spark.jars.packages=a:b:1 pyspark-shell", True),
        ("--exclude-packages a:b --conf spark.jars.ivy=/tmp --driver-class-path /jars pyspark-shell", False),
    ],
)
def test_arguments_of_spark_submit_name_jars(arguments: str, expected: bool) -> None:
    assert names_jars({"PYSPARK_SUBMIT_ARGS": arguments}) is expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("spark.jars /a.jar,/b.jar\n", "/a.jar,/b.jar"),
        ("# spark.jars /no.jar\n  spark.jars = /a.jar \nspark.jars.packages a:b:1\n", "/a.jar"),
        ("spark.jars:/a.jar", "/a.jar"),
        ("spark.jars.packages a:b:1", ""),
        ("", ""),
    ],
)
def test_the_jars_of_the_defaults_of_spark_are_read(tmp_path, text: str, expected: str) -> None:
    (tmp_path / "spark-defaults.conf").write_text(text)
    assert default_jars(tmp_path / "spark-defaults.conf") == expected
    assert default_jars(tmp_path / "missing") == ""
