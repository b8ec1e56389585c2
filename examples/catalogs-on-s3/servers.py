"""Start S3, Glue, a REST catalog and a Hive metastore on this machine, with one table in each catalog.

The servers are those of zlayout's tests. README.md has the commands that use them.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from urllib.parse import urlsplit

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests"))

from support.hive import hive_metastore  # noqa: E402
from support.rest import rest_server  # noqa: E402
from support.servers import CREDENTIALS, s3_server  # noqa: E402

from zlayout import load_project  # noqa: E402
from zlayout.spark.session import SparkRuntime  # noqa: E402
from zlayout.spec.client_options import hadoop_conf, iceberg_conf  # noqa: E402
from zlayout.spec.model import CatalogConfig, Project  # noqa: E402

ROWS = """
SELECT id AS order_id, CAST(hash(id, 1) % 50000 AS bigint) AS customer_id,
       date_add(DATE '2026-01-01', CAST(abs(hash(id, 2)) % 365 AS int)) AS order_date
FROM range(0, 40000, 1, 8)
"""


def main() -> None:
    os.environ.update(CREDENTIALS)
    project = load_project(HERE)
    with ExitStack() as servers, tempfile.TemporaryDirectory() as folder:
        with SparkRuntime(project) as runtime:
            # The servers write to S3 too. They get the clients of S3 from the session, which has downloaded them.
            jars = [urlsplit(jar).path for jar in runtime.session.conf.get("spark.jars", "").split(",")]
            start(project, Path(folder), jars, servers)
            for name in project.catalogs:
                runtime.session.sql(f"CREATE NAMESPACE {name}.sales")
                runtime.session.sql(f"CREATE TABLE {name}.sales.orders USING iceberg AS {ROWS}")
        signal.signal(signal.SIGINT, signal.default_int_handler)  # instead of Spark's, which needs a session
        print("ready", flush=True)
        with suppress(KeyboardInterrupt):
            signal.pause()


def start(project: Project, folder: Path, jars: list[str], servers: ExitStack) -> None:
    """Start the servers at the addresses that the project declares."""
    rest, hive, glue = (project.catalogs[name] for name in ("rest", "hms", "glue"))
    servers.enter_context(s3_server(port(glue), "lake"))
    for name in ("rest", "hive"):
        (folder / name).mkdir()
    of_s3 = iceberg_conf(rest)
    servers.enter_context(rest_server(port(rest), folder / "rest", "s3://lake/rest", jars, of_s3))
    hadoop = {key.removeprefix("spark.hadoop."): value for key, value in hadoop_conf(hive).items()}
    servers.enter_context(hive_metastore(port(hive), folder / "hive", jars, hadoop))


def port(catalog: CatalogConfig) -> int:
    return urlsplit(catalog.options["uri"]).port


if __name__ == "__main__":
    main()
