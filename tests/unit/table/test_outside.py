"""Which files of a table are outside of its location, whatever its metadata writes."""

from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa
import pytest

from zlayout.table.outside import find_outside


def outside(path: str, location: str, *permitted: str, uris: bool) -> tuple[bool, bool]:
    own = "part-0.parquet" if uris else f"{location}/x"
    found = find_outside(pa.array([own, path]), location, permitted, uris=uris)
    assert not found.files[0]
    assert not found.refused[0]
    return bool(found.files[1]), bool(found.refused[1])


INSIDE, PERMITTED, REFUSED = (False, False), (True, False), (True, True)


@pytest.mark.parametrize(
    "path",
    [
        "part-0.parquet",
        "p=1/part-0.parquet",
        "p=a%252F..%252Fb/part-0.parquet",  # the partition value a/../b: decoded once, this is one name
        "%252e%252e/x.parquet",
        "ts=2024-01-01%2000%3A00/part..0.parquet",
        "...parquet",
        "..x/y",
        "./x",
        "s3://bucket/t/x",
        "s3a://bucket/t/p=1/x",
        "S3N://bucket/t/x",
        "s3://bucket/t//x",
        "s3://bucket/%74/x",
    ],
)
@pytest.mark.parametrize("location", ["s3://bucket/t", "s3a://bucket/t/"])
def test_delta_paths_inside(path: str, location: str) -> None:
    assert outside(path, location, uris=True) == INSIDE


HOSTILE = [
    "../victim/x",
    "../t2/x",
    "x/../../victim/x",
    "%2e%2e/victim/x",
    "%2E%2e/victim/x",
    ".%2e/victim/x",
    "%2e./victim/x",
    "..%2Fvictim/x",
    "a%2f..%2f..%2fvictim/x",
    "..\\victim\\x",
    "..%5cvictim%5Cx",
    "/t/x",
    "/etc/x.parquet",
    "//bucket/t/x",
    "file:/t/x",
    "file:///t/x",
    "FILE:/etc/x",
    "file://localhost/t/x",
    "s3:/bucket/t/x",
    "s3:bucket/t/x",
    "s3://bucket/t2/x",
    "s3://bucket/t",
    "s3://bucket/x",
    "s3://Bucket/t/x",
    "s3://other/t/x",
    "s3://bucket//t/x",
    "s3://bucket/t/../victim/x",
    "s3://bucket/t/%2e%2e/victim/x",
    "s3://bucket/victim/../t/x",
    "s3://user:pass@bucket/t/x",
    "s3://bucket:80/t/x",
    "s3://bucket@evil/t/x",
    "s3://bucket/t/x?endpoint_override=http://evil",
    "x?y",
    "x#/../../victim",
    "gs://bucket/t/x",
    "https://bucket/t/x",
    "hdfs://bucket/t/x",
    "s3://bucket/../bucket/t/x",
]


@pytest.mark.parametrize("path", HOSTILE)
def test_delta_paths_outside(path: str) -> None:
    assert outside(path, "s3://bucket/t", uris=True) == REFUSED
    assert outside(path, "s3://bucket/t/", "s3://bucket/t3", "s3://b", "/t3", uris=True) == REFUSED


@pytest.mark.parametrize(
    ("path", "permitted"),
    [
        ("s3://other/t/x", "s3://other/t"),
        ("s3://other/t/x", "s3a://other/"),
        ("s3a://other/t/p=1/x", "s3://other/t/"),
        ("s3://other/my%20table/x", "s3://other/my table"),
        ("abfs://c@a.dfs.core.windows.net/t/x", "abfss://c@a.dfs.core.windows.net/t"),
        ("hdfs://nn:8020/t/x", "hdfs://nn:8020/t"),
        ("/old/t/x", "/old/t"),
        ("file:/old/t/x", "file:///old/t/"),
    ],
)
def test_permitted_locations(path: str, permitted: str) -> None:
    assert outside(path, "s3://bucket/t", permitted, uris=True) == PERMITTED
    assert outside(path, "s3://bucket/t", permitted + "2", uris=True) == REFUSED


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("s3://bucket/t/data/x", INSIDE),
        ("s3a://bucket/t/data/%2e%2e/x", INSIDE),  # not decoded: a name
        ("s3://bucket/t/data/0101/1100/p=1/x", INSIDE),
        ("s3://bucket/t/data/#x?y", INSIDE),
        ("S3://bucket/t/x", INSIDE),
        ("s3://bucket/t/../victim/x", REFUSED),
        ("s3://bucket/t/data/..", REFUSED),
        ("s3://bucket/victim/../t/x", REFUSED),
        ("s3://bucket/t2/x", REFUSED),
        ("s3://bucket/t", REFUSED),
        ("s3://bucket/t#/x", REFUSED),
        ("s3://bucket/t?/x", REFUSED),
        ("data/x", REFUSED),  # relative to the working directory of a process
        ("../victim/x", REFUSED),
        ("/t/x", REFUSED),
        ("file:/t/x", REFUSED),
        ("gs://bucket/t/x", REFUSED),
        ("s3://other/t/x", PERMITTED),
        ("s3a://other/t/x", PERMITTED),
        ("s3://other/t/../u/x", REFUSED),
        ("s3://other/tt/x", REFUSED),
    ],
)
def test_iceberg_locations(path: str, expected: tuple[bool, bool]) -> None:
    assert outside(path, "s3://bucket/t", "s3://other/t/", uris=False) == expected


@pytest.mark.parametrize("scheme", ["", "file:", "file://"])
def test_local_links(tmp_path: Path, scheme: str) -> None:
    table, victim, disk = tmp_path / "t", tmp_path / "victim", tmp_path / "disk"
    for folder in (table / "p=1", table / "p=2", victim, disk):
        folder.mkdir(parents=True)
    (victim / "x").touch()
    (disk / "x").touch()
    (table / "own").touch()
    (table / "p=1" / "own").touch()
    (table / "p=1" / "again").symlink_to(table / "own")
    (table / "p=2" / "stolen").symlink_to(victim / "x")
    (table / "p=3").symlink_to(victim)
    (table / "p=4").symlink_to(disk)
    (table / "p=5").symlink_to(table / "p=1")
    names = ["own", "p=1/own", "p=1/again", "p=5/own", "p=1/../own", "p=2/stolen", "p=3/x", "p%3D3/x", "p=4/x", "gone"]
    names += [f"{table}/own", f"file:{table}/p=3/x", "../victim/x", "../t/own", f"{victim}/x", "a\0b"]
    found = find_outside(pa.array(names), f"{scheme}{table}", [str(disk)], uris=True)
    refused = {"p=2/stolen", "p=3/x", "p%3D3/x", f"file:{table}/p=3/x", "../victim/x", f"{victim}/x", "a\0b"}
    assert {name for name, out in zip(names, found.refused, strict=True) if out} == refused
    assert {name for name, out in zip(names, found.files, strict=True) if out} == refused | {"p=4/x"}
    assert found.places == {str(victim)}
    linked = tmp_path / "link"
    linked.symlink_to(table)
    assert find_outside(pa.array(names), f"{scheme}{linked}", [str(disk)], uris=True).refused.sum() == len(refused)
    plain = pa.array([f"{scheme}{linked}/own", f"{scheme}{table}/own", f"{scheme}{linked}/p=3/x"])
    assert find_outside(plain, f"{scheme}{linked}").refused.tolist() == [False, False, True]


def test_places_have_no_values_of_rows() -> None:
    paths = pa.array(["s3://v/t/p=secret/x", "s3://v/t/y", "s3://v/t/../z"])
    assert find_outside(paths, "s3://b/t", uris=True).places == {"s3://v/t"}


@pytest.mark.parametrize("uris", [True, False])
def test_many_files_are_compared_as_columns(uris: bool) -> None:
    count = 100_000
    names = [f"part-{n:05}-4f0b6f5e-8c7b-4b6e-9b0e-1f1b0e6f5a3c.c000.snappy.parquet" for n in range(count)]
    paths = pa.array(names if uris else [f"s3://bucket/warehouse/db/t/data/{name}" for name in names])
    began = perf_counter()
    found = find_outside(paths, "s3://bucket/warehouse/db/t", uris=uris)
    took = perf_counter() - began
    assert not found.files.any()
    assert took < 0.25
    clone = pa.array([f"s3a://bucket/source/{name}" for name in names])
    found = find_outside(clone, "s3://bucket/t", ["s3://bucket/source"], uris=True)
    assert np.all(found.files)
    assert not found.refused.any()
