"""The outcome of a commit. After any error the table itself is asked; what it cannot tell is unknown.

An error says little: a hook may have failed after the commit, the store may have answered too late, the gateway may be
gone, and a conflict may be the commit's own doing if the library tried again after such an answer. So a commit that is
in the table is done. One that is not there because another commit won is a conflict. All else is unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from zlayout.errors import CommitConflict, CommitUnknown, EngineError, Refused
from zlayout.formats.kernel.failures import JVM_LOST, Failures, line_of, translated, unknown

NOT_YET = "the table does not have the commit yet"
Found = TypeVar("Found")


def settled(doing: str, send: Callable[[], Found], look: Callable[[], Found | None], failures: Failures) -> Found:
    """Send a commit and find out what became of it.

    Args:
        doing: What is committed to which table by which run, for messages.
        send: Does nothing but commit. It is called once.
        look: Reads the table afresh. Returns the commit, None if it is not there.
        failures: How the format reports failures.

    Returns:
        What `send` returned or, after any error in it, what `look` found.

    Raises:
        CommitConflict: ZL321, if the commit is not there because another one won.
        EngineError: ZL314, if the commit was refused before any of it was written.
        CommitUnknown: ZL331, if the commit is not there yet, or if the table cannot be read.
    """
    try:
        return send()
    except Exception as error:
        found = looked_up(doing, look, failures, error)
        if found is not None:
            return found
        failure = _explained(error, doing, failures, sent=True)
        if failure is error:
            raise
        raise failure from error


def ran(
    doing: str, run: Callable[[], object], look: Callable[[], Sequence[Found]], failures: Failures
) -> tuple[Sequence[Found], EngineError | None]:
    """Run a command of the format that commits by itself, and read from the table what it committed.

    Args:
        doing: What is done to which table by which run, for messages.
        run: Runs the command. What it raises as Refused is not caught.
        look: Reads the run's commits from the table.
        failures: How the format reports failures.

    Returns:
        The commits, and the error of the command if it failed: CommitUnknown ZL331 if it may still commit.

    Raises:
        CommitUnknown: ZL331, if the table cannot be read.
    """
    error: Exception | None = None
    try:
        run()
    except Refused:
        raise
    except Exception as raised:
        error = raised
    commits = looked_up(doing, look, failures, error)
    if error is None:
        return commits, None
    failure = _explained(error, doing, failures, sent=False)
    failure.__cause__ = failure.__cause__ or (error if failure is not error else None)
    return commits, failure


def looked_up(doing: str, look: Callable[[], Found], failures: Failures, error: Exception | None) -> Found:
    """Return what `look` finds in the table. error: what went wrong before it.

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
    """The error of a commit that is not in the table. sent: the failed call does nothing but commit."""
    try:
        failure = translated(error, doing, failures)
        began = sent or failure.diagnostics[0].code == JVM_LOST or failures.in_commit(error)
        known = isinstance(failure, CommitConflict | CommitUnknown) or failures.unsent(error)
    except Exception:  # Java has the reason and can no longer be asked
        return unknown(doing, f"{line_of(error)}; {NOT_YET}", failures)
    if began and not known:
        return unknown(doing, f"{line_of(error)}; {NOT_YET}", failures)
    return failure
