"""Ask for the approval of a command for one table, unless an option gives it."""

from __future__ import annotations

from zlayout.cli.console import Console
from zlayout.errors import SpecError


def require_approvable(command: str, console: Console, *, auto_approve: bool, dry_run: bool) -> None:
    """Check that somebody can approve, before anything is read. Raises SpecError ZL046."""
    if not (auto_approve or dry_run or console.interactive):
        raise SpecError.of(
            "ZL046",
            f"expected a terminal on which {command} can ask for approval, found none",
            hint="use --auto-approve, or --dry-run",
        )


def approved(question: str, console: Console, *, auto_approve: bool, dry_run: bool) -> bool:
    """Return whether to go on, and say that nothing was written if not."""
    if dry_run:
        console.say("Dry run: nothing was written.")
        return False
    if not auto_approve and console.ask(f"\n{question} Only 'yes' is accepted: ") != "yes":
        console.say("Not approved: nothing was written.")
        return False
    return True
