"""The model can fail: every deliberate defect breaks a promise in some schedule, and the promise that it should."""

from collections.abc import Iterator

import pytest
from model.mutant import Mutant
from model.mutants import MUTANTS
from model.schedule import Violation
from model.worlds import SCENARIOS, Scenario, search, stand_ins
from reliability import count


@pytest.fixture(scope="module", autouse=True)
def _stand_ins() -> Iterator[None]:
    with stand_ins():
        yield


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: f"{m.scenario.format}-{m.name}")
def test_a_defect_is_caught(mutant: Mutant) -> None:
    count("mutants_total")
    with pytest.raises(Violation) as found, mutant.installed():
        search(mutant.scenario)
    assert found.value.kind in mutant.kinds, (found.value, found.value.trace)
    count("mutants_killed")


@pytest.mark.parametrize(
    "scenario", [s for s in dict.fromkeys(m.scenario for m in MUTANTS) if s not in SCENARIOS], ids=str
)
def test_without_the_defect_nothing_is_found(scenario: Scenario) -> None:
    search(scenario)
