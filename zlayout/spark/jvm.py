"""Classes of the JVM by their names alone.

py4j asks the JVM at each dot of `jvm.org.apache` whether that is a class, and the JVM looks through all its jars: some
hundred such questions took a quarter of a second of each rewrite.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def jvm_of(session: SparkSession) -> JvmPackage:
    """The root of all packages: `jvm_of(session).java.util.ArrayList()`."""
    context: Any = session.sparkContext
    return _root(context._jvm._gateway_client)


@cache
def _root(client: Any) -> JvmPackage:
    return JvmPackage(client, "")


class JvmPackage:
    """A package, of which a name that begins with a capital or ends with `$` is a class and any other a package.

    A class that does not exist is a Py4JError only once it is used.
    """

    def __init__(self, client: Any, name: str) -> None:
        self._client = client
        self._name = name

    def __getattr__(self, name: str) -> Any:
        from py4j.java_gateway import JavaClass

        if name.startswith("_"):
            raise AttributeError(name)
        whole = f"{self._name}.{name}" if self._name else name
        is_class = name[0].isupper() or name.endswith("$")
        found = JavaClass(whole, self._client) if is_class else JvmPackage(self._client, whole)
        setattr(self, name, found)
        return found


@contextmanager
def session_conf(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Session settings for the block; those that were there before come back afterwards, also after an error."""
    kept = {key: spark.conf.get(key) for key in settings if spark._jsparkSession.conf().contains(key)}
    try:
        for key, value in settings.items():
            spark.conf.set(key, value)
        yield
    finally:
        for key in settings:
            if key in kept:
                spark.conf.set(key, str(kept[key]))
            else:
                spark.conf.unset(key)
