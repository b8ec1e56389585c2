"""Write files atomically, and never through a symbolic link. Every file that a command leaves behind is written here.

A checkout of a pull request can contain links. If a report was written through one, the pull request would choose
which file of the user is overwritten. (The history is a database, which `zlayout.history_records` writes.)
"""

from __future__ import annotations

import errno
import os
import re
import secrets
import stat
from pathlib import Path

from zlayout.errors import SpecError
from zlayout.reading import require_usable_path

# The paths of the open files of this process, which are links to them. The name of a stream or its number is a group.
_DESCRIPTOR = re.compile(r"/(?:dev/(stdout|stderr)|(?:dev|proc/self)/fd/([0-9]{1,6}))")
_STREAMS = {"stdout": 1, "stderr": 2}
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)


def write_atomically(path: Path, text: str, *, within: Path | None = None, make_folder: bool = False) -> None:
    """Write UTF-8 text to `path`; if that fails, `path` keeps its previous content.

    The text is written to a new file with a random name in the same folder, which then replaces `path`. Its mode is
    that of the umask, without the permissions that the replaced file does not grant. Pipes, devices and the open files
    of this process, such as /dev/stderr, cannot be replaced, so the text is written to them directly.

    Args:
        path: The file.
        text: Its content.
        within: A folder above `path`. No folder between the two may be a link. Default: the working directory, if it is
            above `path`.
        make_folder: Whether to create the folder of the file if it does not exist.

    Raises:
        SpecError: ZL086, `path` is a link, or a folder below `within` is one.
        OSError: The file cannot be written.
    """
    require_usable_path(path)
    if (descriptor := _open_descriptor(path)) is not None:
        _write(descriptor, text)
        return
    _require_no_links(path, within)
    if make_folder:
        path.parent.mkdir(parents=True, exist_ok=True)
    mode = _mode(path)
    if mode is not None and not stat.S_ISREG(mode):
        _write(os.open(path, os.O_WRONLY | _NO_FOLLOW), text)
        return
    part = path.parent / f".zlayout-{secrets.token_hex(8)}.part"
    allowed = 0o666 if mode is None else mode & 0o666
    created = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _NO_FOLLOW, allowed)
    try:
        _write(created, text, synchronised=True)
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def append(path: Path, text: str) -> None:
    """Append UTF-8 text to a file, which is created if it does not exist. Raises as `write_atomically`."""
    require_usable_path(path)
    if (descriptor := _open_descriptor(path)) is None:
        _require_no_links(path, None)
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | _NO_FOLLOW, 0o666)
    _write(descriptor, text)


def _write(descriptor: int, text: str, *, synchronised: bool = False) -> None:
    with open(descriptor, "w", encoding="utf-8") as opened:
        opened.write(text)
        if synchronised:
            opened.flush()
            os.fsync(descriptor)


def _open_descriptor(path: Path) -> int | None:
    """A file to which stdout is redirected is not opened again, because the output would begin at its start."""
    found = _DESCRIPTOR.fullmatch(os.path.abspath(path))
    return None if found is None else os.dup(_STREAMS[found[1]] if found[1] else int(found[2]))


def _mode(path: Path) -> int | None:
    try:
        return os.lstat(path).st_mode
    except FileNotFoundError:
        return None


def _require_no_links(path: Path, within: Path | None) -> None:
    whole = Path(os.path.abspath(path))
    base = _working_directory(whole) if within is None else Path(os.path.abspath(within))
    folders = [folder for folder in whole.parents if folder.is_relative_to(base) and folder != base]
    for part in (*reversed(folders), whole):
        if part.is_symlink():
            what = "it is a symbolic link" if part == whole else f"the folder {part} is a symbolic link"
            hint = "name the target of the link instead, or remove the link; a link in a checkout can lead to any file"
            raise SpecError.of("ZL086", f"cannot write {path}: {what}", hint=hint)


def _working_directory(path: Path) -> Path:
    here = os.stat(os.curdir)
    for folder in list(path.parents)[-2::-1]:
        try:
            if os.path.samestat(folder.stat(), here):
                return folder
        except OSError:
            break
    return path.parent


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
    within: Path | None = None,
    make_folder: bool = False,
) -> None:
    """Write a file as `write_atomically` does.

    Args:
        path: The file.
        text: Its content.
        code: The code of the error.
        what: How the message of the error names the file.
        hint: The hint of the error.
        within: As in `write_atomically`.
        make_folder: As in `write_atomically`.

    Raises:
        SpecError: With `code`, the file cannot be written; ZL086, as in `write_atomically`.
    """
    try:
        write_atomically(path, text, within=within, make_folder=make_folder)
    except OSError as error:
        message = f"cannot write {what}: {error.strerror or error}"
        raise SpecError.of(code, message, hint=hint_for(error, hint)) from error
