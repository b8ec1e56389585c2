"""Tables of a catalog or store that does not answer cost nothing but themselves. What hangs is a real socket."""

import threading
import time
from collections.abc import Callable, Sequence

import pytest

from zlayout.errors import SpecError, TableError
from zlayout.session import concurrent_reads
from zlayout.session.concurrent_reads import Reading, read_each, read_one, read_tables
from zlayout.spec.model import TableName


def read_all(catalogs: Sequence[str], read: Callable[[int], str], reading: Reading) -> list[str]:
    """Read one table of each of the given catalogs. A late one has the error ZL105 with its name."""
    tables = [TableName(name, ("db",), f"t{number}") for number, name in enumerate(catalogs)]
    found = read_tables(range(len(tables)), tables.__getitem__, read, reading)
    late = [f"ZL105 {table} could not be read within {reading.timeout:g} s: " for table in tables]
    return [
        "late" if isinstance(one, TableError) and str(one).startswith(late[number]) else one
        for number, one in enumerate(found)
    ]


def test_a_slow_table_does_not_condemn_a_catalog_that_answers() -> None:
    release = threading.Event()

    def read(number: int) -> str:
        if number == 1:
            release.wait(60)
        return "read"

    found = read_all(["a"] * 4, read, Reading(1, 0.5))
    release.set()
    assert found == ["read", "late", "read", "read"]


def test_a_catalog_that_never_answered_is_waited_for_once() -> None:
    release, asked = threading.Event(), []

    def read(number: int) -> str:
        asked.append(number)
        if number < 3:
            release.wait(60)
        return "read"

    found = read_all(["hung", "hung", "hung", "good"], read, Reading(1, 0.5))
    release.set()
    assert found == ["late", "late", "late", "read"]
    assert sorted(asked) == [0, 3]


def test_a_catalog_that_stops_to_answer_costs_its_other_tables_one_more_limit() -> None:
    release = threading.Event()

    def read(number: int) -> str:
        if number:
            release.wait(60)
        return "read"

    start = time.monotonic()
    found = read_all(["a"] * 40, read, Reading(2, 0.5))
    release.set()
    assert found == ["read", *["late"] * 39]
    assert time.monotonic() - start < 10


def test_tables_are_read_at_the_same_time_while_the_catalog_is_waited_for() -> None:
    together = threading.Barrier(4)

    def read(_: int) -> str:
        together.wait(30)
        return "read"

    assert read_all(["a"] * 4, read, Reading(4)) == ["read"] * 4


def test_tables_that_are_read_at_once_are_read_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concurrent_reads, "SLOW", 60.0)
    reading, most = [], []

    def read(number: int) -> str:
        reading.append(number)
        most.append(len(reading))
        time.sleep(0.001)  # another thread could begin
        reading.remove(number)
        return "read"

    assert read_all(["a"] * 20, read, Reading(8)) == ["read"] * 20
    assert max(most) == 1


def test_an_error_of_any_kind_is_raised_and_not_called_late() -> None:
    class Panic(BaseException):
        """As pyo3's PanicException."""

    def read(_number: int) -> str:
        raise Panic

    with pytest.raises(Panic):
        read_all(["a"], read, Reading(1, 60))


def test_the_error_of_a_table_is_its_result() -> None:
    errors = [TableError.of("ZL104", "gone"), SpecError.of("ZL022", "twice")]

    def read(number: int) -> str:
        if number < 2:
            raise errors[number]
        return "read"

    assert read_all(["a"] * 3, read, Reading(1, 60)) == [*errors, "read"]


def test_an_unexpected_exception_of_a_library_costs_one_table() -> None:
    def read(table: TableName) -> str:
        if table.name == "broken":
            raise AssertionError("in a library")
        return "read"

    tables = [TableName("a", ("db",), name) for name in ("broken", "t")]
    error, found = read_each(tables, lambda table: table, read, Reading())
    assert isinstance(error, TableError)
    assert error.diagnostics[0].code == "ZL104"
    assert "a.db.broken cannot be read: AssertionError: in a library" in error.diagnostics[0].message
    assert found == "read"


def test_no_tables_are_read_at_once() -> None:
    assert read_all([], lambda _: "read", Reading()) == []


def test_one_table_that_does_not_answer_is_an_error_with_its_catalog() -> None:
    table, release = TableName("lake", ("db",), "t"), threading.Event()
    with pytest.raises(TableError) as late:
        read_one(lambda: release.wait(60), table, 0.2)
    release.set()
    assert [d.code for d in late.value.diagnostics] == ["ZL105"]
    assert "catalogs.lake" in late.value.diagnostics[0].hint
    with pytest.raises(KeyError, match="as it is"):
        read_one(lambda: _fails(), table, 5)


def _fails() -> None:
    raise KeyError("as it is")
