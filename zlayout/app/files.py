"""Write result files as a whole or not at all."""

from __future__ import annotations

from pathlib import Path


def write_whole(path: Path, text: str) -> None:
    """Write UTF-8 text so that `path` has all of it, or its previous content if that fails. Raises OSError.

    Anything but a regular file (/dev/stderr, a pipe) is written to directly, since it cannot be replaced.
    """
    if path.exists() and not path.is_file():
        with path.open("w", encoding="utf-8") as stream:
            stream.write(text)
        return
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(text, encoding="utf-8")
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
