"""Makes commits to Delta tables on S3 exclusive: no commit can replace the commit of another writer.

S3 has no rename, so a commit is a PUT of the commit file. It is exclusive if it has the condition that the file does
not exist (`If-None-Match: *`), which `ConditionalPutLogStore` sends, or if DynamoDB decides who commits. Object stores
other than S3 have exclusive operations, which Delta uses by default.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from py4j.protocol import Py4JJavaError

from zlayout.errors import Refused
from zlayout.formats.delta.write.jvm import DeltaJvm
from zlayout.formats.kernel.failures import java_causes
from zlayout.formats.storage import CONDITIONAL_PUT, S3_SCHEMES
from zlayout.spark.compile import add_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EXCLUSIVE = (CONDITIONAL_PUT, "io.delta.storage.S3DynamoDBLogStore")
_EXISTS = "java.nio.file.FileAlreadyExistsException"


def log_store_conf() -> Mapping[str, str]:
    """Return the configuration with which a new session commits to S3."""
    return {f"spark.delta.logStore.{scheme}.impl": CONDITIONAL_PUT for scheme in sorted(S3_SCHEMES)}


def add_log_store(session: SparkSession) -> None:
    """Add `ConditionalPutLogStore` to a session that was started with `log_store_conf`."""
    source = files(__package__).joinpath("ConditionalPutLogStore.java").read_text(encoding="utf-8")
    add_class(session, CONDITIONAL_PUT, source)


def require_exclusive_commits(delta: DeltaJvm, location: str, table: str) -> None:
    """Check a table before the first write. On S3, this writes a temporary file to its log folder and deletes it.

    Raises:
        Refused: ZL220, if another writer's commit could be replaced.
    """
    if urlsplit(location).scheme.lower() not in S3_SCHEMES:
        return
    folder = delta.log_folder()
    store = delta.log_store(folder)
    if (name := str(store.getClass().getName())) not in _EXCLUSIVE:
        hint = f"let zlayout start the session, or set spark.delta.logStore.s3a.impl to {_EXCLUSIVE[1]} in all writers"
        raise _refusal(table, f"the session writes commits by {name}", hint)
    if name == CONDITIONAL_PUT and _replaces(delta, store, folder):
        hint = f"use a store that supports If-None-Match, or {_EXCLUSIVE[1]} in all writers"
        raise _refusal(table, "the object store ignores the condition of a conditional PUT", hint)


def _replaces(delta: DeltaJvm, store: Any, folder: Any) -> bool:
    """Return whether a file that exists can be created again."""
    conf = delta.hadoop_conf()
    file = delta.child(folder, f".zlayout-{uuid.uuid4().hex}.tmp")
    try:
        store.write(file, delta.lines("{}"), False, conf)
        try:
            store.write(file, delta.lines("{}"), False, conf)
        except Py4JJavaError as error:
            if _EXISTS in {str(cause.getClass().getName()) for cause in java_causes(error)}:
                return False
            raise
        return True
    finally:
        file.getFileSystem(conf).delete(file, False)


def _refusal(table: str, reason: str, hint: str) -> Refused:
    return Refused.of("ZL220", f"{table}: a commit could replace the commit of another writer: {reason}", hint=hint)
