"""The command `doctor`: print each check of the catalogs, and return the exit code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from zlayout.app.doctor import CheckStatus, Step, doctor
from zlayout.app.project import load_project
from zlayout.cli.console import Console
from zlayout.report.words import printable, wrapped
from zlayout.secrets import without_secrets

_STEP_WIDTH = max(map(len, Step))


def doctor_command(project: Path, catalogs: Sequence[str], console: Console, *, spark: bool, timeout: float) -> int:
    """Print each check when it is done. Return 1 if one failed, else 0. Raises the errors of `app.doctor.doctor`."""
    failed, catalog = False, ""
    for check in doctor(load_project(project), catalogs, spark=spark, timeout=timeout):
        if check.catalog != catalog:
            catalog = check.catalog
            console.result(f"{catalog}\n")
        failed |= check.status is CheckStatus.FAILED
        start = f"  {check.status:<8} {check.step:<{_STEP_WIDTH}} "
        width = console.text_options().width - len(start)
        for text in filter(None, (without_secrets(check.detail), check.hint)):
            for line in wrapped(printable(text), width, 0):
                console.result(f"{start}{line}\n")
                start = " " * len(start)
    return 1 if failed else 0
