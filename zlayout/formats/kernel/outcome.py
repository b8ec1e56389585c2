"""Settles the outcome of a commit: after any error, it reads the table to determine whether the commit exists.

The error alone does not determine the outcome. A hook may have failed after the commit, the storage may have answered
too late, the connection to the JVM may be lost, or the library may have retried and reported its own first attempt as
a conflict. Therefore:

- A commit that is in the table has succeeded.
- A commit that is not in the table and for which the library reports a conflict is a conflict.
- A commit that the library refused before it wrote anything has failed.
- In every other case the outcome is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from zlayout.errors import CommitConflict, CommitUnknown, EngineError, Refused
from zlayout.formats.kernel.failures import JVM_LOST, Failures, line_of, translated, unknown

NOT_YET = "the table does not have the commit yet"
Found = TypeVar("Found")


def settled(doing: str, send: Callable[[], Found], look: Callable[[], Found | None], failures: Failures) -> Found:
    """Send a commit and settle its outcome.

    Args:
        doing: The operation, the table and the run, for messages.
        send: Makes the commit and does nothing else. It is called once.
        look: Reads the table again. Returns the commit; None if it is not in the table.
        failures: How the format reports failures.

    Returns:
        The result of `send` or, if it raised an error, the commit that `look` found.

    Raises:
        CommitConflict: ZL321, if the commit is not in the table because of a conflict.
        EngineError: ZL314, if the library refused the commit before it wrote any part of it.
        CommitUnknown: ZL331, if the commit is not in the table and may still be made, or if the table cannot be read.
    """
    try:
        return send()
    except Exception as error:
        found = read_outcome(doing, look, failures, error)
        if found is not None:
            return found
        failure = _explained(error, doing, failures, sent=True)
        if failure is error:
            raise
        raise failure from error


def ran(
    doing: str, run: Callable[[], object], look: Callable[[], Sequence[Found]], failures: Failures
) -> tuple[Sequence[Found], EngineError | None]:
    """Run a command that commits by itself, and read its commits from the table.

    Args:
        doing: The operation, the table and the run, for messages.
        run: Runs the command.
        look: Reads the commits of the run from the table.
        failures: How the format reports failures.

    Returns:
        The commits, and the error if the command failed. The error is CommitUnknown ZL331 if it may still commit.

    Raises:
        Refused: If `run` raises it.
        CommitUnknown: ZL331, if the table cannot be read.
    """
    error: Exception | None = None
    try:
        run()
    except Refused:
        raise
    except Exception as raised:
        error = raised
    commits = read_outcome(doing, look, failures, error)
    if error is None:
        return commits, None
    failure = _explained(error, doing, failures, sent=False)
    failure.__cause__ = failure.__cause__ or (error if failure is not error else None)
    return commits, failure


def read_outcome(doing: str, look: Callable[[], Found], failures: Failures, error: Exception | None) -> Found:
    """Return the result of `look`.

    Args:
        doing: The operation, the table and the run, for the message.
        look: Reads the table.
        failures: How the format reports failures.
        error: The error after which the table is read, for the message; None if there was none.

    Raises:
        CommitUnknown: ZL331, if `look` fails.
    """
    try:
        return look()
    except Exception as unread:
        reason = f"the table cannot be read: {line_of(unread)}"
        if error is not None:
            reason = f"{line_of(error)}; then {reason}"
        raise unknown(doing, reason, failures) from (error or unread)


def _explained(error: Exception, doing: str, failures: Failures, *, sent: bool) -> EngineError:
    """Return the error for a commit that is not in the table. sent: whether the failed call only commits."""
    try:
        failure = translated(error, doing, failures)
        began = sent or failure.diagnostics[0].code == JVM_LOST or failures.in_commit(error)
        known = isinstance(failure, CommitConflict | CommitUnknown) or failures.unsent(error)
    except Exception:  # the JVM, which has the reason, has died
        return unknown(doing, f"{line_of(error)}; {NOT_YET}", failures)
    if began and not known:
        return unknown(doing, f"{line_of(error)}; {NOT_YET}", failures)
    return failure
