"""The keys of the JSON of rollback, publish and drop-trial are those that docs/reports.md lists."""

import re
from pathlib import Path

import pytest

from zlayout.cli.changes import DropTerminal, PublishTerminal, RollbackTerminal
from zlayout.formats.trial import Trial, TrialCommit
from zlayout.formats.undo import FILES, Undo
from zlayout.spec.model import TableName

REPORTS = Path(__file__).parents[3] / "docs/reports.md"
TABLE = TableName("ice", ("db",), "t", "new")
TRIAL = Trial(TABLE, "iceberg", "id", True, 1, 7, (TrialCommit(7, "replace", "r1", rewrite=True),))
UNDO = Undo(TABLE.on(""), "iceberg", "r1", (7,), 7, "id", "w/t", FILES.empty_table(), FILES.empty_table(), (), 1)


def test_a_rollback_is_represented_without_its_files() -> None:
    assert repr(UNDO) == "<Undo of run r1 of ice.db.t: removes 0 and returns 0 files>"


@pytest.mark.parametrize(
    ("command", "keys"),
    [
        ("rollback", RollbackTerminal.document(UNDO, None).keys()),
        ("publish", PublishTerminal.document(TRIAL, "published").keys()),
        ("drop-trial", DropTerminal.document(TRIAL, "dropped").keys()),
    ],
)
def test_the_page_lists_every_key(command: str, keys: set[str]) -> None:
    section = REPORTS.read_text().partition("## JSON of rollback")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (`.*?) \| (.*?) \| .* \|$", section, re.M)
    listed = {key for names, of in rows if of == "all" or f"`{command}`" in of for key in re.findall(r"`(\w+)`", names)}
    assert listed == set(keys)
