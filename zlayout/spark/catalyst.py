"""Catalyst expressions: conversion to and from pyspark's columns, and Java calls inside generated code."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import Column

from zlayout.spark.scala import scala_object, scala_seq


def expression_of(jvm: Any, column: Column) -> Any:
    """Return the Catalyst expression of a column. jvm: from `zlayout.spark.jvm.jvm_of`, here and below."""
    return jvm.org.apache.spark.sql.classic.ExpressionUtils.expression(column._jc)


def column_of(jvm: Any, expression: Any) -> Column:
    """Return a Catalyst expression as a column."""
    return Column(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(expression))


def wrapped(jvm: Any, name: str, column: Column) -> Column:
    """Return a column wrapped in the Catalyst expression `name`, which has no other argument."""
    return column_of(jvm, getattr(jvm.org.apache.spark.sql.catalyst.expressions, name)(expression_of(jvm, column)))


def wrapping(jvm: Any) -> Any:
    """Return the context by which `Add`, `Multiply` and `Sum` wrap around, independent of `spark.sql.ansi.enabled`."""
    expressions = jvm.org.apache.spark.sql.catalyst.expressions
    return expressions.NumericEvalContext(scala_object(expressions, "EvalMode").LEGACY(), True)


def object_type(jvm: Any, name: str) -> Any:
    """Return the Spark type of Java objects of class `name`."""
    return jvm.org.apache.spark.sql.types.ObjectType(jvm.java.lang.Class.forName(name))


def object_literal(jvm: Any, value: Any, name: str) -> Any:
    """Return a Java object of class `name` as an expression."""
    return jvm.org.apache.spark.sql.catalyst.expressions.Literal(value, object_type(jvm, name))


def call(jvm: Any, target: Any, method: str, returns: Any, *arguments: Any, once: bool = False) -> Any:
    """Return a Catalyst expression that calls a method of a Java object, inside whole-stage code generation.

    returns: the Spark type; neither it nor the arguments are ever null. once: see `static_call`.
    """
    objects, nothing = jvm.org.apache.spark.sql.catalyst.expressions.objects, scala_seq(jvm, ())
    return objects.Invoke(target, method, returns, scala_seq(jvm, arguments), nothing, False, False, not once)


def static_call(
    jvm: Any, owner: str, method: str, returns: Any, arguments: Iterable[Any], *, nulls: bool, once: bool = False
) -> Any:
    """Return a Catalyst expression that calls a static Java method, inside whole-stage code generation.

    owner: the class. returns: the Spark type. nulls: return null for a null argument; if false, arguments must not be
    null. once: Spark must not copy the expression to where its result is used, as it would into a filter.
    """
    return jvm.org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke(
        jvm.java.lang.Class.forName(owner),
        returns,
        method,
        scala_seq(jvm, arguments),
        scala_seq(jvm, ()),
        nulls,
        False,  # the method does not return null
        not once,  # deterministic: Spark does not move or copy other expressions
        scala_object(jvm.scala, "None"),
    )
