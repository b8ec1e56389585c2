"""Write result files atomically."""

from __future__ import annotations

from pathlib import Path

from zlayout.errors import SpecError
from zlayout.reading import require_usable_path


def write_atomically(path: Path, text: str) -> None:
    """Write UTF-8 text to `path`; if that fails, `path` keeps its previous content. Raises OSError.

    Pipes and devices such as /dev/stderr cannot be replaced, so the text is written to them directly.
    """
    require_usable_path(path)
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


def write_result(
    path: Path,
    text: str,
    code: str,
    what: str,
    hint: str = "check the folder and its permissions",
    *,
    make_folder: bool = False,
) -> None:
    """Write a file as `write_atomically`, and its folder on request.

    Raises:
        SpecError: With this code, the file cannot be written. what: how the message names it.
    """
    try:
        if make_folder:
            path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text)
    except OSError as error:
        raise SpecError.of(code, f"cannot write {what}: {error.strerror or error}", hint=hint) from error
