"""Storage locations that are written in different ways."""

import pytest

from zlayout.table.location import canonical, container


@pytest.mark.parametrize("text", ["/a/t", "/a/t/", "file:/a/t", "file:///a/t/", "FILE:/a/t"])
def test_local_paths(text: str) -> None:
    assert canonical(text) == "/a/t"
    assert container(text) == "/"


@pytest.mark.parametrize("text", ["s3://b/t", "s3a://b/t/", "S3N://b/t//"])
def test_object_store(text: str) -> None:
    assert canonical(text) == "s3://b/t"
    assert container(text) == "s3://b"


def test_names_that_are_no_path() -> None:
    assert canonical("/") == "/"
    assert canonical("memory:cat.db.t") == "memory:cat.db.t"
    assert container("memory:cat.db.t") == ""
    assert canonical("s3://b/t") != canonical("s3://B/t")
