"""Builds Catalyst expressions: converts pyspark's columns, and calls Java methods inside generated code.

The argument `jvm` of all functions is the result of `zlayout.spark.jvm.jvm_of`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import Column

from zlayout.spark.jvm import has_class
from zlayout.spark.scala import scala_object, scala_seq


def expression_of(jvm: Any, column: Column) -> Any:
    """Return the Catalyst expression of a column."""
    return jvm.org.apache.spark.sql.classic.ExpressionUtils.expression(column._jc)


def column_of(jvm: Any, expression: Any) -> Column:
    """Return the column of a Catalyst expression."""
    return Column(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(expression))


def wrapped(jvm: Any, name: str, column: Column) -> Column:
    """Apply the Catalyst expression `name`, which has one argument, to a column."""
    return column_of(jvm, getattr(jvm.org.apache.spark.sql.catalyst.expressions, name)(expression_of(jvm, column)))


def wrapping(jvm: Any) -> Any:
    """Return an evaluation context with which `Add`, `Multiply` and `Sum` wrap around instead of raising an error.

    Before Spark 4.1, the evaluation mode itself is the argument of these expressions.
    """
    expressions = jvm.org.apache.spark.sql.catalyst.expressions
    legacy = scala_object(expressions, "EvalMode").LEGACY()
    exists = has_class(jvm, "org.apache.spark.sql.catalyst.expressions.NumericEvalContext")
    return expressions.NumericEvalContext(legacy, True) if exists else legacy


def object_type(jvm: Any, name: str) -> Any:
    """Return the Spark type for objects of the Java class `name`."""
    return jvm.org.apache.spark.sql.types.ObjectType(jvm.java.lang.Class.forName(name))


def object_literal(jvm: Any, value: Any, name: str) -> Any:
    """Return a literal expression of an object of the Java class `name`."""
    return jvm.org.apache.spark.sql.catalyst.expressions.Literal(value, object_type(jvm, name))


def call(jvm: Any, target: Any, method: str, returns: Any, *arguments: Any, once: bool = False) -> Any:
    """Return a Catalyst expression that calls a method of a Java object inside whole-stage code generation.

    Neither the arguments nor the result, of Spark type `returns`, may be null. once: see `static_call`.
    """
    objects, nothing = jvm.org.apache.spark.sql.catalyst.expressions.objects, scala_seq(jvm, ())
    return objects.Invoke(target, method, returns, scala_seq(jvm, arguments), nothing, False, False, not once)


def static_call(
    jvm: Any, owner: str, method: str, returns: Any, arguments: Iterable[Any], *, nulls: bool, once: bool = False
) -> Any:
    """Return a Catalyst expression that calls a static Java method inside whole-stage code generation.

    Args:
        jvm: The JVM.
        owner: The name of the class.
        method: The name of the method.
        returns: The Spark type of the result, which is null only if an argument is.
        arguments: The expressions of the arguments.
        nulls: Whether the result is null if an argument is null. If false, no argument may be null.
        once: Whether to prevent Spark from copying the expression to each use of its result, for example into a filter.
    """
    return jvm.org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke(
        jvm.java.lang.Class.forName(owner),
        returns,
        method,
        scala_seq(jvm, arguments),
        scala_seq(jvm, ()),
        nulls,
        False,  # the method never returns null
        not once,  # Spark copies only deterministic expressions
        scala_object(jvm.scala, "None"),
    )
