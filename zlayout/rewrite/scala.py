"""Scala values through py4j: what Spark's and Delta's own classes take."""

from __future__ import annotations

from collections.abc import Iterable
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


def scala_map(jvm: Any, items: Any) -> Any:
    """An immutable Scala Map of a Java map."""
    entries = jvm.scala.jdk.javaapi.CollectionConverters.asScala(items)
    return getattr(scala_object(jvm.scala.collection.immutable, "Map"), "from")(entries)
