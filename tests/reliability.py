"""How much the reliability tests tried: counted while they run, kept in build/reliability.json.

`make check` starts the file anew; each pytest run adds its counts to those that are there. A violation is a promise of
docs/promises.md that a case broke; the test that saw it fails as well.
"""

import json
from collections import Counter
from pathlib import Path

REPORT = Path(__file__).parents[1] / "build" / "reliability.json"
NAMES = (
    "schedules_model", "schedules_real", "kills", "faults", "bad_inputs", "mutants_killed", "mutants_total",
    "violations",
)  # fmt: skip
_counted: Counter[str] = Counter()


def count(name: str, number: int = 1) -> None:
    """Add to one of NAMES."""
    if name not in NAMES:
        raise KeyError(name)
    _counted[name] += number


def counted() -> dict[str, int]:
    """What this process counted."""
    return dict(_counted)


def summary() -> dict[str, int] | None:
    """Merge what this run counted into the report; the whole report, None when this run counted nothing."""
    if not _counted:
        return None
    before = json.loads(REPORT.read_text()) if REPORT.exists() else {}
    whole = {name: before.get(name, 0) + _counted[name] for name in NAMES}
    REPORT.parent.mkdir(exist_ok=True)
    REPORT.write_text(json.dumps(whole, indent=1) + "\n")
    return whole
