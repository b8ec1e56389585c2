"""Golden files: what a report looked like when a person last looked at it.

`ZLAYOUT_WRITE_GOLDEN=1 pytest tests/unit/report` writes them anew; then read the diff before you commit it.
"""

import os
from pathlib import Path

FOLDER = Path(__file__).parent / "golden"


def check(name: str, text: str) -> None:
    """Assert that the file `name` holds `text`."""
    path = FOLDER / name
    if os.environ.get("ZLAYOUT_WRITE_GOLDEN"):
        FOLDER.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
