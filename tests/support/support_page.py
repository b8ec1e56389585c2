"""Makes docs/support.md from the results of `make matrix`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from support.matrix import Combination, Result

NOT_RUN = "not run"
_PROBE = "test_capabilities.test_"
_CAPABILITIES: Mapping[str, Mapping[str, str]] = {
    "Delta": {
        "engine zlayout": f"{_PROBE}engine_zlayout_runs[delta]",
        "engine native": "test_contract.TestEngines.test_apply_reaches_the_layout_and_the_next_plan_is_empty"
        "[delta-native-zorder]",
        "bulk commits": "test_commit_calls.test_delta[gate]",
        "deletion vectors": f"{_PROBE}features_of_delta_are_kept[deletion vectors]",
        "row ids (row tracking)": f"{_PROBE}features_of_delta_are_kept[row tracking]",
        "column mapping": f"{_PROBE}features_of_delta_are_kept[column mapping]",
        "in-commit timestamps": f"{_PROBE}features_of_delta_are_kept[in-commit timestamps]",
        "variant columns": f"{_PROBE}types_of_delta_are_kept_or_refused[variant]",
        "widened types": f"{_PROBE}widened_types_of_delta_are_kept",
        "collated strings": f"{_PROBE}types_of_delta_are_kept_or_refused[collation]",
        "liquid clustering": "test_clustered.test_a_clustered_table_is_laid_out_by_its_own_optimize",
        "new partitioning": "test_contract.TestEngines.test_new_partitioning[delta-zlayout-kd]",
        "rollback": f"{_PROBE}a_rewrite_of_delta_is_rolled_back",
    },
    "Iceberg": {
        "engine zlayout": f"{_PROBE}engine_zlayout_runs[iceberg]",
        "engine native": "test_contract.TestEngines.test_apply_reaches_the_layout_and_the_next_plan_is_empty"
        "[iceberg-native-zorder]",
        "position deletes (version 2)": "test_iceberg_commit.test_rewrite_applies_deletes_and_keeps_lineage[2]",
        "deletion vectors and row ids (version 3)": "test_iceberg_commit."
        "test_rewrite_applies_deletes_and_keeps_lineage[3]",
        "row ids of ORC files": "test_iceberg_commit."
        "test_row_ids_of_orc_files_stay_where_the_table_reads_them_by_column[zlayout]",
        "row ids after an upgrade to version 3": "test_iceberg_commit."
        "test_sequence_numbers_of_files_from_before_row_ids_are_kept_or_the_table_is_refused",
        "variant columns": f"{_PROBE}types_of_iceberg_are_kept_or_refused_variant",
        "geometry columns": f"{_PROBE}types_of_iceberg_are_kept_or_refused_geometry",
        "columns with a default value": f"{_PROBE}types_of_iceberg_are_kept_or_refused_default",
        "branches": "test_branches.test_a_branch_is_laid_out_and_main_is_not_touched",
        "branches, engine native": f"{_PROBE}engine_native_rewrites_a_branch_of_iceberg_or_refuses_it",
        "new partitioning": "test_contract.TestEngines.test_new_partitioning[iceberg-zlayout-kd]",
        "trial and publish": "test_trial.test_a_trial_is_measured_published_rolled_back_and_dropped",
        "rollback": "test_rollback.test_iceberg_returns_to_the_exact_files_and_plan[2]",
    },
    "Spark": {
        "checksums of shuffles": f"{_PROBE}shuffles_are_checked_by_checksums",
        "Connect, engine native": "test_connect.test_a_client_without_java",
    },
}
# The test whose result is shown, by the name of the capability.
CAPABILITIES: Mapping[str, str] = {
    f"{of}: {name}": test for of, tests in _CAPABILITIES.items() for name, test in tests.items()
}
_TEXT = """\
This page lists the combinations of Spark, Delta and Iceberg that were tested, and what works with each of them.
`make matrix` writes it: it runs tests of both engines with each combination, and counts those that passed, among the
tests that existed on that day. Iceberg has no jar for Spark 4.2, so only Delta is tested with it."""
_LEGEND = """\
The columns are the combinations of the first table, and each cell is the result of the run:

- `yes`: zlayout did it, and rows, row ids and deletes were as before.
- A code: zlayout refused it with this [error](errors.md) before it wrote anything.
- `no`: this version of Spark or of the format cannot create such a table, or has no such check.
- `-`: it was not run."""


def page(results: Sequence[tuple[Combination, Result | None]], suites: Iterable[str], platforms: Iterable[str]) -> str:
    """Return docs/support.md.

    Args:
        results: Each combination, with its result unless it was never run.
        suites: The names of the suites, in the order of the columns.
        platforms: The lines on other tools, see `support.platforms`.
    """
    names = list(suites)
    numbers = range(1, len(results) + 1)
    failed = [
        f"- {number}: `{name}`"
        for number, (_, result) in zip(numbers, results, strict=True)
        if result is not None
        for outcome in result.suites.values()
        for name in outcome.failed
    ]
    return "\n".join(
        [
            "# Supported versions",
            "",
            _TEXT,
            "",
            f"| | Spark | Delta | Iceberg | {' | '.join(names)} | run on |",
            f"|---|---|---|---|{'---|' * len(names)}---|",
            *(_counts(number, *each, names) for number, each in zip(numbers, results, strict=True)),
            "",
            "## What each combination can do",
            _LEGEND,
            "",
            f"| | {' | '.join(map(str, numbers))} |",
            f"|---|{'---|' * len(numbers)}",
            *(f"| {name} | {' | '.join(_cell(result, name) for _, result in results)} |" for name in CAPABILITIES),
            "",
            *platforms,
            "## Tests that failed",
            *(failed or ["None."]),
            "",
        ]
    )


def _counts(number: int, combination: Combination, result: Result | None, suites: Iterable[str]) -> str:
    scala = f", Scala {combination.scala}" if combination.scala else ""
    outcomes = [result.suites.get(name) if result else None for name in suites]
    counts = (NOT_RUN if o is None else f"{o.passed} of {o.passed + len(o.failed)}" for o in outcomes)
    versions = f"{combination.spark}{scala} | {combination.delta} | {combination.iceberg or 'none'}"
    return f"| {number} | {versions} | {' | '.join(counts)} | {result.day if result else ''} |"


def _cell(result: Result | None, capability: str) -> str:
    answer = result.answers.get(capability, NOT_RUN) if result else NOT_RUN
    return "-" if answer in (NOT_RUN, "skipped") else answer
