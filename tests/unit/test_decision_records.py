"""Every decision record has its number, a status and a date, and is on the documentation site."""

import re
from pathlib import Path

import pytest

RECORDS = sorted((Path(__file__).parents[2] / "docs/adr").glob("*.md"))


@pytest.mark.parametrize("record", RECORDS, ids=lambda p: p.stem)
def test_a_record_begins_with_number_status_and_date(record: Path) -> None:
    number = record.name[:4]
    status = r"Status: (proposed|accepted|superseded by \d{4}), \d{4}-\d{2}-\d{2}"
    assert re.match(rf"# {number}: \S.*\n\n{status}\n\n", record.read_text())


def test_numbers_are_given_once() -> None:
    numbers = [record.name[:4] for record in RECORDS]
    assert len(numbers) == len(set(numbers))
