"""Builds Catalyst expressions: converts pyspark's columns, and calls Java methods inside generated code.

The argument `jvm` of all functions is the result of `zlayout.spark.jvm.jvm_of`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from zlayout.spark.jvm import has_class, jvm_of, scala_object, scala_seq

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_UTF8_BINARY = 0  # Spark's id of the collation that compares bytes


def expression_of(jvm: Any, column: Column) -> Any:
    """Return the Catalyst expression of a column."""
    java: Any = column._jc
    return jvm.org.apache.spark.sql.classic.ExpressionUtils.expression(java) if _is_spark_4(jvm) else java.expr()


def column_of(jvm: Any, expression: Any) -> Column:
    """Return the column of a Catalyst expression."""
    from pyspark.sql import Column

    spark_4 = _is_spark_4(jvm)
    sql = jvm.org.apache.spark.sql
    return Column(sql.classic.ExpressionUtils.column(expression) if spark_4 else sql.Column(expression))


def apply_expression(jvm: Any, name: str, column: Column) -> Column:
    """Apply the Catalyst expression `name`, which has one argument, to a column."""
    return column_of(jvm, getattr(jvm.org.apache.spark.sql.catalyst.expressions, name)(expression_of(jvm, column)))


def wraparound(jvm: Any) -> Any:
    """Return the argument with which `Add`, `Multiply` and `Sum` wrap around at an overflow and raise no error.

    Since Spark 4.1, the argument is an evaluation context. Before, it is the evaluation mode.
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
        owner: The name of the class.
        method: The name of the method.
        returns: The Spark type of the result, which is null only if an argument is.
        arguments: The expressions of the arguments.
        nulls: Whether the result is null if an argument is null. If false, no argument may be null.
        once: Whether to prevent Spark from copying the expression to each use of its result, for example into a filter.
    """
    no_function = (scala_object(jvm.scala, "None"),) if _is_spark_4(jvm) else ()
    return jvm.org.apache.spark.sql.catalyst.expressions.objects.StaticInvoke(
        jvm.java.lang.Class.forName(owner),
        returns,
        method,
        scala_seq(jvm, arguments),
        scala_seq(jvm, ()),
        nulls,
        False,  # the method never returns null
        not once,  # Spark copies only deterministic expressions
        *no_function,
    )


def string_order(jvm: Any) -> Any:
    """Return the java.util.Comparator that compares strings by their bytes.

    It is faster than `UTF8String.compareTo` of Spark 4, which reads an environment variable for every comparison.
    """
    if _is_spark_4(jvm):
        return jvm.org.apache.spark.sql.catalyst.types.PhysicalStringType(_UTF8_BINARY).ordering()
    return scala_object(jvm.org.apache.spark.sql.catalyst.types, "PhysicalStringType").ordering()


def frame_of(session: SparkSession, plan: Any) -> DataFrame:
    """Return the frame of a logical plan."""
    from pyspark.sql import DataFrame

    jvm = jvm_of(session)
    java_session: Any = session._jsparkSession
    if _is_spark_4(jvm):
        return DataFrame(jvm.org.apache.spark.sql.classic.Dataset.ofRows(java_session, plan), session)
    return DataFrame(jvm.org.apache.spark.sql.Dataset.ofRows(java_session, plan), session)


def refresh_table(session: SparkSession, parts: Iterable[str]) -> None:
    """Run REFRESH TABLE. It is not parsed from a text, whose meaning depends on the configuration of the session.

    Args:
        session: The session.
        parts: The name of the table, with its catalog.
    """
    jvm = jvm_of(session)
    catalyst = jvm.org.apache.spark.sql.catalyst
    named = catalyst.analysis.UnresolvedTableOrView(scala_seq(jvm, parts), "REFRESH TABLE", True)
    frame_of(session, catalyst.plans.logical.RefreshTable(named))


def activate(session: SparkSession) -> None:
    """Set the active session of this thread."""
    java_session: Any = session._jsparkSession
    java_sessions(jvm_of(session)).setActiveSession(java_session)


def java_sessions(jvm: Any) -> Any:
    """Return the Scala object SparkSession, which knows the active session of each thread."""
    sql = jvm.org.apache.spark.sql
    return scala_object(sql.classic if _is_spark_4(jvm) else sql, "SparkSession")


def _is_spark_4(jvm: Any) -> bool:
    return has_class(jvm, "org.apache.spark.sql.classic.Dataset")
