"""The tests that `make matrix` runs."""

from __future__ import annotations

from collections.abc import Mapping

_SPARK = "tests/spark/test_"
_CONTRACT = f"{_SPARK}contract.py::TestEngines::test_"
_ENGINES = ("delta-zlayout-kd", "iceberg-zlayout-kd", "delta-native-zorder", "iceberg-native-zorder")
# The tests that depend most on Spark and on the format, few enough for many combinations. A file is in one suite.
SUITES: Mapping[str, tuple[str, ...]] = {
    "contract": (
        *(f"{_CONTRACT}apply_reaches_the_layout_and_the_next_plan_is_empty[{engine}]" for engine in _ENGINES),
        *(f"{_CONTRACT}new_partitioning[{engine}]" for engine in _ENGINES[:2]),
    ),
    "placement and gate": (
        f"{_SPARK}rewrite_place.py::test_every_curve_is_placed_by_table_and_by_walk",
        f"{_SPARK}rewrite_place.py::test_no_look_up_leaves_generated_code",
        *(
            f"{_SPARK}rewrite_place.py::test_every_orderable_type_is_placed_as_numpy_does[{kind}-kd]"
            for kind in ("double", "decimal(38,4)", "date", "timestamp_ntz", "string", "binary")
        ),
        f"{_SPARK}leaf_order.py::test_rows_are_ordered_by_leaf_value_and_source",
        f"{_SPARK}leaf_order.py::test_the_sort_key",
        f"{_SPARK}leaf_order.py::test_the_value_is_searched_once_in_code_that_hotspot_compiles",
        f"{_SPARK}rewrite_gate.py::test_hash_is_the_sum_of_the_rows_hashes_modulo_2_to_the_64",
        f"{_SPARK}rewrite_gate.py::test_a_lost_row_and_a_changed_row_are_refused",
        f"{_SPARK}rewrite_gate.py::test_two_rows_that_change_groups_are_refused",
    ),
    "conflicts": (
        f"{_SPARK}delta_conflicts.py::test_a_concurrent_delete_without_vectors_drops_just_the_group_it_touched",
        f"{_SPARK}iceberg_conflicts.py::test_a_concurrent_rewrite_of_files_is_a_conflict_and_an_append_is_kept[3]",
    ),
    "rebases": (f"{_SPARK}delta_rebase.py", f"{_SPARK}iceberg_rebase.py"),
    "commits and row ids": (
        f"{_SPARK}delta_commit.py::test_pinned_files_are_found_with_their_deletion_vectors_or_not_at_all",
        f"{_SPARK}iceberg_commit.py::test_rewrite_applies_deletes_and_keeps_lineage",
        f"{_SPARK}iceberg_commit.py::test_row_ids_of_orc_files_stay_where_the_table_reads_them_by_column",
        f"{_SPARK}iceberg_commit.py::"
        "test_sequence_numbers_of_files_from_before_row_ids_are_kept_or_the_table_is_refused",
    ),
    "bulk commits": (
        f"{_SPARK}delta_add_files.py::test_changes_replace_their_fields_and_keep_all_others",
        f"{_SPARK}delta_add_files.py::test_fields_are_read_in_the_order_of_the_files",
        f"{_SPARK}delta_add_files.py::test_removals_are_those_of_delta",
        f"{_SPARK}commit_calls.py::test_delta[gate]",
        f"{_SPARK}commit_calls.py::test_iceberg",
        f"{_SPARK}iceberg_content_files.py",
    ),
    "clustered, branches, trial, rollback": (
        f"{_SPARK}clustered.py::test_a_clustered_table_is_laid_out_by_its_own_optimize",
        f"{_SPARK}branches.py::test_a_branch_is_laid_out_and_main_is_not_touched",
        f"{_SPARK}trial.py::test_a_trial_is_measured_published_rolled_back_and_dropped",
        f"{_SPARK}rollback.py::test_iceberg_returns_to_the_exact_files_and_plan",
    ),
    "capabilities": (f"{_SPARK}capabilities.py",),
    "connect": (f"{_SPARK}connect.py",),
}
# One curve of engine zlayout: the others differ on the driver alone.
FAST = "not workload and not zorder- and not hilbert- and not linear-"
