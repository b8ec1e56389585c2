"""Comparison with golden files. `UPDATE_GOLDEN=1 pytest` writes them again: read them as a reviewer would.

`KEEP_TEXTS=FOLDER pytest` writes the texts as they are, with all numbers, into a folder.
"""

import os
import re
from pathlib import Path

# What depends on the version of the Parquet writer and on the machine: measured sizes, but not the declared ones.
SIZE = re.compile(r"(?<![`0-9])(?<![0-9]\.)[0-9]+(\.[0-9]+)? [KM]iB|[0-9]+,[0-9]{3}(?= instead| \(whole|\b)")
TIME = re.compile(r"(?<=about )[0-9.]+ (s|min)\b")
SNAPSHOT = re.compile(r"(?<=, snapshot )[0-9]+\)( *)")
COMMIT = re.compile(r"^(Compared with .*`)[0-9a-f]{12}`\.$", re.M)


def assert_golden(text: str, path: Path) -> None:
    """Compare a text with a golden file, without what differs from run to run."""
    found = COMMIT.sub(r"\g<1>000000000000`.", TIME.sub("N s", SIZE.sub("N KiB", text)))
    found = SNAPSHOT.sub("N) ", found)
    if folder := os.environ.get("KEEP_TEXTS"):
        Path(folder, path.name).write_text(text)
    if os.environ.get("UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True, parents=True)
        path.write_text(found)
    assert found == path.read_text()
