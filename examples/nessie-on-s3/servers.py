"""Start S3 and Nessie on this machine, with one table.

The servers are those of zlayout's tests. README.md has the commands that use them.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests"))

from support.nessie import nessie_server  # noqa: E402
from support.servers import CREDENTIALS, s3_server  # noqa: E402

from zlayout import load_project  # noqa: E402
from zlayout.spark.session import SparkRuntime  # noqa: E402

ROWS = """
SELECT id AS order_id, CAST(hash(id, 1) % 50000 AS bigint) AS customer_id,
       date_add(DATE '2026-01-01', CAST(abs(hash(id, 2)) % 365 AS int)) AS order_date
FROM range(0, 40000, 1, 8)
"""


def main() -> None:
    os.environ.update(CREDENTIALS)
    project = load_project(HERE)
    options = project.catalogs["nessie"].options
    store = options["storage"]["endpoint"]
    with (
        tempfile.TemporaryDirectory() as folder,
        s3_server(urlsplit(store).port, "lake"),
        nessie_server(urlsplit(options["uri"]).port, Path(folder), "s3://lake/nessie", store),
    ):
        with SparkRuntime(project) as runtime:
            runtime.session.sql("CREATE NAMESPACE nessie.sales")
            runtime.session.sql(f"CREATE TABLE nessie.sales.orders USING iceberg AS {ROWS}")
        signal.signal(signal.SIGINT, signal.default_int_handler)  # instead of Spark's, which needs a session
        print("ready", flush=True)
        with suppress(KeyboardInterrupt):
            signal.pause()


if __name__ == "__main__":
    main()
