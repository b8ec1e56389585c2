"""When an Iceberg commit is prepared again, and what a swap compares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest
from py4j.protocol import Py4JError

from zlayout.errors import CommitConflict, CommitUnknown, EngineError
from zlayout.formats.iceberg.read import state_property as recorded
from zlayout.formats.iceberg.write import settings
from zlayout.formats.iceberg.write.jvm import MAX_ATTEMPTS, Prepared, Swap, commit_prepared
from zlayout.formats.kernel.commits import BusyTable
from zlayout.spec.model import TableName

NAME = TableName("ice", ("db",), "t")
CONFLICT = CommitConflict.of("ZL321", "another commit succeeded first")


def overtaken() -> NoReturn:
    raise CONFLICT


@dataclass
class Attempts:
    """A commit whose attempts end as given, and the names of the steps that were taken."""

    sends: list[Callable[[], object]]
    found: str | None = None
    steps: list[str] = field(default_factory=list)

    def prepare(self) -> Prepared[str]:
        self.steps.append("prepare")
        return self.sends[self.steps.count("prepare") - 1], f"commit {self.steps.count('prepare')}"

    def look(self, made: str) -> str | None:
        self.steps.append(f"look for {made}")
        return self.found

    def commit(self, attempts: int = 1) -> str:
        return commit_prepared("committing", self.prepare, self.look, attempts=attempts)


def test_a_commit_that_succeeds_is_prepared_once() -> None:
    tried = Attempts([lambda: "sent"])
    assert (tried.commit(attempts=3), tried.steps) == ("commit 1", ["prepare"])


def test_a_commit_is_prepared_again_after_a_conflict() -> None:
    tried = Attempts([overtaken, overtaken, lambda: "sent"])
    assert tried.commit(attempts=3) == "commit 3"
    assert tried.steps == ["prepare", "look for commit 1", "prepare", "look for commit 2", "prepare"]


def test_a_commit_that_is_in_the_table_is_not_sent_again() -> None:
    tried = Attempts([overtaken], found="found")
    assert (tried.commit(attempts=3), tried.steps) == ("found", ["prepare", "look for commit 1"])


def test_the_last_conflict_is_that_of_a_busy_table() -> None:
    tried = Attempts([overtaken] * 3)
    with pytest.raises(BusyTable, match="ZL321"):
        tried.commit(attempts=3)
    assert tried.steps.count("prepare") == 3


def test_a_conflict_of_the_only_attempt_is_raised_as_it_is() -> None:
    """Iceberg has validated the files itself, so fewer groups may be without a conflict."""
    with pytest.raises(CommitConflict) as raised:
        Attempts([overtaken]).commit()
    assert raised.value is CONFLICT


def test_a_conflict_while_a_commit_is_prepared_is_final() -> None:
    calls = []

    def prepare() -> Prepared[str]:
        calls.append("prepare")
        overtaken()

    with pytest.raises(CommitConflict) as raised:
        commit_prepared("committing", prepare, lambda _: None, attempts=3)
    assert (raised.value, calls) == (CONFLICT, ["prepare"])


def test_an_exception_of_java_while_a_commit_is_prepared_has_a_code() -> None:
    def prepare() -> Prepared[str]:
        raise Py4JError("the JVM is gone")

    with pytest.raises(EngineError, match="ZL314"):
        commit_prepared("committing", prepare, lambda _: None)


def test_a_commit_whose_outcome_is_unknown_is_not_sent_again() -> None:
    def lost() -> NoReturn:
        raise ConnectionResetError("no answer")

    tried = Attempts([lost, lambda: "sent"])
    with pytest.raises(CommitUnknown, match="ZL331"):
        tried.commit(attempts=3)
    assert tried.steps == ["prepare", "look for commit 1"]


class JavaMap(dict[str, str]):
    def put(self, key: str, value: str) -> None:
        self[key] = value


class Table:
    """A Java table in a catalog that compares metadata, which are mappings of table properties here."""

    java = SimpleNamespace(util=SimpleNamespace(HashMap=JavaMap))

    def __init__(self) -> None:
        self.stored: dict[str, str] = {}
        self.loads = 0
        self.before_commit: Callable[[], None] = lambda: None

    def load(self, _: TableName) -> Any:
        self.loads += 1
        base = self.stored

        def commit(expected: dict[str, str], wanted: dict[str, str]) -> None:
            self.before_commit()
            if self.stored is not expected:
                overtaken()
            self.stored = wanted

        def transaction() -> Any:
            now = dict(base)
            update = SimpleNamespace(commit=lambda: None)
            update.set = lambda key, value: now.update({key: value}) or update
            changed = SimpleNamespace(operations=lambda: SimpleNamespace(current=lambda: Metadata(now)))
            return SimpleNamespace(updateProperties=lambda: update, table=lambda: changed)

        def refreshed() -> Metadata:
            return Metadata(self.stored)

        operations = SimpleNamespace(current=refreshed, commit=lambda old, new: commit(old.held, new.held))
        return SimpleNamespace(newTransaction=transaction, operations=lambda: operations, properties=lambda: base)

    def changed_by_another(self) -> None:
        self.stored = {**self.stored, "other": str(self.loads)}


@dataclass
class Metadata:
    held: dict[str, str]

    def properties(self) -> dict[str, str]:
        return self.held

    def replaceProperties(self, properties: dict[str, str]) -> Metadata:
        return Metadata(properties)


def add(state: recorded.State) -> recorded.State:
    return recorded.add(state, "a" * 16, [1], {})


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    monkeypatch.setattr(settings, "_summaries", lambda *_: [])
    return Table()


def write(table: Table) -> bool:
    jvm: Any = table
    return settings.write_state(jvm, NAME, add)


def test_a_swap_replaces_only_the_metadata_that_it_was_started_on(table: Table) -> None:
    swap = Swap.of(table.load(NAME))
    swap.transaction.updateProperties().set("k", "v").commit()
    assert swap.wanted.properties() == {"k": "v"}
    table.changed_by_another()
    with pytest.raises(CommitConflict):
        swap.commitTransaction()
    assert "k" not in table.stored


def test_layout_records_are_added_to_those_of_another_run(table: Table) -> None:
    def once() -> None:
        table.before_commit = lambda: None
        table.stored = {recorded.PROPERTY: recorded.render(recorded.add({}, "b" * 16, [2], {}))}

    table.before_commit = once
    assert write(table)
    assert recorded.listed(recorded.parse(table.stored[recorded.PROPERTY])) == {1, 2}
    assert table.loads == 3  # two attempts, and a look after the first


def test_layout_records_that_are_there_are_not_written_again(table: Table) -> None:
    assert write(table)
    stored = table.stored
    assert not write(table)
    assert table.stored is stored


def test_layout_records_of_a_busy_table_are_reported_after_the_last_attempt(table: Table) -> None:
    table.before_commit = table.changed_by_another
    with pytest.raises(CommitConflict, match="ZL323") as raised:
        write(table)
    assert table.loads == 2 * MAX_ATTEMPTS
    assert recorded.PROPERTY not in table.stored
    assert isinstance(raised.value, EngineError)
