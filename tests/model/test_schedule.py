"""The explorer itself: it counts what it says it counts, and equal states do have equal futures."""

from collections.abc import Iterator
from math import comb, factorial

import pytest
from model.schedule import Intern, Process, Run, explore, learned, step
from model.worlds import Scenario, search, stand_ins

from zlayout.formats.base import Backend


class Log(list[str]):
    """Shared by processes that only append to it."""

    def __init__(self, intern: Intern) -> None:
        self._intern = intern

    @property
    def log_id(self) -> int:
        return self._intern.setdefault(tuple(self), len(self._intern) + 1)

    def missing(self) -> frozenset[str]:
        return frozenset()


def runs(steps: tuple[int, ...], ends: list[str], budget: int = 0, twin: int = -1, **how: bool) -> Iterator[Run]:
    intern: Intern = {}

    def begin() -> Run:
        log = Log(intern)

        def body(name: str, count: int) -> None:
            for _ in range(count):
                step("append")
                log.append(name)

        processes = [
            Process(name, lambda name=name, count=count: body(name, count), intern, lambda: None)
            for name, count in zip("abc", steps, strict=False)
        ]
        return Run(log, tuple(processes), budget, twin)

    return explore(begin, lambda run: ends.append("".join(run.shared)), **how)


def test_every_order_is_counted_and_reached() -> None:
    ends: list[str] = []
    found = runs((2, 3), ends)
    assert found.schedules == comb(5, 2)
    assert len(ends) == len(set(ends)) == 10


def test_steps_of_three_processes() -> None:
    ends: list[str] = []
    assert runs((2, 2, 2), ends).schedules == factorial(6) // 8


def test_crashes_are_counted_by_hand() -> None:
    """One process of two steps: it ends, or is killed before the first, or before the second."""
    ends: list[str] = []
    assert runs((2,), ends, budget=1).schedules == 3
    assert sorted(ends) == ["", "a", "aa"]


def test_twins_are_tried_in_one_order_first() -> None:
    ends: list[str] = []
    assert runs((1, 1), ends, twin=1).schedules == 1
    assert ends == ["ab"]


def test_a_step_outside_a_process_is_no_stop() -> None:
    assert step("anything", ("a fault",)) == "ok"
    learned("nothing")


@pytest.mark.parametrize(
    "scenario",
    [
        Scenario("delta", ("delete",), rewriters=1, faults=2, jobs_fail=True),
        Scenario("delta", ("delete", "update"), rewriters=1),
        Scenario("iceberg", ("equality",), rewriters=1, faults=2, jobs_fail=True),
        Scenario("iceberg", ("delete", "update"), rewriters=1),
    ],
    ids=str,
)
def test_the_count_is_that_of_schedules_executed_one_by_one(scenario: Scenario) -> None:
    with stand_ins():
        remembered, executed = search(scenario), search(scenario, remember=False)
    assert remembered.schedules == executed.schedules == executed.ends
    assert remembered.runs < executed.runs == executed.schedules


def test_the_models_satisfy_the_backends_protocol() -> None:
    from model.delta_backend import ModelDelta
    from model.iceberg_backend import ModelIceberg

    methods = {name for name in vars(Backend) if not name.startswith("_")}
    for model in (ModelDelta, ModelIceberg):
        assert all(hasattr(model, name) for name in methods)
