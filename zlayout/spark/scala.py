"""Scala values through py4j: what Spark's and Delta's own classes take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any


def scala_object(package: Any, name: str) -> Any:
    """The Scala object `name` of a JVM package (its static part may be private, so it is reached through MODULE$)."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")


def scala_seq(jvm: Any, items: Iterable[Any]) -> Any:
    """A Scala Seq of a Python iterable or of a Java list (which stays in the JVM)."""
    if hasattr(items, "_get_object_id"):
        return jvm.scala.jdk.javaapi.CollectionConverters.asScala(items).toSeq()
    whole = jvm.java.util.ArrayList()
    for item in items:
        whole.add(item)
    return jvm.scala.jdk.javaapi.CollectionConverters.asScala(whole).toSeq()


def scala_map(jvm: Any, items: Mapping[str, Any]) -> Any:
    """An immutable Scala Map."""
    whole = scala_object(jvm.scala.collection.immutable, "Map").empty()
    for key, value in items.items():
        whole = whole.updated(key, value)
    return whole
