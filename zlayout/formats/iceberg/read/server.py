"""Which properties zlayout accepts from the server of a catalog, and which hosts get the credentials of this machine.

A REST catalog sends properties with `/v1/config`, with each table, and with the credentials of a table. Libraries of
Iceberg obey them: they load classes, send tokens to other addresses, and send requests that are signed with the
credentials of this machine to other stores. `of_catalog` and `of_storage` return the properties that reach pyiceberg,
which are listed here. Iceberg's Java library has no such list. Therefore `require_harmless` refuses what it would obey.
Properties in the metadata of a table are not used at all.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from zlayout.errors import Location, TableError
from zlayout.table.location import S3_ENDPOINT_VARIABLES
from zlayout.text import quote_value

_FLAG = r"(?i:true|false)"
_NUMBER = r"\d{1,20}"
_NAME = r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}"
_SECRET = r"[!-~]{1,20000}"
# The keys of `/v1/config` that zlayout accepts, with the form of their values.
_OF_CATALOG = {
    "prefix": r"[^\s?#\\]{0,1000}",
    "namespace-separator": r"[^\s/?#]{1,20}",
    "rest-page-size": _NUMBER,
    "view-endpoints-supported": _FLAG,
    "nessie.is-nessie-catalog": _FLAG,
}
_S3_KEYS = ("s3.access-key-id", "s3.secret-access-key")
# The keys of file access that zlayout accepts, of any response.
_OF_STORAGE = {
    **dict.fromkeys((*_S3_KEYS, "s3.session-token"), _SECRET),
    "s3.session-token-expires-at-ms": _NUMBER,
    "s3.region": _NAME,
    "client.region": _NAME,
    "s3.path-style-access": _FLAG,
    "s3.force-virtual-addressing": _FLAG,
    "s3.remote-signing-enabled": _FLAG,
    "gcs.oauth2.token": _SECRET,
    "gcs.oauth2.token-expires-at": _NUMBER,
    "gcs.project-id": r"[a-z0-9:.-]{1,100}",
    "adls.account-name": r"[a-z0-9]{1,24}",
    "adls.sas-token": _SECRET,
}
_SAS_OF_ACCOUNT = re.compile(r"adls\.sas-token(?:-expires-at-ms)?\.[a-z0-9.-]{1,200}")
# The keys that choose the host of the storage, with the hosts of the provider itself. Anyone may have other hosts in
# these domains, such as load balancers, so each form is exact.
_AWS_REGION = r"[a-z]{2,3}(?:-[a-z]+){1,3}-\d"
_S3_HOST = re.compile(
    rf"(?:[a-z0-9.-]+\.)?(?:s3(?:-fips)?(?:\.dualstack)?[.-]{_AWS_REGION}|s3|s3-accelerate(?:\.dualstack)?)"
    rf"\.amazonaws\.com(?:\.cn)?|(?:[a-z0-9-]+\.)*vpce-[a-z0-9-]+\.s3\.{_AWS_REGION}\.vpce\.amazonaws\.com(?:\.cn)?"
)
_GCS_HOST = re.compile(r"(?:storage|www)\.googleapis\.com|storage\.[a-z0-9-]+\.rep\.googleapis\.com")
_AZURE_HOST = re.compile(
    r"(?:[a-z0-9-]+\.){0,2}(?:blob|dfs)\."
    r"(?:core\.(?:windows\.net|chinacloudapi\.cn|usgovcloudapi\.net)|fabric\.microsoft\.com|storage\.azure\.net)"
)
_HOSTS = {
    "s3.endpoint": _S3_HOST,
    "gcs.service.host": _GCS_HOST,
    "adls.account-host": _AZURE_HOST,
    "adls.blob-storage-authority": _AZURE_HOST,
    "adls.dfs-storage-authority": _AZURE_HOST,
}
_CONNECTION = "adls.connection-string"
_AZURE_SCHEMES = ("abfs://", "abfss://", "wasb://", "wasbs://")
# With these keys, a response has its own credentials for a store, so that those of this machine are not used.
_VENDED = {"s3.endpoint": _S3_KEYS, "gcs.service.host": ("gcs.oauth2.token",)}
# The catalog's own credentials for S3, none of which is used together with those of a server.
_OWN_S3 = re.compile(
    r"(?:s3|client)\.(?:access-key-id|secret-access-key|session-token|role-arn|role-session-name|profile-name|anonymous)"
)
# Addresses of the catalog itself, to which Iceberg sends the credentials of the catalog. A relative one is accepted.
_ADDRESSES = (
    "uri",
    "oauth2-server-uri",
    "s3.signer.uri",
    "s3.signer.endpoint",
    "signer.uri",
    "signer.endpoint",
    "rest.remote-signing.endpoint",
    "credentials.uri",
    "client.refresh-credentials-endpoint",
    "gcs.oauth2.refresh-credentials-endpoint",
    "adls.refresh-credentials-endpoint",
)
# The classes of `io-impl` that a server may choose.
FILE_IO = frozenset(
    f"org.apache.iceberg.{name}"
    for name in (
        "io.ResolvingFileIO",
        "aws.s3.S3FileIO",
        "gcp.gcs.GCSFileIO",
        "azure.adlsv2.ADLSFileIO",
        "hadoop.HadoopFileIO",
        "encryption.EncryptingFileIO",
    )
)
# Keys that Iceberg reads: those in its namespaces and those without a dot. Servers also send keys of their own.
_READ_BY_ICEBERG = re.compile(
    r"(?:s3|client|glue|gcs|adls|azure|oss|kms|rest|http-client|dynamodb|encryption|credentials|signer|auth|ssl|hdfs|hadoop|fs"
    r"|jdbc|hive)\..*|[^.]*",
    re.DOTALL,
)
# Among these, the keys that name a class, an address, a login or an account.
_DECISIVE = re.compile(
    r"impl|factory|provider|reporter|proxy|(?<![a-z])ur[il](?![a-z])|endpoint|host|authority|connection-string"
    r"|^auth$|^ssl|^rest\.(?:auth|sig)|role|profile|impersonate"
)
_OF_PYTHON = "py-"  # the prefix of keys that only pyiceberg reads, which gets none of them
_ENDPOINT = re.compile(
    r"(?:(?P<scheme>https?)://)?(?P<host>[a-z0-9.-]+|\[[0-9a-f:.]+\])(?::(?P<port>\d{1,5}))?(?:/[\w.~/-]*)?",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Declared:
    """What defines a catalog, apart from its server.

    Attributes:
        properties: The properties of the catalog, for pyiceberg or for Spark.
        location: The location of the catalog in `zlayout.yaml`.
    """

    catalog: str
    properties: Mapping[str, str]
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    location: Location | None = None

    def origins(self, keys: Iterable[str]) -> frozenset[str]:
        """Return the origins in the values of these properties, and for S3 also in the environment."""
        values = [self.properties.get(key, "") for key in keys]
        if "s3.endpoint" in keys:
            values += [self.environ.get(variable, "") for variable in S3_ENDPOINT_VARIABLES]
        return frozenset(filter(None, map(_origin, values)))


def of_catalog(declared: Declared, sent: Mapping[str, Any]) -> dict[str, str]:
    """Return the properties of `/v1/config` that the catalog itself uses.

    sent: the properties that the server has sent, without those that are declared with the same value.

    Raises:
        TableError: ZL137.
    """
    require_harmless(declared, sent)
    return {key: value for key, value in sent.items() if key in _OF_CATALOG and isinstance(value, str)}


def of_storage(declared: Declared, sent: Mapping[str, Any]) -> dict[str, str]:
    """Return all properties for the access to the files of a table: those declared, and those accepted of the server.

    sent: the properties of `/v1/config`, the table and its credentials together.

    Raises:
        TableError: ZL137, ZL138.
    """
    require_harmless(declared, sent)
    require_hosts(declared, sent)
    accepted = {key: value for key, value in sent.items() if isinstance(value, str) and _is_of_storage(key)}
    own = dict(declared.properties)
    if _has(accepted, _S3_KEYS):
        own = {key: value for key, value in own.items() if not _OWN_S3.fullmatch(key)}
    return own | accepted


def require_harmless(declared: Declared, sent: Mapping[str, Any]) -> None:
    """Check that the server chooses no class, no address but its own, and no login, for a library that obeys it.

    Raises:
        TableError: ZL137.
    """
    services = declared.origins(("uri", "oauth2-server-uri"))
    for key, value in sent.items():
        text = value if isinstance(value, str) else ""
        if form := _OF_CATALOG.get(key) or _OF_STORAGE.get(key):
            harmless = not isinstance(value, str) or re.fullmatch(form, text) is not None
        elif key in _ADDRESSES:
            harmless = text == declared.properties.get(key) or _is_relative(text) or _origin(text) in services
        elif key == "io-impl":
            harmless = text in FILE_IO
        elif _is_of_storage(key) or key.startswith((_OF_PYTHON, _CONNECTION)):
            harmless = True
        else:
            harmless = not (_READ_BY_ICEBERG.fullmatch(key) and _DECISIVE.search(key.lower()))
        if not harmless:
            raise TableError.of(
                "ZL137",
                f"the server of catalog {declared.catalog} sets {quote_value(key)} to {quote_value(str(value))}, which "
                "zlayout does not accept from a server",
                hint=f"if it is an address of the same service, declare it in catalogs.{declared.catalog}; if not, ask "
                "who runs the server to remove it",
                location=declared.location,
            )


def require_hosts(declared: Declared, sent: Mapping[str, Any]) -> None:
    """Check that the server names no host of a store that would get the credentials of this machine.

    Raises:
        TableError: ZL138.
    """
    for key, value in sent.items():
        if key in _HOSTS:
            text = value if isinstance(value, str) else ""
            origin = _origin(text.removeprefix("."))
            of_provider = _HOSTS[key].fullmatch(_host(origin))
            vended = origin and _has(sent, _VENDED.get(key, ()))
            if not (vended or of_provider or (origin and origin in declared.origins((key,)))):
                raise _undeclared(declared, f"its server sends {key}", origin or quote_value(text))
        elif key.startswith(_CONNECTION):
            raise _undeclared(declared, "its server sends", key)


def require_location(declared: Declared, location: str, what: str) -> None:
    """Check that the host in a location on Azure is a host of Azure or of the warehouse.

    Clients of Azure send the credentials of this machine to the host in the location.

    Raises:
        TableError: ZL138.
    """
    if not location.lower().startswith(_AZURE_SCHEMES):
        return
    host = _azure_host(location)
    if not _AZURE_HOST.fullmatch(host) and host != _azure_host(declared.properties.get("warehouse", "")):
        raise _undeclared(declared, what, quote_value(host))


def _undeclared(declared: Declared, what: str, host: str) -> TableError:
    return TableError.of(
        "ZL138",
        f"catalog {declared.catalog} does not declare a host of the storage: {what} {host}; the credentials of this "
        "machine are not sent there",
        hint=f"if the host is right, declare it in catalogs.{declared.catalog} (storage.endpoint or warehouse), or let "
        "the server return credentials with it",
        location=declared.location,
    )


def _is_of_storage(key: str) -> bool:
    return key in _OF_STORAGE or key in _HOSTS or _SAS_OF_ACCOUNT.fullmatch(key) is not None


def _has(sent: Mapping[str, Any], keys: tuple[str, ...]) -> bool:
    return bool(keys) and all(isinstance(value := sent.get(key), str) and value for key in keys)


def _is_relative(address: str) -> bool:
    return re.fullmatch(r"(?!//)(?![A-Za-z][A-Za-z0-9+.-]*:)[^\s\\]*", address) is not None


def _origin(address: str) -> str:
    found = _ENDPOINT.fullmatch(address)
    if found is None:
        return ""
    scheme = (found["scheme"] or "https").lower()
    port = int(found["port"] or (443 if scheme == "https" else 80))
    return f"{scheme}://{found['host'].lower()}:{port}"


def _host(origin: str) -> str:
    return origin.removeprefix("https://").removesuffix(":443") if origin.startswith("https://") else ""


def _azure_host(location: str) -> str:
    authority = re.split(r"[/?#\\]", location.partition("://")[2], maxsplit=1)[0]
    return authority.rpartition("@")[2].lower()
