"""Names of classes and packages, without a JVM: nothing is asked of it until a class is used."""

from types import SimpleNamespace

import pytest
from py4j.java_gateway import JavaClass

from zlayout.spark.jvm import JvmPackage


class Silent:
    """A py4j client that answers nothing."""

    converters = None
    gateway_property = SimpleNamespace(pool=None)

    def __getattr__(self, name):
        raise AssertionError(f"the JVM was asked: {name}")


def test_classes_and_packages_by_name_alone():
    root = JvmPackage(Silent(), "")
    array_list = root.java.util.ArrayList
    assert isinstance(array_list, JavaClass)
    assert array_list._fqn == "java.util.ArrayList"
    assert root.io.delta.__getattr__("package$")._fqn == "io.delta.package$"
    assert isinstance(root.org.apache.spark, JvmPackage)


def test_a_name_is_made_once():
    root = JvmPackage(Silent(), "")
    assert root.java.util is root.java.util
    assert root.java.util.HashMap is root.java.util.HashMap


def test_python_s_own_names_are_no_packages():
    with pytest.raises(AttributeError):
        _ = JvmPackage(Silent(), "")._jdf
