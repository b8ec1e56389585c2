"""Write result files atomically."""

from __future__ import annotations

from pathlib import Path


def write_atomically(path: Path, text: str) -> None:
    """Write UTF-8 text to `path`; if that fails, `path` keeps its previous content. Raises OSError.

    Pipes and devices such as /dev/stderr cannot be replaced, so the text is written to them directly.
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
