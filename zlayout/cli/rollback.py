"""The command `rollback`: show what a rollback undoes, ask for approval, and commit it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa

from zlayout.cli.apply import stage_text
from zlayout.cli.console import Approval, Console, spark_of
from zlayout.formats.undo import Undo, total
from zlayout.message_text import plural
from zlayout.report.words import number, printable, size, version_word
from zlayout.session.project import load_project
from zlayout.session.rollback import RolledBack, plan_rollback, roll_back

MAX_LISTED_FILES = 10


def rollback_command(
    project: Path, table: str, run: str | None, console: Console, approval: Approval, timeout: float
) -> int:
    """Undo a run, after approval. Raises the errors of `zlayout.rollback`.

    Returns:
        The exit code: 1 if the command was not approved, else 0.
    """
    approval.require_possible("rollback")
    loaded = load_project(project)
    undo = plan_rollback(loaded, table, run, timeout=timeout)
    console.text("\n".join(shown(undo, verbose=console.verbose)) + "\n")
    if (code := approval.declined("Roll back this run?", lambda: as_document(undo, None))) is not None:
        return code
    with spark_of(loaded, console, brief=True) as runtime:
        done = roll_back(
            loaded, undo, runtime, lambda progress: console.say(f"{stage_text(progress)}: {progress.table}")
        )
    word = version_word(undo.format)
    console.text(
        f"\nRolled back in {word} {done.commit.version}: {plural(done.commit.files_removed, 'file')} removed, "
        f"{plural(done.commit.files_added, 'file')} returned. zlayout plan shows what the layout needs now.\n"
    )
    console.document(as_document(undo, done))
    return 0


def as_document(undo: Undo, done: RolledBack | None) -> dict[str, Any]:
    """Return the JSON document of `rollback`. done: None in a dry run."""
    return {
        "table": str(undo.table),
        "format": undo.format,
        "outcome": "rolled_back" if done else "dry_run",
        "undoes": undo.run_id,
        "commits": list(undo.commits),
        "version": undo.version,
        "rows": undo.rows,
        "removed": _document(undo.removed),
        "returned": _document(undo.returned),
        "kept": list(undo.kept),
        "run_id": done.run_id if done else None,
        "committed_version": done.commit.version if done else None,
    }


def _document(files: pa.Table) -> dict[str, Any]:
    return {"files": len(files), "bytes": total(files, "bytes"), "paths": files["path"].to_pylist()}


def shown(undo: Undo, *, verbose: bool) -> Iterator[str]:
    """Yield lines of text that state what a rollback undoes and what it keeps. verbose: whether to list all files."""
    word = version_word(undo.format)
    yield f"{printable(str(undo.table))} ({undo.format}, {word} {undo.version})"
    yield f"  undoes   run {printable(undo.run_id)}"
    yield f"  commits  {word} {', '.join(map(str, undo.commits))}"
    yield f"  removes  {plural(len(undo.removed), 'file')} of the run, {size(total(undo.removed, 'bytes'))}"
    yield from _files(undo.removed, verbose)
    yield f"  returns  {plural(len(undo.returned), 'file')}, {size(total(undo.returned, 'bytes'))}"
    yield from _files(undo.returned, verbose)
    yield f"  rows     {number(undo.rows)} in both; table properties that the run has set are kept"
    if undo.kept:
        yield f"  keeps    {plural(len(undo.kept), 'later commit')} of other writers"


def _files(files: pa.Table, verbose: bool) -> Iterator[str]:
    paths = files["path"].to_pylist()
    listed = paths if verbose else paths[:MAX_LISTED_FILES]
    yield from (f"             {printable(path)}" for path in listed)
    if len(listed) < len(paths):
        yield f"             and {len(paths) - len(listed):,} more; -v lists them all"
