"""Finds methods of Java classes in the driver's JVM by reflection, and compiles classes with Spark's own Janino."""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zlayout.spark.jvm import find_class, has_class, jvm_of
from zlayout.spec.client_options import Store, stores
from zlayout.spec.model import CatalogConfig
from zlayout.table.location import S3_SCHEMES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# `public java.lang.String a.b.Some.method(int,java.lang.String) throws ...`
_SIGNATURE = re.compile(r"\.([\w$]+)\(([^)]*)\)")

CLOSED_REST = "io.zlayout.iceberg.ClosedRestCatalog"
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
    names. Clones of the session have the same configuration.
    """
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
