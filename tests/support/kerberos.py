"""A Kerberos KDC on the loopback address, from the Debian packages krb5-kdc, krb5-admin-server and krb5-user."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from support.servers import running

REALM = "ZLAYOUT.TEST"
_SBIN = Path("/usr/sbin")
_CLIENT = """[libdefaults]
 default_realm = {realm}
 dns_lookup_kdc = false
 dns_lookup_realm = false
 dns_canonicalize_hostname = false
 rdns = false
 udp_preference_limit = 1
[realms]
 {realm} = {{
  kdc = 127.0.0.1:{port}
 }}
[domain_realm]
 localhost = {realm}
"""
_SERVER = """[kdcdefaults]
 kdc_listen = 127.0.0.1:{port}
 kdc_tcp_listen = 127.0.0.1:{port}
[realms]
 {realm} = {{
  database_name = {folder}/principal
  key_stash_file = {folder}/stash
  acl_file = {folder}/acl
 }}
"""


@contextmanager
def kdc(port: int, folder: Path, *principals: str) -> Iterator[dict[str, str]]:
    """The variables of the environment with which clients use a KDC, which has `principals`.

    The keytab of a principal is in the folder, with its name up to a slash.
    """
    if not (_SBIN / "krb5kdc").exists():
        pytest.skip("krb5-kdc is not installed")
    client, server = folder / "krb5.conf", folder / "kdc.conf"
    client.write_text(_CLIENT.format(realm=REALM, port=port))
    server.write_text(_SERVER.format(realm=REALM, port=port, folder=folder))
    of_clients = {"KRB5_CONFIG": str(client), "KRB5CCNAME": f"FILE:{folder / 'ccache'}"}
    environ = {**os.environ, **of_clients, "KRB5_KDC_PROFILE": str(server)}

    def run(*command: object) -> None:
        subprocess.run([*map(str, command)], env=environ, check=True, capture_output=True)

    run(_SBIN / "kdb5_util", "create", "-s", "-r", REALM, "-P", "of-the-tests")
    for principal in principals:
        run(_SBIN / "kadmin.local", "-q", f"addprinc -randkey {principal}")
        run(_SBIN / "kadmin.local", "-q", f"ktadd -k {folder / principal.partition('/')[0]}.keytab {principal}")
    with running([_SBIN / "krb5kdc", "-n"], port, folder / "kdc.log", env=environ):
        yield of_clients
