"""Refusals that the stories of the catalogue do not produce, and the tests that do."""

from __future__ import annotations

SERVER = "tests/wire/mcp/test_server.py"
ASKING = "tests/wire/oauth/test_asking_wrongly.py"
REGISTERING = "tests/wire/oauth/test_registering.py"
DOCUMENTS = "tests/wire/oauth/test_documents.py"
DOOR = "tests/wire/web/test_door.py"
COVERING = "tests/behaviour/coverage/test_covering.py"
READING = "tests/behaviour/coverage/test_reading.py"
COVERED = "tests/behaviour/repos/test_covered.py"
FEEDBACK = "tests/unit/feedback/test_feedback.py"
SENDING = "tests/unit/mail/test_sending.py"
PASSKEYS = "tests/wire/web/test_passkeys.py"
LOGINS = "tests/behaviour/github/test_logins.py"
ACCOUNTS = "tests/behaviour/github/test_accounts.py"
OVER_HTTP = "tests/behaviour/github/test_over_http.py"
REGISTRATION = "tests/behaviour/github/test_registration.py"
SIGN_ON = "tests/wire/web/test_single_sign_on.py"
AT_DOOR = "tests/behaviour/machines/test_door.py"
WHO_MAY = "test_who_may_is_looked_at_at_each_request"
LFS = "tests/behaviour/machines/test_lfs.py"
VERBS = "tests/behaviour/machines/test_verbs.py"
WRONG = "test_what_a_verb_is_asked_wrongly_is_told_and_goes_nowhere"
TROUBLE = "test_githubs_own_words_come_through_with_what_to_do"
SECRETS = "tests/unit/secrets/test_actions.py"
SECRETS_DECIDED = "tests/unit/secrets/test_decide.py"
SECRETS_PAGE = "tests/wire/web/test_secrets.py"
ELSEWHERE = {
    "secret_name": (SECRETS, "test_a_wrong_name_or_value_is_refused_to_all_alike"),
    "secret_name_taken": (SECRETS, "test_a_wrong_name_or_value_is_refused_to_all_alike"),
    "secret_value": (SECRETS, "test_a_wrong_name_or_value_is_refused_to_all_alike"),
    "secret_limit": (SECRETS, "test_of_many_who_set_at_once_exactly_as_many_as_may_be_are_kept"),
    "secrets_too_large": (SECRETS_DECIDED, "test_a_repository_has_so_many_secrets_of_so_many_bytes"),
    "no_such_secret": (SECRETS, "test_an_admin_sets_changes_and_removes_a_secret"),
    "secrets_unusable": (SECRETS, "test_a_vault_that_cannot_be_used_is_a_refusal_that_names_the_command"),
    "secret_which_repository": (
        SECRETS,
        "test_a_name_that_two_organizations_have_is_asked_about_on_the_command_line",
    ),
    "not_signed_in": (SECRETS_PAGE, "test_the_api_answers_nobody_who_is_not_signed_in"),
    "no_token_here": (SECRETS_PAGE, "test_the_api_takes_no_clients_token_not_even_an_admins"),
    "internal_error": (
        "tests/wire/mcp/test_server.py",
        "test_a_tool_that_fails_gives_an_id_and_nothing_of_the_failure",
    ),
    "nothing_sealed": ("tests/unit/records/test_actions.py", "test_where_nothing_was_recorded_there_is_no_checkpoint"),
    "unknown_tool": (SERVER, "test_a_call_of_no_tool_is_recorded_under_its_name_without_secrets"),
    "overloaded": (
        "tests/wire/mcp/test_many_waiting.py",
        "test_a_call_that_finds_no_connection_in_time_did_nothing_and_says_when_to_come_back",
    ),
    "invited_enough": (
        "tests/unit/invites/test_actions.py",
        "test_one_person_invites_so_often_in_a_day_from_however_many_teams",
    ),
    "invitation_sign_in": (
        "tests/unit/invites/test_actions.py",
        "test_an_invitations_link_signs_in_nobody_who_has_an_account_and_their_letter_holds_none",
    ),
    "invitation_limit": ("tests/unit/invites/test_actions.py", "test_a_teams_open_invitations_are_bounded"),
    "disabled": (DOOR, "test_who_was_put_out_has_no_page_and_no_link"),
    "link_over": (DOOR, "test_a_link_that_is_too_old_signs_nobody_in"),
    "sign_in_over": (
        "tests/unit/sessions/test_actions.py",
        "test_what_a_browser_began_is_ended_once_in_time_and_as_what_it_was",
    ),
    "no_such_session": (
        "tests/unit/sessions/test_actions.py",
        "test_a_person_ends_their_own_sessions_and_nobody_elses",
    ),
    "no_such_letter": (SENDING, "test_an_admin_has_a_letter_tried_anew_discards_it_and_opens_it"),
    "letter_is_over": (SENDING, "test_a_sign_in_letter_to_who_was_put_out_meanwhile_is_not_sent"),
    "no_mail_server": (
        "tests/unit/mail/test_posting.py",
        "test_where_no_mail_server_is_set_letters_wait_and_a_trial_says_so",
    ),
    "letter_not_sent": (SENDING, "test_a_trial_letter_tells_what_the_server_said"),
    "no_passkeys_here": (PASSKEYS, "test_where_browsers_have_no_passkeys_none_is_asked_for"),
    "passkey_not_taken": (PASSKEYS, "test_a_new_passkey_of_another_place_or_question_is_not_kept"),
    "unknown_passkey": (PASSKEYS, "test_a_removed_passkey_signs_nobody_in_and_only_its_owner_removes_it"),
    "passkey_copied": (PASSKEYS, "test_a_sign_count_that_goes_back_is_refused_and_recorded_as_a_copy"),
    "passkey_known": (PASSKEYS, "test_a_passkey_of_somebody_else_signs_in_as_them_or_nobody"),
    "too_many_passkeys": (PASSKEYS, "test_a_person_has_so_many_passkeys_and_no_more"),
    "no_such_passkey": (PASSKEYS, "test_a_removed_passkey_signs_nobody_in_and_only_its_owner_removes_it"),
    "repository_named_at_github": (COVERING, "test_a_repository_of_githubs_is_renamed_there"),
    "repository_being_read": (READING, "test_a_large_repository_is_read_on_and_the_call_says_to_come_back"),
    "repository_not_enabled": (COVERED, "test_what_the_app_does_not_reach_gives_no_boxes_and_says_what_mends_it"),
    "repository_suspended": (COVERED, "test_what_the_app_does_not_reach_gives_no_boxes_and_says_what_mends_it"),
    "repository_removed": (COVERED, "test_what_the_app_does_not_reach_gives_no_boxes_and_says_what_mends_it"),
    "repository_uncovered": (COVERED, "test_what_the_app_does_not_reach_gives_no_boxes_and_says_what_mends_it"),
    "feedback_no_text": (FEEDBACK, "test_of_items_that_came_together_all_are_kept_or_none"),
    "feedback_too_long": (FEEDBACK, "test_of_items_that_came_together_all_are_kept_or_none"),
    "feedback_full": (FEEDBACK, "test_a_draft_is_bounded_also_where_many_add_to_it_at_once"),
    "no_such_feedback": (FEEDBACK, "test_a_person_changes_and_drops_what_is_in_their_draft_and_nothing_else"),
    "feedback_none_ticked": (FEEDBACK, "test_what_is_ticked_is_submitted_once_with_a_letter_to_each_platform_admin"),
    "no_sign_on": (SIGN_ON, "test_without_a_provider_there_is_no_other_sign_in"),
    "sign_on_away": (SIGN_ON, "test_a_provider_that_says_no_or_is_away_is_told"),
    "sign_on_refused": (SIGN_ON, "test_a_provider_that_says_no_or_is_away_is_told"),
    "sign_on_unverified": (SIGN_ON, "test_an_unverified_address_opens_nothing_and_makes_nothing"),
    "sign_on_taken": (SIGN_ON, "test_an_address_that_changes_hands_takes_no_account_along"),
    "sign_on_unknown": (
        SIGN_ON,
        "test_an_address_without_an_account_gets_one_by_its_domain_or_is_told_whom_to_ask",
    ),
    "no_such_identity": (SIGN_ON, "test_an_identity_is_unlinked_by_its_owner_alone"),
    "no_github_app": (ACCOUNTS, "test_without_an_app_whoever_runs_the_server_is_named"),
    "github_app_set": (REGISTRATION, "test_the_app_of_the_settings_wins_and_none_is_made_beside_it"),
    "github_making_over": (REGISTRATION, "test_the_apps_state_is_good_once_and_for_the_platform_admin_who_began"),
    "github_away": (ACCOUNTS, "test_github_being_away_connects_nothing_and_is_told"),
    "github_no_device_flow": (OVER_HTTP, "test_an_app_is_made_an_account_connected_and_a_person_logged_in_over_http"),
    "github_busy": (LOGINS, "test_without_an_app_and_while_github_is_away_or_busy_a_login_says_so"),
    "no_github_login": (ACCOUNTS, "test_personal_connects_the_persons_own_github_user_after_a_login_and_no_other"),
    "github_login_over": (LOGINS, "test_a_login_that_github_takes_no_more_is_told_and_done_again"),
    "github_login_denied": (LOGINS, "test_a_login_that_was_denied_or_ran_out_is_told_and_the_next_call_begins_anew"),
    "github_login_expired": (LOGINS, "test_a_login_that_was_denied_or_ran_out_is_told_and_the_next_call_begins_anew"),
    "no_github_account": (LOGINS, "test_a_disconnected_account_is_forgotten_here_and_revoked_there"),
    "github_connect_over": (ACCOUNTS, "test_a_state_is_good_once_and_for_who_began_in_time"),
    "github_not_yours": (ACCOUNTS, "test_the_number_of_somebody_elses_installation_proves_nothing"),
    "github_not_owner": (
        ACCOUNTS,
        "test_who_reads_one_repository_of_an_organization_does_not_give_all_of_them_away",
    ),
    "github_wrong_kind": (ACCOUNTS, "test_a_team_connects_organizations_and_no_user"),
    "github_account_taken": (
        ACCOUNTS,
        "test_an_account_of_another_organization_is_refused_without_saying_whose_it_is",
    ),
    "github_account_unknown": (ACCOUNTS, "test_what_is_not_installed_suspended_or_removed_is_not_enabled"),
    "github_account_suspended": (ACCOUNTS, "test_what_is_not_installed_suspended_or_removed_is_not_enabled"),
    "github_account_removed": (ACCOUNTS, "test_what_is_not_installed_suspended_or_removed_is_not_enabled"),
    "foreign_form": (DOOR, "test_a_form_of_another_site_or_session_does_nothing"),
    "form_too_large": (DOOR, "test_a_form_that_is_too_large_or_none_is_told"),
    "bad_form": (DOOR, "test_a_form_that_is_too_large_or_none_is_told"),
    "too_often": (DOOR, "test_one_source_sends_so_many_forms_a_minute_and_no_more"),
    "not_sealed": (
        "tests/wire/web/test_audit.py",
        "test_a_record_is_shown_whole_with_its_text_its_seal_and_a_proof_that_holds",
    ),
    "nothing_to_erase": (
        "tests/unit/records/test_readers.py",
        "test_texts_are_erased_by_the_tasks_owner_and_by_an_admin_for_their_own_boxes",
    ),
    "no_such_page": (DOOR, "test_a_page_that_is_not_for_everybody_is_not_there"),
    "unknown_client": (ASKING, "test_a_client_that_nobody_knows_gets_a_page_and_no_answer"),
    "client_unreadable": (DOCUMENTS, "test_a_document_that_cannot_be_used_is_told_on_the_page_and_nothing_is_sent"),
    "redirect_refused": (ASKING, "test_nothing_is_sent_to_an_address_that_the_client_did_not_make_known"),
    "invalid_request": (ASKING, "test_a_client_hears_at_its_own_address_what_it_asked_wrongly"),
    "unsupported_response_type": (ASKING, "test_a_client_hears_at_its_own_address_what_it_asked_wrongly"),
    "invalid_target": (ASKING, "test_a_client_hears_at_its_own_address_what_it_asked_wrongly"),
    "unsupported_grant_type": (ASKING, "test_what_asks_for_no_token_rightly_gets_none"),
    "invalid_grant": (ASKING, "test_a_code_is_bound_to_all_that_it_was_given_for_and_is_over_once_presented_wrongly"),
    "access_denied": (ASKING, "test_anything_but_a_plain_yes_is_a_no"),
    "invalid_client_metadata": (REGISTERING, "test_what_no_client_can_be_is_not_registered"),
    "invalid_redirect_uri": (REGISTERING, "test_what_no_client_can_be_is_not_registered"),
    "clients_full": (
        "tests/wire/oauth/test_signing_in.py",
        "test_only_so_many_clients_are_registered_that_nobody_ever_used",
    ),
    "verb_task_closed": (AT_DOOR, WHO_MAY),
    "verb_put_out": (AT_DOOR, WHO_MAY),
    "verb_not_member": (AT_DOOR, WHO_MAY),
    "verb_vm_not_running": (AT_DOOR, WHO_MAY),
    "verb_uncovered": (AT_DOOR, WHO_MAY),
    "verb_other_repository": (AT_DOOR, "test_the_door_opens_no_other_repository"),
    "push_refused": (AT_DOOR, "test_a_push_outside_the_rules_is_refused_as_a_whole_and_says_what_may_be_done"),
    "verb_malformed": (AT_DOOR, "test_a_body_that_is_no_push_goes_nowhere"),
    "verb_origin_failed": (AT_DOOR, "test_an_origin_that_cannot_be_read_is_told_with_its_reason"),
    "verb_none_here": (VERBS, "test_a_plain_git_origin_has_none_of_it"),
    "verb_unknown": (VERBS, WRONG),
    "verb_argument": (VERBS, WRONG),
    "verb_denied": (VERBS, TROUBLE),
    "verb_missing": (VERBS, TROUBLE),
    "verb_refused": (VERBS, TROUBLE),
    "verb_github_away": (VERBS, TROUBLE),
    "verb_github_busy": (VERBS, TROUBLE),
    "verb_no_lfs": (LFS, "test_an_origin_without_a_server_for_lfs_says_so"),
    "verb_transfer_over": (LFS, "test_an_address_of_a_file_is_good_for_its_box_its_method_and_its_time"),
    "verb_lfs_malformed": (LFS, "test_what_is_no_request_for_lfs_files_goes_nowhere"),
    "verb_no_pull": (VERBS, "test_a_branch_without_a_pull_request_says_how_to_open_one"),
    "no_answer": (SERVER, "test_a_tool_past_its_deadline_is_answered_for_and_goes_on"),
}
"""Codes that a running server alone produces, and the test that shows each."""
