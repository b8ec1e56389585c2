"""Which public methods the classes of the driver's JVM have, by reflection."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# `public java.lang.String a.b.Some.method(int,java.lang.String) throws ...`
_SIGNATURE = re.compile(r"\.([\w$]+)\(([^)]*)\)")

# Class -> `method/number of arguments`, `new/number of arguments` for a constructor.
Calls = Mapping[str, tuple[str, ...]]

# Public methods and constructors by Spark application and class: a JVM's classes stay as they are.
_known: dict[tuple[str, str], frozenset[str] | None] = {}


class JavaClasses:
    """Looks classes up without running any of their code. context: the SparkContext."""

    def __init__(self, context: Any) -> None:
        jvm = context._jvm
        self._java, self._scala = jvm.java, jvm.scala
        self._loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        self._application = str(context.applicationId)

    def find(self, name: str) -> frozenset[str] | None:
        """Return `name/arguments` of all public methods and constructors; None if there is no such class."""
        key = self._application, name
        if key not in _known:
            _known[key] = self._signatures(name)
        return _known[key]

    def missing(self, calls: Calls) -> str:
        """Return the first of the calls that does not exist, '' if all do."""
        for name, wanted in calls.items():
            there = self.find(name)
            if there is None:
                return name
            for call in wanted:
                if call not in there:
                    return f"{name.rpartition('.')[2]}.{call}"
        return ""

    def _signatures(self, name: str) -> frozenset[str] | None:
        """Takes two strings from the JVM instead of one call for each method."""
        from py4j.protocol import Py4JJavaError

        try:
            found = self._java.lang.Class.forName(name, False, self._loader)
        except Py4JJavaError as error:
            if error.java_exception.getClass().getName() == "java.lang.ClassNotFoundException":
                return None
            raise
        # not java.util.Arrays: py4j finds none of its methods for an array of methods
        listed = self._scala.runtime.ScalaRunTime
        methods, made = listed.stringOf(found.getMethods()), listed.stringOf(found.getConstructors())
        names = {f"{name}/{_count(given)}" for name, given in _SIGNATURE.findall(methods)}
        return frozenset(names | {f"new/{_count(given)}" for _, given in _SIGNATURE.findall(made)})


def _count(arguments: str) -> int:
    return arguments.count(",") + 1 if arguments else 0
