"""Engine zlayout rewrites tables of both formats on the oldest Spark. `make matrix` runs all versions."""

from __future__ import annotations

from support.matrix import OLDEST, SUITES, run

CASES = "(TestEngines and zlayout-kd) or repartition or self_test"


def test_the_contract_holds_with_the_oldest_spark() -> None:
    outcome = run(OLDEST, (*SUITES["contract"], "tests/spark/test_engine_check.py"), CASES)
    assert outcome.failed == ()
    assert outcome.passed >= 20


def test_rollbacks_work_with_the_oldest_spark() -> None:
    outcome = run(OLDEST, ("tests/spark/test_rollback.py",), "exact_files")
    assert outcome.failed == ()
    assert outcome.passed == 2
