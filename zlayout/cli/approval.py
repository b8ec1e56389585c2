"""Ask for the approval of a command for one table, unless an option gives it."""

from __future__ import annotations

from dataclasses import dataclass

from zlayout.cli.console import Console
from zlayout.errors import SpecError
from zlayout.spark.session import check_engine


@dataclass(frozen=True, slots=True)
class Approval:
    """Who approves a command: the options `--auto-approve` and `--dry-run`, or a person at the console."""

    console: Console
    auto_approve: bool
    dry_run: bool

    def require_possible(self, command: str) -> None:
        """Check that somebody can approve, before anything is read. Raises SpecError ZL046."""
        if not (self.auto_approve or self.dry_run or self.console.interactive):
            raise SpecError.of(
                "ZL046",
                f"expected a terminal on which {command} can ask for approval, found none",
                hint="use --auto-approve, or --dry-run",
            )

    def refusal(self, question: str) -> int | None:
        """Return the exit code if nothing is to be written, and say so: 0 for a dry run, 1 if the answer is not yes.

        Raises:
            EngineError: ZL301 to ZL303, before the question, if Java or pyspark is missing.
        """
        if self.dry_run:
            self.console.say("Dry run: nothing was written.")
            return 0
        if not self.auto_approve:
            check_engine()
        if not self.auto_approve and self.console.ask(f"\n{question} Only 'yes' is accepted: ") != "yes":
            self.console.say("Not approved: nothing was written.")
            return 1
        return None
