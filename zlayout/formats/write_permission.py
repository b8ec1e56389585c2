"""Checks whether a location is writable, without writing an object or a file."""

from __future__ import annotations

import os
from typing import Any
from urllib.parse import urlsplit

from zlayout.errors import TableError, first_line
from zlayout.formats.access import CONNECT_SECONDS, READ_SECONDS
from zlayout.spec.client_options import s3_access
from zlayout.spec.model import CatalogConfig
from zlayout.table.location import S3_SCHEMES

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
    try:
        import boto3
        from botocore.config import Config
    except ImportError as error:
        raise NotChecked("not checked, because boto3 is not installed: pip install 'zlayout[glue]'") from error
    access = s3_access(catalog)
    config = Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        retries={"max_attempts": 0},
        s3={"addressing_style": "path" if access.path_style else "auto"},
    )
    client = boto3.client("s3", endpoint_url=access.endpoint, region_name=access.region, config=config)
    target = {"Bucket": url.netloc, "Key": f"{url.path.strip('/')}/.zlayout-doctor"}
    upload = client.create_multipart_upload(**target)["UploadId"]
    _abort(client, {**target, "UploadId": upload})


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
