"""Compiles Java classes for a running driver by Janino, the compiler that Spark ships."""

from __future__ import annotations

import atexit
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zlayout.spark.jvm import find_class, jvm_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# Objects by Spark application and class.
_made: dict[tuple[str, str], Any] = {}


def java_object(session: SparkSession, name: str, source: str) -> Any:
    """Return an object of a class, which is compiled once for each Spark application. It is not on the class path.

    Args:
        name: The name of the class with its package. It needs a public constructor without arguments.
        source: See `add_class`.
    """
    key = str(session.sparkContext.applicationId), name
    if key not in _made:
        jvm: Any = jvm_of(session)
        loaded = _compiled(jvm, source).getClassLoader().loadClass(name)
        _made[key] = loaded.newInstance()
    return _made[key]


def add_class(session: SparkSession, name: str, source: str) -> None:
    """Compile a class and add it to the class loader that has the jars of the session, unless it has the class.

    Only the driver has the class. The files stay until the process ends, because Java may load a class at any time.

    Args:
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


def _compiled(jvm: Any, source: str) -> Any:
    compiler = jvm.org.codehaus.janino.SimpleCompiler()
    compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
    compiler.cook(source)
    return compiler
