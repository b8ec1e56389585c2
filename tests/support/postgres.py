"""A PostgreSQL server on the loopback address, with its database in a folder."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.servers import wait_for_port

OWNER = "zlayout"
_QUICK = ("fsync=off", "unix_socket_directories=", "listen_addresses=127.0.0.1")


@contextmanager
def postgres_server(port: int, folder: Path) -> Iterator[str]:
    """The SQLAlchemy URI of an empty database. Skips the test where PostgreSQL is not installed."""
    programs = os.pathsep.join((os.environ["PATH"], *map(str, Path("/usr/lib/postgresql").glob("*/bin"))))
    initdb, postgres = (shutil.which(name, path=programs) for name in ("initdb", "postgres"))
    if not initdb or not postgres:
        pytest.skip("needs PostgreSQL (Debian package postgresql), which is not installed")
    user = None
    if os.geteuid() == 0:  # PostgreSQL refuses to run as root
        user = "nobody"
        for parent in (folder, *folder.parents):
            if parent.stat().st_uid == 0 and not parent.stat().st_mode & 0o001:
                parent.chmod(parent.stat().st_mode | 0o011)
        shutil.chown(folder, user)
    data = folder / "data"
    subprocess.run(
        [initdb, "-D", data, "-U", OWNER, "-A", "trust", "-N"], check=True, capture_output=True, user=user, cwd=folder
    )
    settings = [argument for setting in _QUICK for argument in ("-c", setting)]
    log = folder / "postgres.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [postgres, "-D", data, "-p", str(port), *settings], stdout=output, stderr=output, user=user, cwd=folder
        )
    try:
        wait_for_port(port, process, log)
        yield f"postgresql+psycopg2://{OWNER}@127.0.0.1:{port}/postgres"
    finally:
        process.send_signal(signal.SIGINT)  # the fast shutdown, which does not wait for clients
        process.wait()
