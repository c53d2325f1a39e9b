"""Where each attempt of the security review is repeated: by attacks, by tests, or documented.

Attacks name their attempts themselves. Below stand the tests that hold what needs more than a
running server, such as a killed one, and what works on purpose, with the page that says so.
"""

from __future__ import annotations

from collections.abc import Iterable

from redteam import Attack

COUNT = 100

TESTS: dict[int, tuple[str, ...]] = {
    2: ("properties/test_role_matrix.py::test_a_foreign_meter_does_not_exist",),
    3: ("properties/test_role_matrix.py::test_roles_at_ones_own_meter",),
    11: ("properties/test_role_matrix.py::test_a_scoped_token_does_no_more_than_it_says",),
    13: ("server/api/test_users.py::TestScopes::test_limit_admins",),
    15: ("server/api/test_users.py::TestPasswords::test_unknown_names_take_as_long",),
    17: ("server/test_serve.py::test_forwarded_headers_count_only_from_a_trusted_proxy",),
    25: ("server/test_middleware.py::test_host_is_checked_if_asked_for",),
    28: (
        "server/test_middleware.py::test_hsts_only_over_https",
        "server/web/test_tokens.py::TestCookies::test_are_kept_from_scripts_and_other_sites",
    ),
    39: (
        "service/test_backup.py::TestTheFile::test_a_manifest_signed_by_nobody_is_refused",
        "service/test_backup.py::TestTheFile::test_a_missing_or_additional_member_is_found",
    ),
    40: (
        "server/test_logs.py::test_log_has_one_line_per_request_and_no_secrets",
        "server/test_logs.py::test_other_libraries_do_not_log_what_they_saw",
    ),
    42: ("properties/test_races_at_a_server.py::test_postgresql_with_everything_killed",),
    43: ("properties/test_durability.py::test_four_processes_at_once",),
    45: ("server/api/test_users.py::TestTokens::test_revoked_by_another_server_acts_at_once",),
    54: (
        "tables/test_source.py::TestRefusals::test_a_byte_flipped_anywhere",
        "scoring/test_predictions.py::test_every_cut_and_every_flipped_byte_is_refused_or_read",
    ),
    64: ("scoring/test_escapes.py::test_no_other_kind_of_socket_can_be_made",),
    65: ("scoring/test_escapes.py::test_nothing_can_be_written_outside_of_tmp",),
    66: ("scoring/test_escapes.py::test_a_system_call_is_refused",),
    67: ("scoring/test_escapes.py::test_no_privilege_can_be_had",),
    69: (
        "scoring/test_escapes.py::test_a_fork_bomb_ends",
        "scoring/test_escapes.py::test_endless_output_ends",
        "scoring/test_escapes.py::test_files_are_limited_one_by_one_and_together",
    ),
    70: ("scoring/test_escapes.py::test_no_process_stays_behind",),
    71: ("scoring/test_escapes.py::test_memory_that_no_limit_counts_cannot_be_had",),
    73: ("scoring/test_escapes.py::test_a_file_that_all_can_read_carries_no_message",),
    74: (
        "service/submissions/test_running.py::"
        "test_a_validation_set_replaced_while_a_model_runs_does_not_make_it_free",
    ),
    75: (
        "service/submissions/test_running.py::test_no_answer_leaves_before_its_time",
        "service/submissions/test_running.py::test_how_long_a_model_takes_to_end_is_not_seen",
    ),
    76: ("server/test_settings.py::test_what_submitted_commands_could_read_is_refused",),
    78: ("scoring/test_escapes.py::test_all_failures_on_hidden_inputs_look_the_same",),
    79: ("scoring/test_answers.py::test_damaged_streams_are_read_or_refused",),
    80: (
        "scoring/test_onnx_model.py::TestOtherFiles::test_of_weights",
        "scoring/test_onnx_model.py::TestFailures::test_without_end",
    ),
    81: ("scoring/test_onnx_model.py::TestBombs::test_too_many_nodes",),
    82: ("scoring/test_sandbox.py::test_without_a_sandbox_nothing_is_run",),
    83: ("properties/test_durability.py::test_kill_9_at_a_few_random_moments",),
    84: ("properties/test_races_at_a_server.py::test_sqlite_with_a_server_that_is_killed",),
    85: ("scoring/test_sandbox.py::test_it_ends_with_the_meter_even_if_that_is_killed",),
    86: (
        "properties/test_durability.py::"
        "test_a_deleted_database_and_the_same_rows_sealed_again_reset_nothing",
    ),
}

DOCUMENTED: dict[int, tuple[str, str]] = {
    88: ("docs/security.md", "the last links are cut off *and* the journal is cut to match"),
    91: ("docs/security.md", "a second copy of the folder is used on its own"),
}
"""What works, and the page and words that say so."""

GONE: dict[int, str] = {
    33: "webhooks: a redirect, or an answer without an end, of an address that an admin gave",
    34: "webhooks: private addresses behind names that an admin gave",
    51: "a sparse tar that unpacks to gigabytes: no tar of a stranger is read",
}
"""What was attacked is no more."""


def missing(attacks: Iterable[Attack]) -> list[int]:
    """Return the attempts that nothing repeats."""
    named = {number for each in attacks for number in each.attempts}
    return [
        each for each in range(1, COUNT + 1) if each not in named | {*TESTS, *DOCUMENTED, *GONE}
    ]
