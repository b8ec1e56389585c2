"""The statements of SECURITY.md and docs/promises.md, each with the tests that fail if it is not true.

`test_statements.py` compares this table with both pages. Paths are relative to `tests`.
"""
# ruff: noqa: E501 - a statement is one line, as in the table of the page

SECURITY: dict[str, dict[str, tuple[str, ...]]] = {
    "Code": {
        "Layouts are data: no YAML tags, no variables, no code. `where` accepts only listed constructs": (
            "hostile/test_yaml_files.py::test_valid_files_with_something_wrong",
            "hostile/test_predicates.py::test_tokens_in_any_order",
        ),
        "Plan files and workload files are parsed and never run. `apply` and `plan --reviewed` plan again, and do nothing that this new plan does not say": (
            "hostile/test_plan_files.py::test_apply_does_nothing_that_the_tables_own_plan_does_not_say",
            "hostile/test_plan_files.py::test_a_reviewed_plan_adds_nothing_to_the_tables_own_plan",
            "hostile/test_workloads.py::test_statements_of_any_words",
        ),
        "`spark.conf` of `zlayout.yaml` accepts only listed settings. None of them runs a script or loads a class that is not listed by name": (
            "hostile/test_spark_conf.py::test_what_runs_code_or_loosens_a_check_is_refused_with_a_way_out",
            "hostile/test_allowed_settings.py::test_no_name_is_that_of_a_class_a_command_a_file_or_another_host",
            "hostile/test_allowed_settings.py::test_no_type_accepts_a_hostile_value_that_it_does_not_want",
            "spark/test_settings_run_no_code.py::test_settings_of_a_project_run_no_code",
        ),
        "`properties` of a catalog accept only the listed properties of its format and type": (
            "hostile/test_catalog_properties.py::test_a_property_that_is_not_in_the_list_is_refused_with_a_way_out",
            "hostile/test_catalog_properties.py::test_properties_belong_to_their_type",
        ),
        "A `uri` of type sql passes no driver, class, file or host of its own to SQLAlchemy or JDBC": (
            "hostile/test_catalog_properties.py::test_a_uri_that_a_driver_reads_in_its_own_way_is_refused",
        ),
        "No response of an Iceberg REST server and no property of a table makes Python import a class": (
            "hostile/test_iceberg_servers.py::test_every_place_where_pyiceberg_imports_by_name_is_known",
            "hostile/test_iceberg_servers.py::test_no_response_of_a_server_imports_a_class",
            "hostile/test_iceberg_servers.py::test_no_table_property_imports_a_class",
        ),
        "Catalogs are defined by `zlayout.yaml` alone: `.pyiceberg.yaml` and variables of pyiceberg have no effect": (
            "hostile/test_iceberg_servers.py::test_nothing_but_zlayout_yaml_defines_a_catalog",
        ),
        "Modules, scripts and configuration files that lie in the project's folder, or above it, are not run": (
            "hostile/test_planted_files.py::test_modules_of_the_project_are_not_imported",
            "hostile/test_planted_files.py::test_spark_starts_from_its_own_folder",
        ),
        "A `zlayout.yaml` that another user may have put there is not used unless it is named": (
            "hostile/test_other_users.py::test_no_command_uses_it_from_a_folder_below",
            "hostile/test_other_users.py::test_it_is_not_used_in_the_shared_folder_itself_unless_it_is_named",
        ),
        "A SQLite file from a checkout runs nothing and deletes no other file, and an endless query in it ends": (
            "hostile/test_sqlite_files.py::test_a_history_with_another_schema_is_neither_read_nor_written",
            "hostile/test_sqlite_files.py::test_a_journal_deletes_no_other_file",
            "hostile/test_sqlite_files.py::test_a_catalog_with_another_schema_is_not_used",
            "hostile/test_sqlite_files.py::test_an_endless_query_ends_after_a_limit_and_after_a_signal",
        ),
        "Spark replaces no variable in names, values and conditions, also in a session of the caller that does": (
            "spark/test_substitution.py::test_a_session_of_zlayout_replaces_nothing",
            "spark/test_substitution.py::test_nor_does_a_clone_of_a_session_that_does",
        ),
        "No `${...}` is left in a value of `zlayout.yaml` that Spark or Hadoop would replace": (
            "hostile/test_spark_conf.py::test_no_variable_is_left_for_spark_and_hadoop_to_replace",
            "hostile/test_spark_conf.py::test_no_variable_comes_from_the_name_of_the_folder",
        ),
        "`changed:REV` runs no command that the configuration, the hooks or the files of a Git repository name, and "
        "fetches nothing": (
            "hostile/test_git.py::test_nothing_that_the_repository_names_is_run",
            "hostile/test_git.py::test_the_files_of_a_bare_repository_in_the_project_are_no_repository",
        ),
        "Names in quotes stay names in SQL": ("hostile/test_predicates.py::test_names_in_quotes_stay_names",),
        "A jar that zlayout adds to Spark is compared with a SHA-256 sum in the package before a JVM loads it. `~/.m2` is no source": (
            "hostile/test_jars.py::test_a_changed_jar_ends_the_start_before_a_jvm_loads_it",
            "hostile/test_jars.py::test_a_jar_of_a_local_maven_repository_is_not_used",
            "hostile/test_jars.py::test_a_mirror_that_the_environment_names_is_the_only_source",
            "unit/spark/test_quick_start.py::test_a_changed_one_is_deleted_and_written_again",
        ),
    },
    "Credentials": {
        "A REST server chooses no host for the storage credentials of this machine. A host that it names together with credentials gets these alone": (
            "hostile/test_iceberg_servers.py::test_a_server_chooses_no_host_for_the_credentials_of_this_machine",
            "hostile/test_iceberg_servers.py::test_a_host_with_credentials_of_the_server_gets_these_alone",
            "spark/test_rest_access.py::test_a_server_that_deceives_spark_alone_gets_no_file_and_no_credentials",
        ),
        "No redirect of an Iceberg REST server is followed, and its requests get no password of `~/.netrc`": (
            "hostile/test_iceberg_servers.py::test_no_redirect_of_a_server_is_followed",
            "hostile/test_iceberg_servers.py::test_no_password_of_netrc_is_sent_with_the_request_for_a_token",
        ),
        "In a session that zlayout starts, a REST server that answers Spark differently chooses no address for the token, no class and no login": (
            "spark/test_rest_servers.py::test_a_server_chooses_no_address_for_the_token",
        ),
        "Properties and locations of a table choose no host": (
            "hostile/test_iceberg_servers.py::test_a_table_property_chooses_no_host",
            "hostile/test_iceberg_servers.py::test_a_location_chooses_no_host_outside_azure",
        ),
        "Addresses in `zlayout.yaml` are https, on this machine, or allowed explicitly. Only hosts of Azure get credentials of Azure": (
            "hostile/test_catalog_properties.py::test_plain_http_to_another_machine_needs_consent",
            "hostile/test_catalog_properties.py::test_only_azure_gets_credentials_of_azure",
        ),
        "Unity Catalog cannot redirect the token, the login of a service principal or a request for credentials to another host": (
            "hostile/test_limits.py::test_a_redirect_does_not_carry_the_token_to_another_host",
            "hostile/test_limits.py::test_a_redirect_carries_neither_a_login_nor_credentials_to_another_host",
            "spark/test_unity_credentials.py::test_a_redirect_gets_neither_a_login_nor_credentials",
        ),
        "With `vended_credentials`, files of a table are accessed with the credentials that Unity Catalog issues for it, and with no others of this machine": (
            "spark/test_unity_credentials.py::test_a_table_is_planned_sampled_and_rewritten",
            "spark/test_unity_credentials.py::test_two_tables_of_one_bucket_at_the_same_time_and_a_rollback",
        ),
        "A secret that is written into `zlayout.yaml` is an error that does not show it": (
            "hostile/test_secrets.py::test_a_secret_in_the_file_is_an_error_that_does_not_show_it",
        ),
        "Values of secrets are removed from errors and logs of libraries, in time proportional to their length": (
            "hostile/test_secrets.py::test_whatever_a_library_says",
            "hostile/test_secrets.py::test_what_libraries_write_about_a_request",
            "hostile/test_secrets.py::test_tokens_known_by_their_form",
            "hostile/test_secrets.py::test_the_time_is_proportional_to_the_length",
        ),
    },
    "Files": {
        "Files outside of a table's location are neither read nor rewritten, unless `file_locations` in `zlayout.yaml` permits them": (
            "hostile/test_files_outside.py::test_delta_paths_of_other_tenants",
            "hostile/test_files_outside.py::test_deletion_vectors_of_other_tenants",
            "hostile/test_files_outside.py::test_footers_outside_are_not_read",
            "hostile/test_files_outside.py::test_sidecars_outside_of_the_log",
            "hostile/test_files_outside.py::test_iceberg_data_files_of_other_tenants",
            "hostile/test_files_outside.py::test_iceberg_would_write_to_other_tenants",
            "hostile/test_files_outside.py::test_the_metadata_of_another_table_is_not_read",
            "hostile/test_files_outside.py::test_a_manifest_of_another_table_is_not_read",
            "spark/test_files_outside.py::test_a_delta_log_cannot_name_files_of_another_tenant",
            "spark/test_files_outside.py::test_an_iceberg_manifest_cannot_name_files_of_another_tenant",
        ),
        "A commit deletes no file that the metadata of an Iceberg table names": (
            "spark/test_files_outside.py::test_a_commit_deletes_no_file_that_the_metadata_of_an_iceberg_table_names",
        ),
        "Engine native replaces no file that the plan does not cover without reporting it": (
            "spark/test_delta_native.py::test_files_beyond_the_plan_that_optimize_replaces_are_an_error",
            "spark/test_iceberg_native.py::test_files_beyond_the_plan_that_the_action_replaces_are_an_error",
        ),
        "Plans, reports and layouts are written through no symbolic link": (
            "hostile/test_written_files.py::test_a_planted_link_is_refused_by_name",
            "hostile/test_written_files.py::test_a_planted_folder_is_refused_by_name",
            "hostile/test_written_files.py::test_every_other_writer_is_known",
        ),
    },
    "Output": {
        "Names are data in every report: they are escaped, and contain no control character and no command of a CI system": (
            "hostile/test_reports.py::test_every_format_holds_any_name",
            "hostile/test_reports.py::test_a_page_holds_any_name",
            "hostile/test_reports.py::test_the_terminal_gets_no_escape_of_a_plan_file",
        ),
        "Each reader of untrusted bytes has a limit before it parses, also after decompression": (
            "hostile/test_limits.py::test_every_reader_has_a_limit_or_a_reason",
            "hostile/test_limits.py::test_packed_workloads",
            "hostile/test_limits.py::test_checkpoints",
            "hostile/test_iceberg_servers.py::test_a_metadata_file_that_is_too_large_is_not_parsed",
            "hostile/test_iceberg_servers.py::test_an_avro_block_that_is_too_large_is_not_read",
            "hostile/test_avro_files.py::test_no_manifest_leads_out_of_its_bytes",
            "hostile/test_iceberg_servers.py::test_a_response_that_is_too_large_is_not_parsed",
        ),
    },
    "Pull requests and releases": {
        "The action and the workflows run no file of a pull request with secrets, and install packages by hash": (
            "sequences/test_ci_templates.py::test_the_action_installs_locked_packages_and_runs_no_file_of_the_checkout",
            "sequences/test_workflows.py::test_files_of_a_pull_request_run_no_code_and_are_not_posted",
            "sequences/test_ci_templates.py::test_files_of_a_merge_request_run_no_code_and_are_not_posted",
        ),
        "Plans that runs of forks stored are not used, and no stored plan decides what is done": (
            "sequences/test_merges.py::test_a_fork_is_told_what_happens_and_its_plan_is_not_used",
            "sequences/test_merges.py::test_a_hostile_artifact_is_an_unreviewed_plan",
        ),
        "What is posted as a comment was made by the same run": (
            "sequences/test_workflows.py::test_a_committed_report_is_not_posted_if_no_plan_was_made",
        ),
        "Names of branches and tables are not run by a shell": (
            "sequences/test_ci_templates.py::test_names_of_branches_are_not_run",
            "sequences/test_workflows.py::test_names_of_tables_are_not_run",
        ),
        "Actions are pinned to commits, and packages to versions with hashes. A release needs no stored secret": (
            "sequences/test_pins.py::test_locks_pin_versions_with_hashes",
            "sequences/test_pins.py::test_the_credentials_of_a_release_are_those_of_an_environment",
        ),
    },
}

# The promises of docs/promises.md by number, with the test files and folders that check them.
PROMISES: dict[int, tuple[str, ...]] = {
    1: (
        "spark/test_rewrite_gate.py",
        "spark/faults/test_replay.py",
        "spark/faults/test_new_files.py",
        "spark/test_delta_native.py",
        "spark/test_delta_partition_values.py",
        "spark/test_compaction.py",
        "spark/test_iceberg_types.py",
        "spark/test_delta_types.py",
        "model",
        "spark/test_trial.py",
    ),
    2: (
        "spark/faults/test_replay.py",
        "model",
        "spark/test_iceberg_equality.py",
        "spark/test_delta_conflicts.py",
        "spark/test_iceberg_conflicts.py",
        "spark/test_compaction.py",
        "spark/test_rollback.py",
        "spark/test_trial.py",
    ),
    3: (
        "spark/test_iceberg_commit.py",
        "spark/test_delta_commit.py",
        "spark/kills/test_kills.py",
        "spark/test_branches.py",
        "model",
        "spark/test_substitution.py",
        "spark/test_files_outside.py",
        "spark/test_iceberg_native.py",
    ),
    4: (
        "spark/faults/test_replay.py",
        "spark/test_delta_conflicts.py",
        "spark/test_iceberg_equality.py",
        "spark/test_iceberg_types.py",
        "spark/test_rollback.py",
    ),
    5: (
        "spark/kills/test_kills.py",
        "spark/faults/test_store_kills.py",
        "spark/kills/test_rollback_kills.py",
        "spark/faults/test_rest_kills.py",
        "spark/faults/test_dynamodb_commits.py",
    ),
    6: (
        "spark/faults/test_lost_answer.py",
        "spark/faults/test_store_faults.py",
        "spark/test_delta_outcome.py",
        "unit/formats/kernel/test_outcome.py",
    ),
    7: (
        "contract.py",
        "sequences/test_histories.py",
        "sequences/test_reconciler_memory.py",
        "spark/test_reconciler_native.py",
        "spark/test_rarely_read.py",
        "unit/planner/test_packing.py",
    ),
    8: (
        "spark/test_engine_check.py",
        "unit/formats/test_delta_observe.py",
        "spark/test_iceberg_types.py",
        "spark/test_iceberg_scenarios.py",
        "spark/test_iceberg_commit.py",
        "spark/test_delta_partition_values.py",
        "hostile",
    ),
}
