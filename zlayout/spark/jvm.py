"""Classes and collections of the JVM through py4j, and session settings.

py4j asks the JVM at each dot of `jvm.org.apache` whether that is a class, and the JVM searches all its jars. About a
hundred such requests took a quarter of a second per rewrite, so `JvmPackage` decides by the name alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def jvm_of(session: SparkSession) -> JvmPackage:
    """Return the root of all packages, as in `jvm_of(session).java.util.ArrayList()`."""
    context: Any = session.sparkContext
    return _root(context._jvm._gateway_client)


@cache
def _root(client: Any) -> JvmPackage:
    return JvmPackage(client, "")


class JvmPackage:
    """A Java package. A name that begins with a capital or ends with `$` is a class, and any other a package.

    A class that does not exist raises Py4JError only when it is used.
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


def java_list(jvm: Any, items: Iterable[Any]) -> Any:
    """Return a java.util.ArrayList. jvm: from `jvm_of`, here and below."""
    whole = jvm.java.util.ArrayList()
    for item in items:
        whole.add(item)
    return whole


def java_class(jvm: Any, name: str) -> Any:
    """Return the Java class of that name, by the class loader that knows the jars of the session."""
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    return jvm.java.lang.Class.forName(name, True, loader)


@contextmanager
def session_conf(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Set session settings for the block; the earlier ones are restored afterwards, also after an error."""
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
