"""Java and Scala classes, collections and Catalyst expressions through py4j, and temporary session configuration.

`jvm_of` returns the root of all packages of a session's JVM, which most functions take as `jvm`.

For each part of a name such as `jvm.org.apache`, py4j asks the JVM whether the part is a class, and the JVM searches
all its jars. In a rewrite, about a hundred such requests took a quarter of a second. `JvmPackage` decides by the name
alone.
"""

from __future__ import annotations

import atexit
import json
import re
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zlayout.spark.connect import explicit, is_connect, mark_lost, marking_lost, set_conf, was_lost
from zlayout.spec.client_options import Store, stores
from zlayout.spec.model import CatalogConfig
from zlayout.table.location import S3_SCHEMES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


def jvm_of(session: SparkSession) -> JvmPackage:
    """Return the root of all packages, as in `jvm_of(session).java.util.ArrayList()`."""
    context: Any = session.sparkContext
    return _root(context._jvm._gateway_client)


@cache
def _root(client: Any) -> JvmPackage:
    return JvmPackage(client, "")


class JvmPackage:
    """A Java package. A name in it that begins with a capital letter or ends with `$` is a class, any other a package.

    A class that does not exist raises Py4JError when it is used.
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
    """Return a java.util.ArrayList of the items. jvm: the result of `jvm_of`."""
    whole = jvm.java.util.ArrayList()
    for item in items:
        whole.add(item)
    return whole


def find_class(jvm: Any, name: str) -> Any:
    """Return the java.lang.Class of this name, None if it is not on the class path. Runs no code of the class."""
    from py4j.protocol import Py4JJavaError

    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    try:
        return jvm.java.lang.Class.forName(name, False, loader)
    except Py4JJavaError as error:
        if error.java_exception.getClass().getName() == "java.lang.ClassNotFoundException":
            return None
        raise


@cache
def has_class(jvm: Any, name: str) -> bool:
    """Return whether a class is on the class path. The result is cached, because the jars of a JVM do not change."""
    return find_class(jvm, name) is not None


def scala_object(package: Any, name: str) -> Any:
    """Return the Scala object `name` of a package. It is read from MODULE$, because static methods may be private."""
    return getattr(getattr(package, f"{name}$"), "MODULE$")


def scala_seq(jvm: Any, items: Iterable[Any]) -> Any:
    """Return a Scala Seq of the items of a Python iterable or, without copying them to Python, of a Java list."""
    listed = items if hasattr(items, "_get_object_id") else java_list(jvm, items)
    return jvm.scala.collection.JavaConverters.asScalaBufferConverter(listed).asScala().toSeq()


def scala_list(jvm: Any, seq: Any) -> Any:
    """Return a java.util.ArrayList of the items of a Scala Seq, without copying them to Python."""
    return jvm.java.util.ArrayList(jvm.scala.collection.JavaConverters.seqAsJavaListConverter(seq).asJava())


def java_map(jvm: Any, mapping: Any) -> Any:
    """Return a Scala Map as a java.util.Map, without copying its entries to Python."""
    return jvm.scala.collection.JavaConverters.mapAsJavaMapConverter(mapping).asJava()


def strings_of(jvm: Any, mapping: Any) -> dict[str, str]:
    """Return the entries of a java.util.Map of strings by one call of the JVM."""
    text = jvm.com.fasterxml.jackson.databind.ObjectMapper().writeValueAsString(mapping)
    return {str(key): str(value) for key, value in json.loads(text).items()}


def scala_items(seq: Any) -> list[Any]:
    """Return the items of a Scala Seq."""
    return [seq.apply(at) for at in range(seq.size())]


def scala_map(jvm: Any, items: Mapping[str, Any]) -> Any:
    """Return an immutable Scala Map."""
    whole = scala_object(jvm.scala.collection.immutable, "Map").empty()
    for key, value in items.items():
        whole = whole.updated(key, value)
    return whole


@contextmanager
def session_conf(spark: SparkSession, conf: Mapping[str, str]) -> Iterator[None]:
    """Set session configuration for the duration of the block, and restore the previous values afterwards."""
    if is_connect(spark):
        with _connect_conf(spark, conf):
            yield
        return
    kept = {key: spark.conf.get(key) for key in conf if spark._jsparkSession.conf().contains(key)}
    try:
        for key, value in conf.items():
            spark.conf.set(key, value)
        yield
    finally:
        _restore(spark, conf, kept)


@contextmanager
def _connect_conf(spark: SparkSession, conf: Mapping[str, str]) -> Iterator[None]:
    with marking_lost(spark):
        of_session = explicit(spark) if conf else frozenset()
        kept = {key: spark.conf.get(key) for key in conf if key in of_session}
    try:
        with marking_lost(spark):
            for key, value in conf.items():
                set_conf(spark, key, value)
            yield
    finally:
        if not was_lost(spark):
            try:
                _restore(spark, conf, kept)
            except Exception:  # it must not replace the error of the block
                mark_lost(spark)


def _restore(spark: SparkSession, conf: Mapping[str, str], kept: Mapping[str, str | None]) -> None:
    for key in conf:
        if key in kept:
            spark.conf.set(key, str(kept[key]))
        else:
            spark.conf.unset(key)


# Catalyst expressions, which can call Java methods inside generated code, and logical plans.


_UTF8_BINARY = 0  # Spark's id of the collation that compares bytes


def expression_of(jvm: Any, column: Column) -> Any:
    """Return the Catalyst expression of a column."""
    java: Any = column._jc
    return _sql(jvm).ExpressionUtils.expression(java) if _is_spark_4(jvm) else java.expr()


def column_of(jvm: Any, expression: Any) -> Column:
    """Return the column of a Catalyst expression."""
    from pyspark.sql import Column

    sql = _sql(jvm)
    return Column(sql.ExpressionUtils.column(expression) if _is_spark_4(jvm) else sql.Column(expression))


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

    return DataFrame(_sql(jvm_of(session)).Dataset.ofRows(session._jsparkSession, plan), session)


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
    return scala_object(_sql(jvm), "SparkSession")


def _sql(jvm: Any) -> Any:
    """Return the package with the classes of Spark's own engine, which Spark 4 has beside those of Spark Connect."""
    sql = jvm.org.apache.spark.sql
    return sql.classic if _is_spark_4(jvm) else sql


def _is_spark_4(jvm: Any) -> bool:
    return has_class(jvm, "org.apache.spark.sql.classic.Dataset")


# Finds methods of Java classes in the driver's JVM by reflection, and compiles classes with Spark's own Janino.


# `public java.lang.String a.b.Some.method(int,java.lang.String) throws ...`
_SIGNATURE = re.compile(r"\.([\w$]+)\(([^)]*)\)")

CLOSED_REST = "io.zlayout.iceberg.ClosedRestCatalog"
_REST_CATALOG = "org.apache.iceberg.rest.RESTCatalog"
# Hadoop's S3A can send conditional PUTs since version 3.4.2, which is in Spark 4.1.
_CONDITIONS = "org.apache.hadoop.fs.Options$CreateFileOptionKeys"
CONDITIONAL_PUT = "io.zlayout.delta.ConditionalPutLogStore"  # writes the commits of Delta tables on S3

# By class: the methods as `name/number of arguments`, and the constructors as `new/number of arguments`.
Calls = Mapping[str, tuple[str, ...]]

# Public methods and constructors by Spark application and class. They do not change while a JVM runs.
_known: dict[tuple[str, str], frozenset[str] | None] = {}
# Objects by Spark application and class.
_made: dict[tuple[str, str], Any] = {}


class JavaClasses:
    """Finds classes in the JVM of a SparkContext, without running code of the classes."""

    def __init__(self, context: Any) -> None:
        self._jvm = context._jvm
        self._application = str(context.applicationId)

    def find(self, name: str) -> frozenset[str] | None:
        """Return all public methods and constructors of a class in the form of `Calls`, None if it does not exist."""
        key = self._application, name
        if key not in _known:
            _known[key] = self._signatures(name)
        return _known[key]

    def missing(self, calls: Calls) -> str:
        """Return the name of the first class or method that does not exist, '' if all exist."""
        for name, wanted in calls.items():
            existing = self.find(name)
            if existing is None:
                return name
            for call in wanted:
                if call not in existing:
                    return f"{name.rpartition('.')[2]}.{call}"
        return ""

    def missing_of_all(self, alternatives: Iterable[Calls]) -> str:
        """Return what each alternative lacks, '' if one alternative is complete or if there are no alternatives."""
        lacking = [self.missing(calls) for calls in alternatives]
        return " or ".join(lacking) if all(lacking) else ""

    def _signatures(self, name: str) -> frozenset[str] | None:
        """Read the signatures of a class by two calls of the JVM instead of one call per method."""
        found = find_class(self._jvm, name)
        if found is None:
            return None
        # not java.util.Arrays.toString, which py4j cannot call with an array of methods
        listed = self._jvm.scala.runtime.ScalaRunTime
        methods, made = listed.stringOf(found.getMethods()), listed.stringOf(found.getConstructors())
        names = {f"{name}/{_count(given)}" for name, given in _SIGNATURE.findall(methods)}
        return frozenset(names | {f"new/{_count(given)}" for _, given in _SIGNATURE.findall(made)})


def _count(arguments: str) -> int:
    return arguments.count(",") + 1 if arguments else 0


def java_object(session: SparkSession, name: str, source: str) -> Any:
    """Return the only object of a class, which is compiled once per Spark application. The class path stays unchanged.

    Args:
        session: A session of the application.
        name: The name of the class with its package. The class needs a public constructor without arguments.
        source: See `add_class`.
    """
    key = str(session.sparkContext.applicationId), name
    if key not in _made:
        jvm: Any = jvm_of(session)
        loaded = _compiled(jvm, source).getClassLoader().loadClass(name)
        _made[key] = loaded.newInstance()
    return _made[key]


def add_class(session: SparkSession, name: str, source: str) -> None:
    """Compile a class and add it to the class loader that has the jars of the session, unless the loader has the class.

    Only the driver has the class. The class files exist until the process ends, because Java may load a class at any
    time.

    Args:
        session: The session.
        name: The name of the class with its package.
        source: The source of the class alone, in the subset of Java that Janino compiles.
    """
    jvm: Any = jvm_of(session)
    if find_class(jvm, name) is not None:
        return
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    compiler = _compiled(jvm, source)
    folder = Path(tempfile.mkdtemp(prefix="zlayout-classes-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    for compiled, content in compiler.getBytecodes().items():
        file = folder.joinpath(*compiled.split(".")).with_suffix(".class")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    loader.addURL(jvm.java.io.File(str(folder)).toURI().toURL())


# The classes of zlayout itself, which only the driver has.


def add_own_classes(session: SparkSession, catalogs: Iterable[CatalogConfig]) -> None:
    """Let a session that zlayout has started use the classes with which zlayout protects these catalogs."""
    catalogs = tuple(catalogs)
    if any(catalog.format == "delta" and Store.S3 in stores(catalog) for catalog in catalogs):
        use_conditional_puts(session)
    if rest := [catalog.name for catalog in catalogs if catalog.format == "iceberg" and catalog.type == "rest"]:
        close_rest_catalogs(session, rest)


def use_conditional_puts(session: SparkSession) -> None:
    """Let a session commit to Delta tables on S3 by conditional PUTs, unless the user named a log store.

    Options of the session builder would silently replace a log store that is named with spark-submit or in
    `spark-defaults.conf`. Therefore this changes the configuration of the driver after the session has started. Only
    the driver writes commits.
    """
    context: Any = session.sparkContext
    if not has_class(jvm_of(session), _CONDITIONS):
        return  # `require_exclusive_commits` will refuse tables on S3
    if any(key.removeprefix("spark.").startswith("delta.logStore.") for key, _ in context.getConf().getAll()):
        return
    add_class(session, CONDITIONAL_PUT, _source("ConditionalPutLogStore.java"))
    conf = jvm_of(session).org.apache.spark.SparkEnv.get().conf()
    for scheme in sorted(S3_SCHEMES):
        conf.set(f"spark.delta.logStore.{scheme}.impl", CONDITIONAL_PUT)


def close_rest_catalogs(session: SparkSession, names: Iterable[str]) -> None:
    """Let REST catalogs accept no other address from their servers, as `iceberg.read.rest` does for pyiceberg.

    Iceberg itself would obey the server before zlayout sees its properties, and send tokens to the address that it
    names. Clones of the session have the same configuration. Without Iceberg's jar, such a catalog has no class at all.
    """
    if not has_class(jvm_of(session), _REST_CATALOG):
        return
    add_class(session, CLOSED_REST, _source("ClosedRestCatalog.java"))
    for name in names:
        prefix = f"spark.sql.catalog.{name}"
        session.conf.unset(f"{prefix}.type")
        session.conf.set(f"{prefix}.catalog-impl", CLOSED_REST)


def _source(file: str) -> str:
    return files(__package__).joinpath(file).read_text(encoding="utf-8")


def _compiled(jvm: Any, source: str) -> Any:
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(source)
    return compiler
