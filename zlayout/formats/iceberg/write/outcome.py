"""What became of a commit. The one rule: after any error the table itself is asked, and what it cannot tell is unknown.

An error says little: a catalog may have answered too late for a commit that it made, and a conflict may be the
commit's own doing, when Iceberg tries again after such an answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from zlayout.errors import CommitConflict, CommitUnknown, first_line
from zlayout.formats.iceberg.write.jvm import java_errors, unknown

Found = TypeVar("Found")


def settled(doing: str, send: Callable[[], Found], look: Callable[[], Found | None]) -> Found:
    """Send a commit. Returns what `send` returns, or after an error in it, what `look` finds of it in the table.

    look: reads the table afresh, None where the commit is not there. Raises CommitConflict ZL321 (not there, since
    somebody else changed the files) and CommitUnknown ZL331 (not there yet, or the look-up failed).
    """
    try:
        with java_errors(doing):
            return send()
    except Exception as error:
        found = looked_up(doing, look, error)
        if found is not None:
            return found
        if isinstance(error, CommitConflict | CommitUnknown):
            raise
        raise unknown(doing, first_line(error)) from error


def looked_up(doing: str, look: Callable[[], Found], failure: Exception | None = None) -> Found:
    """`look()`. Raises CommitUnknown ZL331 when that fails. failure: what was the matter before."""
    try:
        return look()
    except Exception as error:
        reason = f"the table cannot be read: {first_line(error)}"
        if failure is not None:
            reason = f"{first_line(failure)}; then {reason}"
        raise unknown(doing, reason) from error
