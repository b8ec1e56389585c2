"""Engine zlayout rewrites tables and measures trials on the oldest Spark. `make matrix` runs all versions."""

import pytest
from support.matrix import OLDEST, run

FILES = ("contract", "engine_check", "rollback", "trial")
CASES = "(TestEngines and zlayout-kd) or repartition or self_test or exact_files or published_rolled_back"


@pytest.mark.long  # make matrix has more
def test_the_contract_and_rollbacks_hold_with_the_oldest_spark() -> None:
    outcome = run(OLDEST, [f"tests/spark/test_{name}.py" for name in FILES], CASES)
    assert outcome.failed == ()
    assert outcome.passed >= 23
