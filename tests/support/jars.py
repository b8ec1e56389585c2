"""Makes zlayout/spark/jars.json: what Ivy resolves from Maven Central for the packages of versions.py, with their sums.

Ivy compares what it downloads with the SHA-1 sums of Maven Central. The same functions check the file in tests.
"""

import hashlib
import itertools
import json
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from support.hive import JARS
from support.jre import provide_java

from zlayout.spark import versions
from zlayout.spark.jars import LISTED, closure
from zlayout.spark.versions import RELEASES, Release

CACHE = Path(__file__).parents[2] / "build" / "jars" / "ivy"
# Spark 3.5 has two builds.
BUILDS = (*RELEASES, *(replace(release, scala="2.13") for release in RELEASES if release.scala == "2.12"))
_SETTINGS = """<ivysettings>
  <settings defaultResolver="central"/>
  <resolvers><ibiblio name="central" m2compatible="true"/></resolvers>
</ivysettings>
"""
# As spark-submit asks Ivy for packages: with their dependencies at run time, without the library of Scala.
_MODULE = """<ivy-module version="2.0">
  <info organisation="zlayout" module="jars"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>{}{}<exclude module="scala-library"/></dependencies>
</ivy-module>
"""
_DEPENDENCY = '<dependency org="{}" name="{}" rev="{}" conf="default->default(runtime)"/>'
# Spark has its own slf4j and Netty, and no client of these packages sends requests by Netty.
S3_EXCLUDED = (
    "com.amazonaws:aws-java-sdk-bundle",
    "software.amazon.awssdk:bundle",
    "software.amazon.awssdk:netty-nio-client",
    "org.slf4j:slf4j-api",
)
_EXCLUDED = '<exclude org="{}" module="{}"/>'


def newest_tested(release: Release) -> str:
    """Return the newest tested patch version of Spark for the minor version of a release."""
    patches = [
        int(version.split(".")[2]) for version in versions.TESTED_SPARK if versions.minor(version) == release.spark
    ]
    return f"{release.spark}.{max(patches)}"


def requests(release: Release) -> Iterator[tuple[str, ...]]:
    """The combinations of packages that projects need with a release, for each set of object stores."""
    formats = tuple(package for package in (release.delta_package, release.iceberg_package) if package)
    stores = (release.s3_packages, versions.GCS_PACKAGES, release.adls_packages)
    for count in range(len(stores) + 1):
        for chosen in itertools.combinations(stores, count):
            yield (*formats, *versions.JDBC_PACKAGES.values(), *itertools.chain(*chosen))


def resolve(packages: Iterable[str]) -> dict[str, Path]:
    """The jars that Ivy resolves for packages together: by the path in a Maven repository, that in Ivy's cache."""
    dependencies = "".join(_DEPENDENCY.format(*package.split(":")) for package in packages)
    excluded = "".join(_EXCLUDED.format(*module.split(":")) for module in S3_EXCLUDED)
    with TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "settings.xml").write_text(_SETTINGS)
        (folder / "ivy.xml").write_text(_MODULE.format(dependencies, excluded).replace("->", "-&gt;"))
        files = ("-settings", folder / "settings.xml", "-ivy", folder / "ivy.xml", "-cachepath", folder / "jars")
        arguments = (*files, "-cache", CACHE, "-confs", "default", "-warn")
        provide_java()
        command = ["java", "-cp", f"{JARS}/*", "org.apache.ivy.Main", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode or not (folder / "jars").exists():
            raise RuntimeError(done.stdout[-4000:])
        found = [Path(jar) for jar in (folder / "jars").read_text().strip().split(":")]
    return dict(sorted((_path(jar), jar) for jar in found))


def _path(jar: Path) -> str:
    """The path in a Maven repository of a jar CACHE/group/artifact/type/artifact-version.jar."""
    group, artifact, _, name = jar.relative_to(CACHE).parts
    version = name.removeprefix(f"{artifact}-").removesuffix(".jar")
    return f"{group.replace('.', '/')}/{artifact}/{version}/{name}"


def main() -> None:
    packages = sorted({package for release in BUILDS for request in requests(release) for package in request})
    resolved = {package: resolve([package]) for package in packages}
    files = {path: jar for jars in resolved.values() for path, jar in jars.items()}
    sums = {path: hashlib.sha256(files[path].read_bytes()).hexdigest() for path in sorted(files)}
    content = {"packages": {package: list(jars) for package, jars in resolved.items()}, "sha256": sums}
    LISTED.write_text(json.dumps(content, indent=1) + "\n")
    for request in {request: None for release in BUILDS for request in requests(release)}:
        expected, found = set(resolve(request)), {jar.path for jar in closure(request)}
        if expected != found:
            sys.exit(f"{', '.join(request)}: {sorted(expected ^ found)}")


if __name__ == "__main__":  # make jars
    main()
