"""Write files atomically."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from zlayout.errors import SpecError
from zlayout.reading import require_usable_path


def write_atomically(path: Path, text: str) -> None:
    """Write UTF-8 text to `path`; if that fails, `path` keeps its previous content. Raises OSError.

    A link is kept, and the file that it leads to is written. Pipes, devices, and links to a standard stream of this
    process, such as /dev/stderr, cannot be replaced, so the text is written to them directly.
    """
    require_usable_path(path)
    stream = _standard_stream(path)
    if stream is not None or (path.exists() and not path.is_file()):
        with open(path if stream is None else os.dup(stream), "w", encoding="utf-8") as opened:
            opened.write(text)
        return
    target = Path(os.path.realpath(path))
    part = target.with_name(target.name + ".part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def _standard_stream(path: Path) -> int | None:
    """Return the descriptor of stdout or stderr if `path` is a link to it, such as /dev/stdout."""
    if path.is_symlink() and path.exists():
        for descriptor in (1, 2):
            try:
                if os.path.samestat(path.stat(), os.fstat(descriptor)):
                    return descriptor
            except OSError:  # the caller has closed this stream
                continue
    return None


def hint_for(error: OSError, hint: str) -> str:
    """Return what to do after `error`: `hint`, unless the disk is full."""
    return "free space there" if error.errno in (errno.ENOSPC, errno.EDQUOT) else hint


def write_result(
    path: Path,
    text: str,
    code: str,
    what: str,
    hint: str = "check the folder and its permissions",
    *,
    make_folder: bool = False,
) -> None:
    """Write a file as `write_atomically` does.

    Args:
        path: The file.
        text: Its content.
        code: The code of the error.
        what: How the message of the error names the file.
        hint: The hint of the error.
        make_folder: Whether to create the folder of the file if it does not exist.

    Raises:
        SpecError: With `code`, the file cannot be written.
    """
    try:
        if make_folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text)
    except OSError as error:
        message = f"cannot write {what}: {error.strerror or error}"
        raise SpecError.of(code, message, hint=hint_for(error, hint)) from error
