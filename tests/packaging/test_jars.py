"""The list of jars is what Ivy resolves. Without downloads before, this takes minutes."""

import pytest
from support.jars import BUILDS, requests, resolve

from zlayout.spark.jars import closure, sha256_of
from zlayout.spark.versions import Release


@pytest.mark.long
@pytest.mark.parametrize("release", BUILDS, ids=lambda release: f"{release.spark}-{release.scala}")
def test_the_listed_jars_are_the_closure_that_ivy_resolves(release: Release) -> None:
    for packages in requests(release):
        resolved = resolve(packages)
        listed = {jar.path: jar.sha256 for jar in closure(packages)}
        assert listed == {path: sha256_of(jar) for path, jar in resolved.items()}
