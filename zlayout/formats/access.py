"""The services that a catalog needs: their addresses, the limits on requests, and why one could not be reached.

The libraries (deltalake, pyiceberg, boto3, requests, SQLAlchemy) have no common types for errors of access, and some of
them state the cause in the text alone. Therefore `cause_of` searches the text of the whole chain of causes. Only
messages for the user depend on the result.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

from zlayout import reading
from zlayout.errors import TableError, first_line
from zlayout.spec.client_options import Store, gcs_endpoint, kms_key, properties, s3_access, stores
from zlayout.spec.model import CatalogConfig
from zlayout.table.location import S3_SCHEMES

# The limits on a single request to a catalog. `zlayout.session.concurrent_reads` limits the reading of a whole table.


CONNECT_SECONDS = 10
READ_SECONDS = 20
ATTEMPTS = 2


# The network addresses of services.


# The default port of each URL scheme.
_PORTS = {"http": 80, "https": 443, "thrift": 9083, "postgresql": 5432, "mysql": 3306}


@dataclass(frozen=True, slots=True)
class Address:
    """The address of one service.

    Attributes:
        service: "catalog", or "store" for the object store.
    """

    service: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def addresses(catalog: CatalogConfig) -> tuple[Address, ...]:
    """Return the addresses of the catalog and of its S3 or GCS store, except URLs without a host or a known port."""
    url = _catalog_url(catalog)
    # The uri of a catalog of type hive may list several metastores that serve the same tables.
    found = [_address("catalog", one.strip()) for one in (url.split(",") if catalog.type == "hive" else [url])]
    if Store.S3 in stores(catalog):
        s3 = s3_access(catalog)
        found.append(_address("store", s3.endpoint or f"https://s3.{s3.region or 'us-east-1'}.amazonaws.com"))
    if Store.GCS in stores(catalog):
        found.append(_address("store", gcs_endpoint(catalog) or "https://storage.googleapis.com"))
    return tuple(dict.fromkeys(address for address in found if address is not None))


def store_of(catalog: CatalogConfig) -> str:
    """Return the S3 store of a catalog, as part of a sentence; '' if each table may have another store."""
    own = any(key.endswith("endpoint") for key in properties(catalog))
    if catalog.type not in ("sql", "glue") or own or Store.S3 not in stores(catalog):
        return ""
    return f" at {s3_access(catalog).endpoint or 'AWS'}"


def _catalog_url(catalog: CatalogConfig) -> str:
    uri = str(catalog.options.get("uri", ""))
    if catalog.type == "glue" and not uri:
        return f"https://glue.{s3_access(catalog).region or 'us-east-1'}.amazonaws.com"
    return uri


def _address(service: str, url: str) -> Address | None:
    parts = urlsplit(url)
    scheme = parts.scheme.partition("+")[0]
    if not parts.hostname or scheme not in _PORTS:
        return None
    return Address(service, parts.hostname, parts.port or _PORTS[scheme])


# Why a service could not be reached.


MAX_CAUSES = 10


@dataclass(frozen=True, slots=True)
class Cause:
    """Why a service could not be reached.

    Attributes:
        reason: The reason, to complete a sentence.
        hint: What to do, imperative.
    """

    reason: str
    hint: str


# The addresses at which a machine requests the credentials of its role. Libraries try them last. Therefore an error
# with such an address means that there are no other credentials.
_METADATA_SERVICE = re.compile(r"169\.254\.169\.254|metadata\.google\.internal")
_NO_CREDENTIALS = Cause(
    "no credentials were found", "set them in the environment or a profile, or give the machine a role"
)
DENIED = Cause("access is denied", "allow these credentials to list and to read the location")
_PATH = re.compile(r"[^\s<>]*/[^\s<>]*")
# The first pattern that is found anywhere in the chain counts. Therefore specific patterns precede general ones.
_CAUSES = tuple(
    (re.compile(pattern, re.IGNORECASE), Cause(reason, hint))
    for pattern, reason, hint in (
        (
            r"RESTError (5\d\d)\b|\b(5\d\d) Server Error",  # its text may contain the stack trace of the server
            r"the service answered with the status \1\2",
            "see the log of the service, and run again",
        ),
        (
            r"ClassNotFoundException|NoClassDefFoundError|Cannot find catalog plugin class|DATA_SOURCE_NOT_FOUND"
            r"|No FileSystem for scheme",
            "Spark lacks a jar",
            "omit --jars and --packages, so that zlayout requests the jars, or list all needed ones: docs/clusters.md",
        ),
        *(
            (pattern, f"the Python package {package} is missing", f"run pip install 'zlayout[{extra}]'")
            for pattern, package, extra in (
                (r"No module named '?psycopg2", "psycopg2", "postgres"),
                (r"No module named '?pymysql", "pymysql", "mysql"),
                (r"glue support not installed|No module named '?boto3", "boto3", "glue"),
                (r"No module named '?(puresasl|kerberos)|mechanisms listed meet", "kerberos", "hive-kerberos"),
                (r"hive support not installed|No module named '?thrift", "thrift", "hive"),
                (r"(No module named|from) '?sqlalchemy\b", "SQLAlchemy 2", "sql"),
            )
        ),
        (
            r"No module named '?(\w+)",
            r"the Python package \1 is missing",
            "install it; zlayout has the extras glue, hive, mysql (mysql+pymysql:), postgres (postgresql+psycopg2:) "
            "and sql",
        ),
        (
            r"support not installed|NotInstalledError",
            "a Python package is missing",
            "install the driver of the catalog: zlayout has the extras glue, hive, mysql, postgres and sql",
        ),
        (
            r"iceberg_tables\W+(does not|doesn't) exist|no such table: iceberg_tables",
            "the database has no tables of an Iceberg catalog",
            "correct the database in uri, or create the catalog first",
        ),
        (
            r"FATAL: +database .* does not exist|Unknown database '",
            "the database does not exist",
            "correct the name of the database in uri",
        ),
        (
            r"No Kerberos credentials|Credentials cache file|Ticket expired|Can't find client principal",
            "there is no ticket of Kerberos that is valid",
            "run kinit, or set KRB5CCNAME",
        ),
        (r"NoSuchBucket|bucket does not exist", "the bucket does not exist", "correct the location or the endpoint"),
        (
            r"RequestTimeTooSkewed",
            "the clocks of this machine and of the server differ too much",
            "set the clock of this machine",
        ),
        (
            r"ExpiredToken|token (has |is )?expired|TokenRefreshRequired",
            "the credentials have expired",
            "renew them, for example by signing in again",
        ),
        (
            r"AuthorizationHeaderMalformed|PermanentRedirect|IllegalLocationConstraint|redirect without LOCATION",
            "the bucket is in another region",
            "set storage.region of the catalog, or AWS_REGION",
        ),
        (
            r"NoRegion|must specify a region|unable to (find|load) region|Missing region",
            "no region is known",
            "set storage.region of the catalog, or AWS_REGION",
        ),
        (
            r"Unable to locate credentials|NoCredentials|no credentials|CredentialsNotLoaded|CredentialUnavailable"
            r"|Partial credentials|error occurred while loading credentials|IMDS session token",
            _NO_CREDENTIALS.reason,
            _NO_CREDENTIALS.hint,
        ),
        (
            r"InvalidAccessKeyId|SignatureDoesNotMatch|UnrecognizedClient|InvalidClientTokenId"
            r"|password authentication failed|Access denied for user|FATAL: +role .* does not exist",
            "the credentials are wrong",
            "check the key, the secret and the password",
        ),
        (
            r"AccessDenied|AccessControl|NotAuthorized|\b403\b|Forbidden|permission denied"
            r"|not authorized",
            DENIED.reason,
            DENIED.hint,
        ),
        (r"\b401\b|Unauthorized|OAuthError", "the credentials are missing or not accepted", "check the credentials"),
        (
            r"URL scheme is not allowed",
            "plain http is not allowed",
            "declare the endpoint in storage.endpoint of the catalog, or use https",
        ),
        (
            r"certificate|CERTIFICATE_VERIFY|InvalidContentType|WRONG_VERSION_NUMBER|SSLError|tls handshake"
            r"|UnknownIssuer",
            "the TLS connection failed",
            "check the certificate, and whether the endpoint uses http or https",
        ),
        (
            r"Connection refused|ConnectionRefused",
            "the connection was refused",
            "check that the service runs at this address and port",
        ),
        (
            r"Name or service not known|failed to lookup address|NameResolution|nodename nor servname"
            r"|could not translate host name|getaddrinfo|dns error",
            "the host name is unknown",
            "correct the host name, or check DNS",
        ),
        (
            r"(?<!retry)(?<!retry_)timed? ?out|ReadTimeout|ConnectTimeout|deadline",  # deltalake names retry_timeout
            "the service did not answer in time",
            "check that the service answers, and that no firewall drops the connection",
        ),
        (
            r"Connection reset|broken pipe|connection closed|EndpointConnection|Could not connect|error sending request"
            r"|Max retries exceeded|ConnectionError|NETWORK_CONNECTION|TTransportException",
            "the connection failed",
            "check address, port and network",
        ),
    )
)


def cause_of(error: BaseException) -> Cause | None:
    """Return why a service could not be reached; None if the error matches no known cause."""
    text = "\n".join(f"{type(e).__name__}: {e}" for e in _chain(error))
    if _METADATA_SERVICE.search(text):
        return _NO_CREDENTIALS
    text = _PATH.sub(" ", text)  # the name of a table or a folder may contain `deadline` or `403`
    text += "\n" + text.replace("_", "")  # pyarrow's form of a cause is REQUEST_TIME_TOO_SKEWED
    for pattern, cause in _CAUSES:
        if found := pattern.search(text):
            return Cause(found.expand(cause.reason), cause.hint)
    return None


def explained(error: BaseException, hint: str) -> Cause:
    """Return the known cause of an error, or else the first line of the error with `hint`."""
    return cause_of(error) or Cause(first_line(error), hint)


def unanswered(catalog: CatalogConfig, namespace: str = "") -> str:
    """Return the beginning of the message for a catalog that cannot be reached, or a namespace of it to list."""
    of_catalog = f"catalog {catalog.name} (type {catalog.type})"
    return f"namespace {namespace} of {of_catalog} cannot be listed" if namespace else f"{of_catalog} cannot be reached"


Place = TypeVar("Place")
Item = TypeVar("Item")


def each_listed(
    places: Iterable[Place], listing: Callable[[Place], Iterable[Item]]
) -> tuple[dict[Place, list[Item]], dict[Place, Exception]]:
    """List places such as namespaces. One to which access is denied fails the others only if it is denied to all.

    Returns:
        What is in each place; and the errors of those that cannot be listed.

    Raises:
        Exception: Of any type, if access is denied to all places, or for another reason.
    """
    found, denied = dict[Place, list[Item]](), dict[Place, Exception]()
    for place in places:
        try:
            found[place] = list(listing(place))
        except Exception as error:
            if cause_of(error) != DENIED:
                raise
            denied[place] = error
    if denied and not found:
        raise next(iter(denied.values()))
    return found, denied


_EMPTY_PART = re.compile(r"Empty path component in path (\S+)")  # of pyarrow


def unaddressable(error: BaseException) -> Cause | None:
    """Return which key of an object store pyarrow cannot address, and why; None if the error is another one."""
    found = next((found for e in _chain(error) if (found := _EMPTY_PART.search(str(e)))), None)
    if found is None:
        return None
    return Cause(
        f"its key {found[1]} has an empty part between two slashes, which pyarrow cannot address",
        "write the table to a location without `//`, for example by CREATE TABLE AS with the engine that wrote it; "
        "Athena, Glue and S3 Tables write such keys below a location that ends in a slash",
    )


def _chain(error: BaseException) -> Iterator[BaseException]:
    at: BaseException | None = error
    for _ in range(MAX_CAUSES):
        if at is None:
            return
        yield at
        at = at.__cause__ or at.__context__


# The permissions of AWS that an error names, or that a denied request needs.


_NAMED_ACTION = re.compile(r"not authorized to perform:? ([a-z0-9-]+:[A-Za-z]+)")


def denied_action(error: BaseException) -> str | None:
    """Return the action of IAM that is missing, such as `glue:GetTable`; '' if unnamed, None without a denial."""
    if cause_of(error) != DENIED:
        return None
    named = next((found for e in _chain(error) if (found := _NAMED_ACTION.search(str(e)))), None)
    return named[1] if named else ""


# Limits the responses of AWS services, which botocore reads as a whole, whatever their size.


_PART = 1 << 16  # bytes of a response that are read at a time


def limit_responses(client: Any) -> None:
    """Let calls of a client of boto3 raise ValueError for a response that takes too much memory."""
    limit_session(client._endpoint.http_session)


def limit_session(session: Any) -> None:
    """Let a session of botocore raise ValueError for a response that takes too much memory."""
    send = session.send

    def limited(request: Any) -> Any:
        if request.stream_output:
            return send(request)
        request.stream_output = True  # else the session itself reads the body
        response = send(request)
        try:
            response._content = reading.joined(response.raw.stream(_PART), reading.MAX_METADATA_BYTES, "the response")
        except reading.TooLargeError:
            response.raw.close()
            raise
        reading.require_parsable(response._content, "the response")
        return response

    session.send = limited


# Checks whether a location is writable, without writing an object or a file.


ABORT_ATTEMPTS = 3


class NotChecked(Exception):
    """The permission cannot be checked without writing. The message states why."""


def require_writable(catalog: CatalogConfig, location: str) -> None:
    """Check that the credentials of this machine may write below a location.

    On S3, a multipart upload is begun and aborted. This requires the permission to put objects, but makes no object.

    Args:
        catalog: The catalog of the table.
        location: The URL or the local path.

    Raises:
        NotChecked: If the permission cannot be checked without writing.
        PermissionError: If the location is a local folder that is not writable.
        TableError: ZL115, if the upload was begun but could not be aborted.
        Exception: An error of botocore, if the upload could not be begun.
    """
    url = urlsplit(location)
    if url.scheme in ("", "file"):
        if not os.access(url.path if url.scheme else location, os.W_OK | os.X_OK):
            raise PermissionError(f"permission denied: {location}")
        return
    if url.scheme not in S3_SCHEMES:
        raise NotChecked(f"not checked, because zlayout cannot check {url.scheme}:// without writing")
    if catalog.options.get("vended_credentials"):
        raise NotChecked("not checked, because the catalog gives the credentials")
    access = s3_access(catalog)
    style = {"addressing_style": "path" if access.path_style else "auto"}
    client = client_of("s3", access.region, endpoint_url=access.endpoint, s3=style)
    target = {"Bucket": url.netloc, "Key": f"{url.path.strip('/')}/.zlayout-doctor"}
    upload = client.create_multipart_upload(**target, **_encryption(catalog))["UploadId"]
    _abort(client, {**target, "UploadId": upload})


def client_of(service: str, region: str | None, endpoint_url: str | None = None, **settings: Any) -> Any:
    """Return a client of boto3 that sends each request once. Raises NotChecked if boto3 is not installed."""
    try:
        import boto3
        from botocore.config import Config
    except ImportError as error:
        raise NotChecked("not checked, because boto3 is not installed: pip install boto3") from error
    limits = {"connect_timeout": CONNECT_SECONDS, "read_timeout": READ_SECONDS, "retries": {"max_attempts": 0}}
    return boto3.client(service, region_name=region, endpoint_url=endpoint_url, config=Config(**limits, **settings))


def _encryption(catalog: CatalogConfig) -> dict[str, str]:
    own = properties(catalog)
    kind = own.get("s3.sse.type") or own.get("aws_server_side_encryption") or ""
    key = kms_key(catalog)
    if key is None or "kms" not in kind:
        return {}
    return {"ServerSideEncryption": "aws:kms:dsse" if "dsse" in kind else "aws:kms", "SSEKMSKeyId": key}


def require_commits(table: str, region: str) -> None:
    """Check that the credentials of this machine may commit in the table of DynamoDB of Delta's log store.

    The condition of the put never holds, so that nothing is written.

    Raises:
        NotChecked: If boto3 is not installed, or if there is no table yet.
        Exception: An error of botocore, if an action is denied.
    """
    client = client_of("dynamodb", region)
    key = {"tablePath": {"S": "zlayout-doctor"}, "fileName": {"S": "zlayout-doctor"}}
    try:
        client.describe_table(TableName=table)
    except client.exceptions.ResourceNotFoundException as error:
        raise NotChecked(f"not checked, because DynamoDB has no table {table} yet") from error
    client.get_item(TableName=table, Key=key)
    path = {":path": key["tablePath"]}
    client.query(TableName=table, KeyConditionExpression="tablePath = :path", ExpressionAttributeValues=path)
    never = "attribute_exists(tablePath) AND attribute_not_exists(tablePath)"
    with suppress(client.exceptions.ConditionalCheckFailedException):
        client.put_item(TableName=table, Item=key, ConditionExpression=never)


def _abort(client: Any, upload: dict[str, str]) -> None:
    for attempt in range(1, ABORT_ATTEMPTS + 1):
        try:
            client.abort_multipart_upload(**upload)
            return
        except Exception as error:
            if _is_gone(error):  # an earlier attempt aborted it, but the response was lost
                return
            if attempt == ABORT_ATTEMPTS:
                raise TableError.of(
                    "ZL115",
                    f"the check left an incomplete multipart upload of s3://{upload['Bucket']}/{upload['Key']}: "
                    f"{first_line(error)}",
                    hint="abort it, and allow s3:AbortMultipartUpload, which Spark's S3 clients also need",
                ) from error


def _is_gone(error: Exception) -> bool:
    response: Any = getattr(error, "response", None) or {}
    return bool(response.get("Error", {}).get("Code") == "NoSuchUpload")
