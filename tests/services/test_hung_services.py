"""A service that accepts connections and never answers, of each type, beside a good table. The processes are real."""

import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.projects import LAYOUT, Cli
from support.servers import CREDENTIALS

STORAGE = 'storage: {{endpoint: "http://127.0.0.1:{port}", region: us-east-1}}'
CATALOGS = {
    "s3_delta": '{{format: delta, warehouse: "s3://b/t", ' + STORAGE + "}}",
    "s3_iceberg": '{{format: iceberg, type: sql, uri: "sqlite:///ice.db", warehouse: "s3://b/t", ' + STORAGE + "}}",
    "glue": '{{format: iceberg, type: glue, uri: "http://127.0.0.1:{port}", storage: {{region: us-east-1}}}}',
    "rest": '{{format: iceberg, type: rest, uri: "http://127.0.0.1:{port}"}}',
    "hive": '{{format: iceberg, type: hive, uri: "thrift://127.0.0.1:{port}"}}',
    "postgres": '{{format: iceberg, type: sql, uri: "postgresql+psycopg2://u@127.0.0.1:{port}/db", warehouse: /w}}',
    "mysql": '{{format: iceberg, type: sql, uri: "mysql+pymysql://u@127.0.0.1:{port}/db", warehouse: /w}}',
    "delta_hive": '{{format: delta, type: hive, uri: "thrift://127.0.0.1:{port}"}}',
    "delta_glue": '{{format: delta, type: glue, uri: "http://127.0.0.1:{port}", storage: {{region: us-east-1}}}}',
    "delta_unity": '{{format: delta, type: unity, uri: "http://127.0.0.1:{port}", warehouse: main}}',
}
HUNG = """
  rest: {{format: iceberg, type: rest, uri: "http://127.0.0.1:{port}"}}
  glue: {{format: iceberg, type: glue, uri: "http://127.0.0.1:{port}", storage: {{region: us-east-1}}}}
  s3: {{format: delta, warehouse: "s3://b/t", storage: {{endpoint: "http://127.0.0.1:{port}", region: us-east-1}}}}
"""
NEEDS = {"hive": "hive_metastore", "delta_hive": "thrift", "postgres": "psycopg2", "mysql": "pymysql"}
LIMIT = 4.0  # seconds
SLACK = 25.0  # seconds, to start Python and its libraries on a slow machine

every_type = pytest.mark.parametrize(
    "name",
    [
        pytest.param(
            name,
            marks=pytest.mark.skipif(
                name in NEEDS and importlib.util.find_spec(NEEDS[name]) is None, reason=f"needs {NEEDS.get(name)}"
            ),
        )
        for name in CATALOGS
    ],
)


def start(root: Path, name: str, port: int, *options: str) -> subprocess.Popen[str]:
    """`zlayout plan` of a good table and of one whose catalog or store hangs."""
    if name == "s3_iceberg":
        _register(root, port)
    settings = root / "zlayout.yaml"
    settings.write_text(f"{settings.read_text().rstrip()}\n  other: {CATALOGS[name].format(port=port)}\n")
    (root / "layouts" / "other.yaml").write_text(LAYOUT.replace("lake.db.orders", "other.db.t"))
    return subprocess.Popen(
        [sys.executable, "-m", "zlayout", "plan", *options],
        cwd=root, env=os.environ | CREDENTIALS, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        preexec_fn=_interruptible,
    )  # fmt: skip


def _interruptible() -> None:
    """Let SIGINT interrupt this process, also if the tests run in the background, where shells ignore it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def _register(root: Path, port: int) -> None:
    """A catalog that knows the table, whose metadata file is on the store that hangs."""
    from pyiceberg.catalog.sql import IcebergTables, SqlCatalog
    from sqlalchemy.orm import Session

    catalog = SqlCatalog("other", uri=f"sqlite:///{root}/ice.db", warehouse=f"file://{root}/w")
    with Session(catalog.engine) as session:
        names = {"catalog_name": "other", "table_namespace": "db", "table_name": "t"}
        place = f"s3://b/t/{port}.metadata.json"
        session.add(IcebergTables(**names, metadata_location=place, previous_metadata_location=place))
        session.commit()


@every_type
def test_the_good_table_is_planned_and_the_process_ends_within_the_limit(root: Path, hung: int, name: str) -> None:
    begun = time.monotonic()
    process = start(root, name, hung, "--timeout", f"{LIMIT:g}")
    out, err = process.communicate(timeout=150)
    assert time.monotonic() - begun < LIMIT + SLACK
    assert process.returncode == 1
    text = " ".join(out.split())
    assert "lake.db.orders" in text
    assert "1 failed" in text
    assert f"ZL105 other.db.t could not be read within {LIMIT:g} s: catalog other or its storage" in text
    assert "damaged" not in text
    assert "Traceback" not in err


@every_type
def test_ctrl_c_ends_the_process_at_once(root: Path, hung: int, name: str) -> None:
    process = start(root, name, hung, "--timeout", "60")
    time.sleep(SLACK / 3)  # until it waits for the service
    assert process.poll() is None
    begun = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=100)
    assert time.monotonic() - begun < 3
    assert process.returncode == 130
    assert "Traceback" not in err


READS_IN_AN_EXECUTOR = """
import sys, time
from concurrent.futures import ThreadPoolExecutor
from zlayout.cli.main import main
from zlayout.formats.delta.backend import DeltaBackend

def observe(*_):  # as pyiceberg reads manifests: Python waits for such threads at the end of a process
    return ThreadPoolExecutor(1).submit(time.sleep, 60).result()

DeltaBackend.observe = observe
main(["plan", "--timeout", "1"])
"""


def test_threads_of_a_library_do_not_delay_the_end(root: Path) -> None:
    begun = time.monotonic()
    done = subprocess.run([sys.executable, "-c", READS_IN_AN_EXECUTOR], cwd=root, text=True, capture_output=True)
    assert time.monotonic() - begun < 1 + SLACK
    assert done.returncode == 1
    assert "ZL105 lake.db.orders could not be read within 1 s" in " ".join(done.stdout.split())


def test_good_tables_are_planned_beside_services_that_hang(
    root: Path, cli: Cli, hung: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    settings = root / "zlayout.yaml"
    settings.write_text(settings.read_text().rstrip() + HUNG.format(port=hung))
    layout = (root / "layouts" / "orders.yaml").read_text()
    for name in ("rest", "glue", "s3"):
        for table in ("t1", "t2"):
            text = layout.replace("lake.db.orders", f"{name}.db.{table}")
            (root / "layouts" / f"{name}-{table}.yaml").write_text(text)
    start = time.monotonic()
    printed = cli("plan", "--timeout", "5", "--parallelism", "1", code=1)
    # The two tables of each catalog together cost one limit, because nothing in it has answered.
    assert time.monotonic() - start < 60
    assert "lake.db.orders" in printed.out
    for name in ("rest", "glue", "s3"):
        for table in ("t1", "t2"):
            assert f"ZL105 {name}.db.{table} could not be read within 5 s" in " ".join(printed.out.split())
