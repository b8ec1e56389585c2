"""How hostile input is put to zlayout, and what every answer has to be: a result, or errors with codes, and no more."""

import builtins
import io
import re
import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

import pytest
from reliability import count

from zlayout.cli.main import run
from zlayout.errors import EngineError, ZlayoutError
from zlayout.spark.session import SparkRuntime

EXIT_CODES = (0, 1, 2, 3, 64)
# After which it hangs, however slow the machine is.
SECONDS = 300.0
# What a terminal, or a reader of text, may act on: controls, bidi and other formats, halves of characters.
ESCAPES = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
# A command to the log of Azure DevOps, GitHub Actions or TeamCity, wherever it is in a line.
COMMAND = re.compile(r"##\w*\[")
CODE = re.compile(r"ZL\d{3}")


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str


def ask(*arguments: str) -> Answer:
    """The command line's answer to these arguments, after all that holds for each answer was checked."""
    count("bad_inputs")
    out, err = io.StringIO(), io.StringIO()
    begun = time.monotonic()
    with broken_promises_count(), redirect_stdout(out), redirect_stderr(err):
        code = run(arguments)
    answer = Answer(code, out.getvalue(), err.getvalue())
    with broken_promises_count():
        assert time.monotonic() - begun < SECONDS, f"{arguments} hangs"
        assert code in EXIT_CODES, answer
        assert "Traceback" not in answer.out + answer.err
        assert escapes(answer.out) == set(), answer
        assert escapes(answer.err) == set(), answer
        assert not COMMAND.search(answer.out + answer.err), answer
        assert code in (0, 2, 64) or CODE.search(answer.out + answer.err) or "--help" in answer.err, answer
    return answer


def refused(call: Callable[[], Any], shown: object = "") -> ZlayoutError | None:
    """None where `call` takes its input; else the error, which must be one of zlayout's that can be printed."""
    count("bad_inputs")
    begun = time.monotonic()
    error = None
    with broken_promises_count():
        try:
            call()
        except ZlayoutError as raised:
            error = raised
        assert time.monotonic() - begun < SECONDS, f"hangs: {shown!r:.1000}"
        for diagnostic in error.diagnostics if error else ():
            assert CODE.fullmatch(diagnostic.code)
            assert diagnostic.message
            str(diagnostic).encode("utf-8", "surrogateescape")
    return error


@contextmanager
def broken_promises_count() -> Iterator[None]:
    try:
        yield
    except Exception:
        count("violations")
        raise


def escapes(text: str) -> set[str]:
    """The characters of a text that have no place on a terminal."""
    return {c for c in set(text) if unicodedata.category(c) in ESCAPES} - {"\n"}


class NoEngine:
    """Spark is out of reach: `touched` counts who asks for a session, or imports pyspark or py4j, which both fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.touched = 0
        imported = builtins.__import__

        def guarded(name: str, *rest: Any, **named: Any) -> Any:
            if name.partition(".")[0] in ("pyspark", "py4j"):
                self.touched += 1
                raise ImportError(f"no {name} here")
            return imported(name, *rest, **named)

        def session(_runtime: SparkRuntime) -> Any:
            self.touched += 1
            raise EngineError.of("ZL301", "there is no Java here")

        monkeypatch.setattr(builtins, "__import__", guarded)
        monkeypatch.setattr(SparkRuntime, "session", property(session))
