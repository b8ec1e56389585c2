"""As much of Java as the product looks at: throwables with causes and stack traces, Option, Seq."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError, Py4JNetworkError


@dataclass(frozen=True, slots=True)
class JavaClass:
    """kinds: names of the class and its superclasses."""

    kinds: tuple[str, ...]

    def getName(self) -> str:
        return self.kinds[0]

    def getSimpleName(self) -> str:
        return self.kinds[0].rpartition(".")[2]

    def getSuperclass(self) -> JavaClass | None:
        return JavaClass(self.kinds[1:]) if self.kinds[1:] else None


@dataclass(frozen=True, slots=True)
class Frame:
    def getClassName(self) -> str:
        return "org.apache.spark.sql.delta.OptimisticTransactionImpl"

    def getMethodName(self) -> str:
        return "doCommit"


@dataclass(frozen=True, slots=True)
class Throwable:
    kinds: tuple[str, ...]
    message: str

    def getClass(self) -> JavaClass:
        return JavaClass(self.kinds)

    def getMessage(self) -> str:
        return self.message

    def getCause(self) -> None:
        return None

    def getStackTrace(self) -> tuple[Frame, ...]:
        return (Frame(),)


class JavaError(Py4JJavaError):
    """What py4j raises for a Java exception; knows its text without a gateway."""

    def __init__(self, *kinds: str, message: str = "in the model") -> None:
        Exception.__init__(self, message)
        self.java_exception = Throwable(kinds, message)

    def __str__(self) -> str:
        return str(self.java_exception.message)


def no_answer() -> Py4JNetworkError:
    return Py4JNetworkError("Answer from Java side is empty")


class Seq(list[Any]):
    """A Scala Seq or a java.util.List."""

    def isEmpty(self) -> bool:
        return not self

    def size(self) -> int:
        return len(self)

    def head(self) -> Any:
        return self[0]

    def get(self, at: int) -> Any:
        return self[at]


@dataclass(frozen=True, slots=True)
class Option:
    value: str

    def isDefined(self) -> bool:
        return bool(self.value)

    def get(self) -> str:
        return self.value
