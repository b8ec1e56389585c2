"""Provides Scala objects and collections through py4j, as arguments for methods of Spark and Delta."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from zlayout.spark.jvm import has_class, java_list


def scala_object(package: Any, name: str) -> Any:
    """Return the Scala object `name` of a package, by MODULE$ because its static methods may be private."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")


def scala_seq(jvm: Any, items: Iterable[Any]) -> Any:
    """Return a Scala Seq of the items of a Python iterable or, without copying them to Python, of a Java list."""
    listed = items if hasattr(items, "_get_object_id") else java_list(jvm, items)
    if has_class(jvm, "scala.jdk.javaapi.CollectionConverters"):
        return jvm.scala.jdk.javaapi.CollectionConverters.asScala(listed).toSeq()
    return jvm.scala.collection.JavaConverters.asScalaBufferConverter(listed).asScala().toSeq()  # Scala 2.12


def scala_list(jvm: Any, seq: Any) -> Any:
    """Return a java.util.ArrayList of the items of a Scala Seq, without copying them to Python."""
    if has_class(jvm, "scala.jdk.javaapi.CollectionConverters"):
        return jvm.java.util.ArrayList(jvm.scala.jdk.javaapi.CollectionConverters.asJava(seq))
    converter = jvm.scala.collection.JavaConverters.seqAsJavaListConverter(seq)  # Scala 2.12
    return jvm.java.util.ArrayList(converter.asJava())


def scala_items(seq: Any) -> list[Any]:
    """Return the items of a Scala Seq."""
    return [seq.apply(at) for at in range(seq.size())]


def scala_map(jvm: Any, items: Mapping[str, Any]) -> Any:
    """Return an immutable Scala Map."""
    whole = scala_object(jvm.scala.collection.immutable, "Map").empty()
    for key, value in items.items():
        whole = whole.updated(key, value)
    return whole
