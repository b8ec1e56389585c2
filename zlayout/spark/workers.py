"""Provides a Spark session for each of several threads that work at the same time."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from zlayout.spark.live import clone_of, remove_listeners
from zlayout.spark.session import SparkRuntime
from zlayout.spec.model import Project, TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POOL = "spark.scheduler.pool"


class WorkerRuntime(SparkRuntime):
    """A runtime for one thread, on a clone of the session of another runtime.

    A rewrite sets configuration only in the clone of its thread. The jobs of the thread have a tag, by which they can
    be cancelled. They have a pool of their own, so that Spark's scheduler in mode FAIR shares the executors among
    threads.
    """

    def __init__(self, project: Project, base: SparkRuntime, name: str, starting: threading.Lock) -> None:
        """Store the base runtime.

        Args:
            project: The project.
            base: The runtime that is cloned. The first thread starts its session.
            name: The tag and the pool of the jobs.
            starting: The lock that all threads hold while they clone the session.
        """
        super().__init__(project)
        self._base = base
        self._name = name
        self._starting = starting

    def configure_store(self, conf: Mapping[str, str]) -> None:
        self._base.configure_store(conf)

    def committed(self, table: TableName) -> None:
        self._base.committed(table)

    def cancel_jobs(self) -> None:
        """Cancel the jobs of this thread."""
        self._base.session.sparkContext.cancelJobsWithTag(self._name)

    def stop(self) -> None:
        """Remove the clone from the SparkContext. The base runtime stops the SparkContext."""
        if self._session is None:
            return
        from py4j.protocol import Py4JError

        clone, self._session = self._session, None
        with suppress(OSError, Py4JError):  # if the JVM has died, there is nothing to remove
            remove_listeners(clone)

    def _start(self) -> SparkSession:
        with self._starting:
            clone = clone_of(self._base.session)
        context: Any = clone.sparkContext
        context.addJobTag(self._name)
        context.setLocalProperty(_POOL, self._name)
        return clone
