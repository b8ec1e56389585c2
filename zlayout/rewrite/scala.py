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


def static_call(
    jvm: Any, owner: str, method: str, returns: Any, arguments: Iterable[Any], *, nulls: bool, once: bool = False
) -> Any:
    """A Catalyst expression that calls a static Java method, inside whole-stage code generation.

    owner: the class. returns: the Spark type. nulls: null for a null argument; else arguments are taken as not null.
    once: Spark must not copy it into what reads its result, as it would into a filter, once for each time it is read.
    """
    return jvm.org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke(
        jvm.java.lang.Class.forName(owner),
        returns,
        method,
        scala_seq(jvm, arguments),
        scala_seq(jvm, ()),
        nulls,
        False,  # no other null
        not once,  # deterministic: what is not stays where it is
        scala_object(jvm.scala, "None"),
    )
