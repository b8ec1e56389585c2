"""Makes commits to Delta tables on S3 exclusive: no commit can replace the commit of another writer.

S3 has no rename, so a commit is a PUT of the commit file. It is exclusive if it has the condition that the file does
not exist (`If-None-Match: *`), which `ConditionalPutLogStore` sends, or if DynamoDB decides who commits. For HDFS, GCS
and ADLS, Delta uses exclusive operations of these stores by default.
"""

from __future__ import annotations

import uuid
from contextlib import suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from py4j.protocol import Py4JJavaError

from zlayout.errors import Refused
from zlayout.formats.delta.write.jvm import DeltaJvm
from zlayout.formats.kernel.failures import java_causes
from zlayout.spark.classes import CONDITIONAL_PUT
from zlayout.spark.jvm import java_list, jvm_of
from zlayout.table.location import S3_SCHEMES

if TYPE_CHECKING:
    pass

_BY_DYNAMODB = "io.delta.storage.S3DynamoDBLogStore"
_EXISTS = "java.nio.file.FileAlreadyExistsException"
# The errors by which S3A reports that S3A or the object store does not support the condition.
_UNSUPPORTED = frozenset(
    {
        "java.lang.IllegalArgumentException",
        "org.apache.hadoop.fs.PathIOException",
        "org.apache.hadoop.fs.s3a.AWSUnsupportedFeatureException",
    }
)


def require_exclusive_commits(delta: DeltaJvm, location: str, table: str) -> None:
    """Check before the first write that no commit to a table can replace a commit of another writer.

    If commits to S3 are conditional PUTs, this writes a temporary file to the log folder and deletes it.

    Raises:
        Refused: ZL220, if a commit could be replaced.
    """
    scheme = urlsplit(location).scheme.lower()
    if scheme not in S3_SCHEMES:
        return
    folder = delta.log_folder()
    store = delta.log_store(folder)
    name = str(store.getClass().getName())
    other = f"set spark.delta.logStore.{scheme}.impl to {_BY_DYNAMODB} in all writers"
    if name not in (CONDITIONAL_PUT, _BY_DYNAMODB):
        raise _refusal(
            table,
            f"the session writes commits by {name}",
            f"let zlayout start a session of Spark 4.1 or newer, or {other}",
        )
    if name == CONDITIONAL_PUT and (reason := _not_exclusive(delta, store, folder)):
        hint = f"use Hadoop 3.4.2 or newer and a store that supports If-None-Match, or {other}"
        raise _refusal(table, reason, hint)


def _not_exclusive(delta: DeltaJvm, store: Any, folder: Any) -> str:
    """Return the reason why a file that exists could be created again; empty if it cannot be."""
    jvm, conf = jvm_of(delta.spark), delta.hadoop_conf()
    file = jvm.org.apache.hadoop.fs.Path(folder, f".zlayout-{uuid.uuid4().hex}.tmp")
    try:
        for _ in range(2):  # the second PUT must fail, and so must a repetition of the first one by S3A
            store.write(file, java_list(jvm, ["{}"]).iterator(), False, conf)
    except Py4JJavaError as error:
        names = {str(cause.getClass().getName()) for cause in java_causes(error)}
        if _EXISTS in names:
            return ""
        if names & _UNSUPPORTED:
            return f"conditional PUTs are not supported ({sorted(names & _UNSUPPORTED)[0]})"
        raise
    finally:
        with suppress(Py4JJavaError):  # without permission to delete, a hidden file remains, which no reader reads
            file.getFileSystem(conf).delete(file, False)
    return "the object store ignores the condition of a conditional PUT"


def _refusal(table: str, reason: str, hint: str) -> Refused:
    return Refused.of("ZL220", f"{table}: a commit could replace the commit of another writer: {reason}", hint=hint)
