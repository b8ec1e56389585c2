"""What the command `rollback` prints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from zlayout.cli.terminal import Asking
from zlayout.formats.undo import Undo, total
from zlayout.message_text import plural
from zlayout.report.words import number, printable, size, version_word
from zlayout.session.session import RolledBack

MAX_LISTED_FILES = 10


class RollbackTerminal(Asking):
    command = "rollback"

    def text(self, planned: Undo, done: RolledBack | None) -> str:
        if done is None:
            return "\n".join(shown(planned, verbose=self.console.verbose)) + "\n"
        return (
            f"\nRolled back in {version_word(planned.format)} {done.commit.version}: "
            f"{plural(done.commit.files_removed, 'file')} removed, {plural(done.commit.files_added, 'file')} returned. "
            "zlayout plan shows what the layout needs now.\n"
        )

    def document(self, planned: Undo, done: RolledBack | None) -> dict[str, Any]:
        return as_document(planned, done)


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
