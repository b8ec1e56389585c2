"""Event logs that the running Spark writes."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


@contextmanager
def event_log(spark: SparkSession, folder: Path, codec: str = "", *, rolling: bool = False) -> Iterator[None]:
    """Let Spark write its event log to a new folder, as `spark.eventLog.enabled` does from the start of a session.

    Args:
        spark: The session.
        folder: The folder.
        codec: The codec of Spark; empty for a log that is not compressed.
        rolling: Whether the log is a folder of several files.
    """
    context: Any = spark.sparkContext
    java, jvm = context._jsc.sc(), context._jvm
    conf = java.getConf().clone().set("spark.eventLog.compress", str(bool(codec)).lower())
    conf = conf.set("spark.eventLog.compression.codec", codec or "zstd")
    conf = conf.set("spark.eventLog.rolling.enabled", str(rolling).lower())
    folder.mkdir(parents=True)
    none = jvm.scala.Option.apply(None)
    listener = jvm.org.apache.spark.scheduler.EventLoggingListener(
        folder.name, none, jvm.java.net.URI(folder.as_uri()), conf
    )
    listener.start()
    java.addSparkListener(listener)
    try:
        yield
        java.listenerBus().waitUntilEmpty()
    finally:
        java.removeSparkListener(listener)
        listener.stop()
