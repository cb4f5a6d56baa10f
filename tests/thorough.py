"""Tests that ``make test-all`` runs and ``make test`` does not: what they cost is more than what they alone would find.

The costs are CPU seconds of one run, from ``artifacts/*.costs``; ``docs/internals/tests.md`` says how they are chosen.
A name is the beginning of a test's id. :data:`OF_EVERY_COMMIT` is taken out of :data:`THOROUGH` again.
"""

from __future__ import annotations

_ENGINE = "tests/integration/engine/test_"
_KUBEAPI = "tests/integration/kubeapi/"
_PROTOCOL = "tests/integration/protocol/test_"
_LOST_SUBTASK = (
    f"{_PROTOCOL}open_checkpoints.py::test_a_subtask_that_is_lost_behind_the_barrier_is_replaced_and_reads_the_plan["
)
_PIPELINING = f"{_PROTOCOL}pipelining.py::test_an"
_IN_PLACE = f"{_PROTOCOL}rescale_in_place.py::test_an"
_RESTORE = "tests/integration/checkpoint/test_restore.py::test_a_crash_"
_MATRIX = "tests/integration/faults/test_matrix.py::test_nothing_is_lost_or_twice["

THOROUGH = (
    # On the cluster test_life.py has one job for all.
    "tests/e2e/",
    # Every engine and pace has a story with a crash; the others vary what the job does.
    f"{_ENGINE}arrow_function",
    f"{_ENGINE}cut_partitions",
    f"{_ENGINE}dropped_records",
    f"{_ENGINE}end_of_stream",
    f"{_ENGINE}continuous.py::test_an_orderly_end_sends_everything[AtLeastOnce]",
    f"{_ENGINE}failing_plans",
    f"{_ENGINE}failing_record",
    f"{_ENGINE}group_membership",
    f"{_ENGINE}idle",
    f"{_ENGINE}jvm",
    f"{_ENGINE}large_records",
    f"{_ENGINE}letters_apart.py::test_a_shuffle",
    f"{_ENGINE}letters_apart.py::test_avro",
    f"{_ENGINE}letters_apart.py::test_windows",
    f"{_ENGINE}load",
    f"{_ENGINE}local_pace",
    f"{_ENGINE}metrics",
    f"{_ENGINE}power_loss",
    f"{_ENGINE}python_workers",
    f"{_ENGINE}record_errors",
    f"{_ENGINE}record_sizes",
    f"{_ENGINE}refused_records",
    f"{_ENGINE}repartition",
    f"{_ENGINE}rescale_in_place",
    f"{_ENGINE}restore",
    f"{_ENGINE}semantics",
    f"{_ENGINE}sink",
    f"{_ENGINE}source",
    f"{_ENGINE}state_",
    f"{_ENGINE}stateful",
    f"{_ENGINE}traces.py::test_a_committed",
    f"{_ENGINE}transform_errors",
    f"{_ENGINE}transforms",
    f"{_ENGINE}two_clusters",
    f"{_ENGINE}unschedulable",
    f"{_ENGINE}user_modules",
    # A cell of each kind of fault stays.
    _MATRIX,
    "tests/integration/faults/test_matrix.py::test_a_driver_that_was_overtaken",
    # Attacks from outside with real Spark, and floods of requests.
    f"{_KUBEAPI}security/test_allowed_names",
    f"{_KUBEAPI}security/test_attempt_secrets",
    f"{_KUBEAPI}security/test_no_leak",
    f"{_KUBEAPI}security/test_operator.py::test_each_granted_verb",
    f"{_KUBEAPI}security/test_operator.py::test_only_selected_namespaces",
    f"{_KUBEAPI}security/test_spark_ports",
    f"{_KUBEAPI}test_blue_green.py::test_a_revision_takes_over_before_the_old_pod_is_gone[",
    f"{_KUBEAPI}test_namespaces",
    f"{_KUBEAPI}test_noisy_neighbours",
    f"{_KUBEAPI}test_refused_executors",
    # Another API server, and two drivers.
    f"{_KUBEAPI}test_two_kubernetes",
    # Three brokers, or minutes of waiting.
    f"{_PROTOCOL}durability",
    f"{_PROTOCOL}stale_coordinator",
    f"{_PROTOCOL}namings",
    # Tables of crashes: of each story a few cells stay.
    f"{_PROTOCOL}crashes.py::test_C07_P11_a_job_that_is_to_fail_when_a_transaction_was_lost[",
    f"{_PROTOCOL}crashes.py::test_a_job_that_was_down_for_longer_than_its_transactions_live[",
    f"{_PROTOCOL}local_subtasks.py::test_kills_and_freezes[",
    _LOST_SUBTASK,
    f"{_PROTOCOL}open_checkpoints.py::test_an_attempt_ends_behind_the_barrier[",
    f"{_PIPELINING}_attempt_ends_with_two_checkpoints_under_way[",
    f"{_PIPELINING}other_subtask_does_the_work",
    f"{_IN_PLACE}_attempt_ends_in_it",
    f"{_IN_PLACE}y_sequence_of_changes_and_ends[SubtaskAndSlot",
    f"{_PROTOCOL}two_clusters",
    _RESTORE,
    f"{_PROTOCOL}crashes.py::test_I05",
    "tests/conformance/test_s_offset_commits.py::test_S37_a_group_that_may_not_be_written",
    "tests/conformance/test_t_transactions.py::test_T02_broker_failure_before_notify",
    "tests/integration/bench/",
    # The protocol's story of it stays.
    "tests/integration/cli/test_hanging_transactions",
    # Spark for each of its sources of state.
    "tests/integration/cli/test_state_rows",
    # A JVM each; test_micro_batch.py has the engine's part of them, and the guide a run of pytest.
    "tests/integration/laptop/test_dev.py::test_code_job_and_input_are_read_again[python]",
    "tests/integration/laptop/test_dev_broker",
    "tests/integration/laptop/test_templates",
    "tests/integration/laptop/test_release_files",
    "tests/integration/laptop/test_tutorial",
    # The other test of the file has a join.
    "tests/integration/laptop/test_validate.py::test_an_operator_that_never_forgets",
    # A browser of 300 MB.
    "tests/integration/cli/test_console_page",
    "tests/integration/dataplane/test_no_memory",
    "tests/integration/dataplane/test_sanitizers",
    "tests/integration/docs/",
    "tests/integration/formats/",
    "tests/integration/security/test_exactly_once",
    "tests/integration/security/test_no_leak",
    "tests/integration/security/test_refusals",
    "tests/integration/security/test_rotation",
    "tests/integration/security/test_sessions",
    "tests/integration/sink/test_broken_broker",
    "tests/integration/sink/test_never",
    "tests/integration/source/test_group_membership.py::test_a_session_that_expires",
)

OF_EVERY_COMMIT = (
    "tests/e2e/test_life.py",
    f"{_ENGINE}arrow_function.py::test_a_function_that_drops_and_multiplies",
    f"{_ENGINE}failing_plans.py::test_a_transform_with_a_shuffle",
    f"{_ENGINE}load.py::test_the_load_is_what_arrives_what_is_read_and_how_busy_subtasks_are[Continuous",
    f"{_ENGINE}local_pace.py::test_killed_drivers",
    f"{_ENGINE}record_errors.py::test_dead_letters_are_the_records_as_they_were",
    f"{_ENGINE}state_refusals",
    f"{_ENGINE}transforms.py::test_a_python_function_over_parsed_json",
    f"{_KUBEAPI}test_blue_green.py::test_a_revision_takes_over_before_the_old_pod_is_gone[None",
    f"{_PROTOCOL}crashes.py::test_C07_P11_a_job_that_is_to_fail_when_a_transaction_was_lost[after-flush-True",
    f"{_PROTOCOL}crashes.py::test_a_job_that_was_down_for_longer_than_its_transactions_live[between-commits",
    f"{_PROTOCOL}local_subtasks.py::test_kills_and_freezes[0",
    f"{_LOST_SUBTASK}task-has-produced",
    f"{_PROTOCOL}open_checkpoints.py::test_an_attempt_ends_behind_the_barrier[after-flush-freeze",
    f"{_PROTOCOL}open_checkpoints.py::test_an_attempt_ends_behind_the_barrier[between-commits-kill",
    f"{_PIPELINING}_attempt_ends_with_two_checkpoints_under_way[ahead1",
    f"{_PIPELINING}other_subtask_does_the_work_of_one_that_has_no_place[True-task-has-produced",
    f"{_IN_PLACE}_attempt_ends_in_it[SubtaskAndSlot",
    f"{_IN_PLACE}_attempt_ends_in_its_first_checkpoint_behind_it[Hint-b",
    f"{_IN_PLACE}_attempt_ends_in_its_first_checkpoint_behind_it[SubtaskAndSlot-after-flush",
    f"{_RESTORE}at_any_write_of_the_restore_neither_loses_nor_repeats_it[True-2",
    f"{_RESTORE}in_the_first_checkpoint_after_it_changes_nothing[True-between",
    f"{_PROTOCOL}two_clusters.py::test_an_attempt_that_is_killed_in_a_checkpoint[between-commits",
    f"{_MATRIX}broker-restarted-task-has-produced-down",
    f"{_MATRIX}transaction-coordinator-killed-after-write-same",
    f"{_MATRIX}continuous-sink-without-leader-and-driver-killed",
    f"{_MATRIX}continuous-driver-killed-between-commits",
    f"{_MATRIX}api-server-away-after-flush",
)


def is_thorough(test: str) -> bool:
    """Whether ``make test`` leaves it out.

    :param test: its id, as pytest has it.
    """
    return test.startswith(THOROUGH) and not test.startswith(OF_EVERY_COMMIT)
