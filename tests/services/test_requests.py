"""How many requests planning a table on S3 takes, and that tables are read at the same time."""

import os
from collections.abc import Iterator

import pytest
from support.s3_proxy import Proxy, kinds, s3_proxy
from support.s3_tables import BUCKET, make_project, write_config
from support.servers import CREDENTIALS, free_port, s3_server

from zlayout.planner.model import Status
from zlayout.session.session import plan
from zlayout.spec.load import load_project
from zlayout.spec.model import Project

COMMITS, TABLES = 3, 2


@pytest.fixture(scope="module")
def proxied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Project, Proxy]]:
    """A project with tables of three commits, whose store is behind a proxy in this process.

    A library that waits for the store without letting other threads run would stop the proxy, too.
    """
    root = tmp_path_factory.mktemp("distance")
    with pytest.MonkeyPatch.context() as patch, s3_server(port := free_port(), BUCKET) as url, s3_proxy(port) as proxy:
        for name, value in CREDENTIALS.items():
            patch.setenv(name, value)
        make_project(root, url, TABLES, TABLES, COMMITS)
        write_config(root, {"endpoint": proxy[1], "region": "us-east-1"})
        yield load_project(root, os.environ), proxy[0]


def test_a_delta_table_takes_one_listing_of_its_own_and_reads_each_commit_once(
    proxied: tuple[Project, Proxy],
) -> None:
    """Besides, deltalake lists the log and reads each commit twice."""
    project, proxy = proxied
    with proxy.counting() as requests:
        planned = plan(project, "lake.*")
    assert {table.status for table in planned.tables} == {Status.CHANGES}
    assert kinds(requests) == {
        "GET last checkpoint": TABLES,
        "GET list": 2 * TABLES,
        "GET commit": (2 + 1) * COMMITS * TABLES,
        "HEAD commit": COMMITS * TABLES,
    }


def test_an_iceberg_table_takes_each_metadata_file_once(proxied: tuple[Project, Proxy]) -> None:
    """No region of the bucket is looked up, nothing is listed. Arrow asks for the size of a file before it reads."""
    project, proxy = proxied
    with proxy.counting() as requests:
        planned = plan(project, "ice.*")
    assert {table.status for table in planned.tables} == {Status.CHANGES}
    files = {"table metadata": TABLES, "manifest list": TABLES, "manifest": COMMITS * TABLES}
    assert kinds(requests) == {f"{method} {kind}": count for kind, count in files.items() for method in ("HEAD", "GET")}


def test_metadata_files_are_read_at_the_same_time(proxied: tuple[Project, Proxy]) -> None:
    """Both formats, both tables: while the first answers are held back, others are asked for."""
    project, proxy = proxied
    proxy.round_trip = 0.05
    try:
        for pattern in ("lake.*", "ice.*"):
            with proxy.busiest() as busiest:
                plan(project, pattern)
            assert busiest[0] >= COMMITS, pattern
    finally:
        proxy.round_trip = 0.0
