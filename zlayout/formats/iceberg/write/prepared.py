"""Prepares a commit from the newest metadata of a table, sends it, and settles its outcome.

Rewrites by engine zlayout, layout records, trials and rollbacks are committed here. `Transaction.commitTransaction`
applies a transaction again to metadata that another commit has changed, after Iceberg's own validation. Where that does
not suffice, the commit succeeds only if the metadata is unchanged (compare and set), mostly by a `Swap`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from random import uniform
from typing import Any, TypeVar

from zlayout.errors import CommitConflict
from zlayout.formats.iceberg.write.jvm import FAILURES, java_errors
from zlayout.formats.kernel.commits import BusyTable
from zlayout.formats.kernel.outcome import settled

MAX_ATTEMPTS = 8  # to send a swap while other commits are made
Made = TypeVar("Made")
# A function that sends a commit, and the result if the commit succeeds.
Prepared = tuple[Callable[[], object], Made]


@dataclass(frozen=True, slots=True)
class Swap:
    """A Java transaction that is committed only if the table still has the metadata `base` (compare and set).

    Iceberg's own retry applies the change to newer metadata. If the branch was dropped there, the retry would create it
    again, as a copy of main.
    A REST catalog compares only the id of the table and the branches that the commit sets.
    """

    operations: Any
    base: Any
    transaction: Any

    @classmethod
    def of(cls, table: Any) -> Swap:
        """Start a transaction on the newest metadata of a Java table."""
        transaction, operations = table.newTransaction(), table.operations()
        return cls(operations, operations.current(), transaction)

    @property
    def wanted(self) -> Any:
        """The Java metadata with the changes that were made in the transaction."""
        return self.transaction.table().operations().current()

    def commitTransaction(self) -> None:
        self.operations.commit(self.base, self.wanted)


def commit_prepared(
    doing: str,
    prepare: Callable[[], Prepared[Made]],
    look: Callable[[Made], Made | None],
    *,
    attempts: int = 1,
    pause: float = 0.0,
) -> Made:
    """Prepare a commit, send it, and settle its outcome. Return the result that belongs to the commit.

    Args:
        doing: The operation, the table and the run, for messages.
        prepare: Reads and checks the table, and prepares the commit. Sends nothing. A conflict that it
            raises ends the attempts.
        look: Reads the table again after an error. Returns the result, None if the commit is not in the table.
        attempts: How often the commit is prepared and sent if another commit succeeds first each time.
        pause: The mean pause between two attempts in seconds.

    Raises:
        CommitConflict: ZL321, if another commit succeeded first. BusyTable after several attempts.
        EngineError: ZL314.
        CommitUnknown: ZL331.
    """
    attempt = 1
    while True:
        with java_errors(doing):
            send, made = prepare()
        try:
            return _sent(doing, send, made, look)
        except CommitConflict as conflict:
            if attempts == 1:
                raise
            if attempt == attempts:
                raise BusyTable(*conflict.diagnostics) from conflict
        attempt += 1
        time.sleep(uniform(0.5, 1.5) * pause)


def _sent(doing: str, send: Callable[[], object], made: Made, look: Callable[[Made], Made | None]) -> Made:
    def commit() -> Made:
        send()
        return made

    return settled(doing, commit, lambda: look(made), FAILURES)
