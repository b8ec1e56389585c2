"""A MariaDB server, which speaks the protocol of MySQL, on the loopback address, with its database in a folder."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.servers import wait_for_port

OWNER = "zlayout"
_DATABASE = "iceberg"
_QUICK = ("--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=32M", "--skip-log-bin")


@contextmanager
def mysql_server(port: int, folder: Path) -> Iterator[str]:
    """The SQLAlchemy URI of an empty database. Skips the test where MariaDB is not installed."""
    programs = os.pathsep.join((os.environ["PATH"], "/usr/sbin"))
    install, server = (shutil.which(name, path=programs) for name in ("mariadb-install-db", "mariadbd"))
    if not install or not server:
        pytest.skip("needs MariaDB (Debian package mariadb-server), which is not installed")
    user = ("--user=root",) if os.geteuid() == 0 else ()
    data, first, log = folder / "data", folder / "first.sql", folder / "mysql.log"
    common = ("--no-defaults", f"--datadir={data}", *user)
    subprocess.run([install, *common, "--skip-test-db"], check=True, capture_output=True)
    statements = (  # one a line
        f"CREATE DATABASE {_DATABASE};",
        f"CREATE USER {OWNER}@'127.0.0.1';",
        f"GRANT ALL ON {_DATABASE}.* TO {OWNER}@'127.0.0.1';",
    )
    first.write_text("\n".join(statements))
    local = ("--bind-address=127.0.0.1", f"--port={port}", f"--socket={folder / 'mysql.sock'}", "--skip-name-resolve")
    with log.open("wb") as output:
        process = subprocess.Popen(
            [server, *common, *local, *_QUICK, f"--init-file={first}"], stdout=output, stderr=output, cwd=folder
        )
    try:
        wait_for_port(port, process, log)
        yield f"mysql+pymysql://{OWNER}@127.0.0.1:{port}/{_DATABASE}"
    finally:
        process.terminate()
        process.wait()
