"""One real refusal of each kind, made by the function that makes it in the program: what docs/refusals.md shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from keel.refusal import Ask, Refusal, Retry, Stop
from keel.refusal import Call as CallMend
from rift.boxes import refusals as boxes
from rift.boxes.model import Box, OpenCommand
from rift.commands import refusals as commands
from rift.connections import refusals as connections
from rift.feedback import refusals as feedback
from rift.github import refusals as github
from rift.hosts.model import Shortage
from rift.identities import refusals as identities
from rift.invites import refusals as invites
from rift.invites.model import Invitation
from rift.limits import refusals as limits
from rift.logins import refusals as logins
from rift.mail import refusals as mail
from rift.names import COMMAND_BYTES
from rift.origins import refusals as origins
from rift.passkeys import refusals as passkeys
from rift.people import refusals as people
from rift.people.model import Membership
from rift.pulls import refusals as pulls
from rift.records import refusals as records
from rift.registration import refusals as registration
from rift.repos import refusals as repos
from rift.repos.model import Repo, Watch
from rift.secrets import refusals as secrets
from rift.sessions import refusals as sessions
from rift.tasks import refusals as tasks
from rift.tasks.model import Task
from rift.transfers import refusals as transfers
from rift.verbs import refusals as verbs
from rift.verbs.model import Standing
from rift.wire import refusals as wire
from rift.wire.mcp.arguments import read_arguments
from rift.wire.mcp.tools import bash
from rift.wire.web import refusals as web

NOW = datetime(2026, 11, 30, 16, 20, tzinfo=UTC)
VM = "b-6cc502538eaee2f589cae12f"
COMMIT = "5d8e2179b569476d0b6dbbc5aecdebc5c57ac59c"

TASK = Task(
    id="task_t3fbd463", owner="user_ada", name="fix the parser", status="open", secret_sha256=bytes(32),
    holder="mcp:Claude", held_since=NOW - timedelta(minutes=9), activity_at=NOW - timedelta(minutes=4),
    created_at=NOW - timedelta(hours=1), closed_at=None,
)  # fmt: skip
BOX = Box(
    id=VM, name="app-main-1", number=1, repo="repo_app", ref="main", commit=COMMIT, task=TASK.id, state="running",
    failure=None, incarnation=1, epoch=0, token_sha256=None, next_command=13, seen_at=NOW, used_at=NOW, created_at=NOW,
    ended_at=None, repo_owner="acme", repo_name="app", org="org_ada", network="proxy",
)  # fmt: skip
TWIN = replace(BOX, id="b-898104bb591843adcbfc8818")
PARKED = replace(BOX, state="parked")
OPEN = (OpenCommand(VM, 11, "bash", "npm test", True, NOW), OpenCommand(VM, 12, "bash", "npm start", True, NOW))
STANDING = Standing(VM, "app-main-3", "parked", "repo_app", "task_k7m3qzxw", True, "user_ada", False)
REPO = Repo("repo_app", "org_ada", "acme", "app", "https://example.org/acme/app.git", "proxy", NOW, None, NOW)
HUB = replace(REPO, forge="github", account=4711, login="acme", github_id=42)
FAILED = Watch(REPO.id, "main", 1, COMMIT, 0, "the checkout could not be made: No space left on device", NOW)
INVITATION = Invitation(
    "inv_4m2k7qpx9tzr", "org_lovelace", "lovelace", "grace@example.com", "member", "ada@example.com", NOW,
    NOW + timedelta(days=14),
)  # fmt: skip
PERSONAL = Membership("org_ada", "personal", "admin")


def _bad_arguments() -> Refusal:
    refusal = read_arguments(bash.TOOL, {"task": "…", "vm": VM, "command": "make", "timeout": 0, "block_for": 50})
    assert isinstance(refusal, Refusal)
    return refusal


SECRETS = "set it on /app/secrets"
EXAMPLES: Mapping[str, Callable[[], Refusal]] = {
    # Tasks
    "no_handle": tasks.no_handle,
    "bare_task_id": lambda: tasks.bare_id(TASK.id),
    "task_unknown": lambda: tasks.unknown(TASK.id),
    "task_closed": lambda: tasks.closed(TASK),
    "task_released": lambda: tasks.released(TASK),
    "task_held": lambda: tasks.stale(TASK, NOW),
    "task_in_use": lambda: tasks.busy(TASK, NOW),
    "task_name": lambda: tasks.bad_name(200),
    "task_limit": lambda: tasks.too_many((TASK, replace(TASK, id="task_p7wq2mhd")), 2, NOW),
    # Boxes
    "vm_unknown": lambda: boxes.unknown("app-main-7", BOX),
    "vm_ambiguous": lambda: boxes.ambiguous(BOX.name, (BOX, TWIN)),
    "vm_gone": lambda: boxes.gone(replace(BOX, state="destroyed")),
    "vm_failed": lambda: boxes.failed(replace(BOX, state="failed", failure="its files are gone from the host")),
    "vm_busy": lambda: boxes.busy(BOX, OPEN),
    "vm_starting": lambda: boxes.starting(replace(BOX, state="starting")),
    "vm_full": lambda: boxes.full(BOX, (*OPEN, replace(OPEN[0], n=13), replace(OPEN[1], n=14))),
    "vm_not_member": lambda: boxes.not_member(BOX),
    "vm_limit": lambda: boxes.too_many((BOX, replace(TWIN, task="task_p7wq2mhd")), TASK.id, 2),
    "vm_org_limit": lambda: boxes.organization_full("acme", 128, 128, (BOX,), TASK.id),
    "host_full": lambda: boxes.host_short(Shortage((1_300_000_000, 2**31), None), (PARKED, TWIN), TASK.id, True),
    # Commands
    "nul_byte": lambda: commands.nul("rift_bash", "command"),
    "not_text": lambda: commands.not_text("rift_write", "content"),
    "too_long": lambda: commands.too_long("rift_bash", "command", 200_000, COMMAND_BYTES),
    "empty": lambda: commands.empty("rift_read", "path"),
    "path_outside": commands.climbs,
    "command_id": lambda: commands.bad_id("app-main-1"),
    "command_twice": lambda: commands.twice(f"{VM}.11"),
    "command_boxes": lambda: commands.several_boxes([f"{VM}.11", f"{TWIN.id}.2"], 2),
    "offset_past_end": lambda: commands.past_end(f"{VM}.11", 9000, 371),
    # Repositories
    "no_such_repository": lambda: repos.no_such_repository("acme/ap", ["acme/app"]),
    "which_repository": lambda: repos.which_repository("app", (REPO, replace(REPO, owner="other"))),
    "no_such_ref": lambda: repos.no_such_ref(REPO, "mian", 1, ["main"], ["main", "next"]),
    "ref_not_watched": lambda: repos.not_watched(REPO, "next", True, "personal", ["main"]),
    "watched_ref_gone": lambda: repos.no_head(REPO, "next", True, "personal"),
    "head_failed": lambda: repos.failed_head(REPO, FAILED, True, "personal", 42),
    "warm_out_of_range": lambda: repos.warm_out_of_range("acme/app", "main", 500),
    "repository_being_read": lambda: repos.being_read(HUB, "main", 1),
    "repository_not_enabled": lambda: repos.not_enabled(HUB, False, "personal"),
    "repository_suspended": lambda: repos.account_suspended(HUB),
    "repository_removed": lambda: repos.account_removed(HUB, False, "personal"),
    "repository_uncovered": lambda: repos.uncovered(HUB, "personal"),
    "warm_limit": lambda: repos.too_warm("acme/app", "main", 100, 60, 128),
    "needs_admin": lambda: people.needs_admin(
        "acme", CallMend("rift_watch", {"repo": "acme/app", "ref": "next", "warm": 1}).text
    ),
    "no_such_org": lambda: people.no_such_org("acme", (PERSONAL,)),
    # Any tool
    "verb_task_closed": lambda: verbs.task_closed(STANDING),
    "verb_put_out": verbs.put_out,
    "verb_not_member": lambda: verbs.not_member("acme/app"),
    "verb_vm_not_running": lambda: verbs.not_running(STANDING),
    "verb_uncovered": lambda: verbs.uncovered(REPO, "personal"),
    "verb_other_repository": lambda: verbs.other_repository("acme/app", "acme/app-two"),
    "push_refused": lambda: verbs.push(
        "acme/app", {"refs/heads/main": "main is the default branch, and boxes of acme/app may not push to it"}
    ),
    "verb_malformed": lambda: verbs.malformed("push", "after its refs comes something else than a pack"),
    "verb_origin_failed": lambda: verbs.origin_failed("acme/app", "/srv/git/app cannot be read"),
    "verb_none_here": lambda: pulls.none_here("acme/app", "pr-open"),
    "verb_unknown": lambda: pulls.unknown("vm-1", "pr-merge"),
    "verb_argument": lambda: pulls.argument("vm-1", "pr-open", "title is missing"),
    "verb_denied": lambda: pulls.denied("octocat", "acme/app", "Resource not accessible by integration"),
    "verb_missing": lambda: pulls.missing("octocat", "acme/app", "#4711"),
    "verb_refused": lambda: pulls.refused("No commits between main and fix"),
    "verb_github_away": lambda: pulls.away("it did not answer"),
    "verb_github_busy": lambda: pulls.busy("octocat", 60),
    "verb_no_lfs": lambda: transfers.no_lfs("acme/app"),
    "verb_transfer_over": transfers.over,
    "verb_lfs_malformed": lambda: transfers.malformed("an object's id is none"),
    "verb_no_pull": lambda: pulls.no_pull("vm-1", "fix"),
    "bad_arguments": _bad_arguments,
    "unknown_tool": lambda: wire.unknown_tool(Stop(), hint="did you mean rift_vm_ls?"),
    "no_answer": lambda: wire.no_answer(Retry(5), tool="rift_repos", seconds=53, request="r-0c1d2e3f4a5b"),
    "overloaded": lambda: wire.overloaded(Retry(5), tool="rift_bash"),
    "internal_error": lambda: wire.internal_error(
        Ask("the person who runs this Rift", "the request id finds the failure in its log"),
        request="r-0c1d2e3f4a5b",
    ),
    # Accounts and pages
    "disabled": lambda: people.disabled("ada@example.com"),
    "needs_platform_admin": lambda: people.needs_platform_admin(
        CallMend("rift_account_invite", {"email": "grace@example.com"}).text
    ),
    "last_platform_admin": lambda: people.last_platform_admin("ada@example.com"),
    "team_name": lambda: people.bad_team_name(64),
    "team_exists": lambda: people.team_exists("acme"),
    "not_a_team": people.not_a_team,
    "no_such_member": lambda: people.no_such_member("grace@example.com", "acme"),
    "last_team_admin": lambda: people.last_team_admin("ada@example.com", "acme"),
    "already_member": lambda: invites.already_member("grace@example.com", "acme"),
    "no_invitation": lambda: invites.no_invitation("acme", (INVITATION,)),
    "not_invited": lambda: invites.not_invited("inv_4m2k7qpx9tzr", "acme"),
    "invitation_over": invites.over,
    "invitation_sign_in": lambda: invites.sign_in("ada@example.com"),
    "invitation_limit": lambda: invites.too_many("acme", 200),
    "invited_enough": lambda: invites.enough(200),
    "bad_since": lambda: invites.bad_since("yesterday"),
    "link_over": mail.link_over,
    "sign_in_over": sessions.sign_in_over,
    "no_such_session": sessions.no_such_session,
    "no_such_letter": mail.no_such_letter,
    "letter_is_over": lambda: mail.letter_is_over("nobody with an account has this address, or they were put out"),
    "no_passkeys_here": lambda: passkeys.no_passkeys_here("http://rift.example.org"),
    "passkey_not_taken": passkeys.passkey_not_taken,
    "unknown_passkey": passkeys.unknown_passkey,
    "passkey_copied": passkeys.passkey_copied,
    "passkey_known": passkeys.passkey_known,
    "too_many_passkeys": lambda: passkeys.too_many_passkeys(20),
    "no_such_passkey": passkeys.no_such_passkey,
    "feedback_no_text": feedback.no_text,
    "feedback_too_long": lambda: feedback.too_long("text", 5000, 4000),
    "feedback_full": lambda: feedback.full(95, 100),
    "no_such_feedback": feedback.no_such_item,
    "feedback_none_ticked": feedback.none_ticked,
    "no_sign_on": identities.no_sign_on,
    "sign_on_away": lambda: identities.sign_on_away("Keycloak"),
    "sign_on_refused": lambda: identities.sign_on_refused("Keycloak"),
    "sign_on_unverified": lambda: identities.sign_on_unverified("Keycloak"),
    "sign_on_taken": lambda: identities.sign_on_taken("ada@example.com", "Keycloak"),
    "sign_on_unknown": lambda: identities.sign_on_unknown("ada@example.com"),
    "no_such_identity": identities.no_such_identity,
    "foreign_form": web.foreign_form,
    "form_too_large": lambda: web.form_too_large(256),
    "bad_form": web.bad_form,
    "too_often": lambda: web.too_often(12),
    "unknown_client": lambda: connections.unknown_client("client_7f3kq2m9"),
    "client_unreadable": lambda: connections.client_unreadable(
        "https://client.example/mcp.json", "it answered with the status 404"
    ),
    "redirect_refused": lambda: connections.redirect_refused("Claude", "https://elsewhere.example/callback"),
    "invalid_request": lambda: connections.invalid_request("code_challenge is missing: PKCE is needed"),
    "unsupported_response_type": connections.unsupported_response_type,
    "unsupported_grant_type": connections.unsupported_grant_type,
    "invalid_target": lambda: connections.invalid_target("https://rift.example/mcp"),
    "invalid_grant": connections.invalid_grant,
    "access_denied": lambda: connections.access_denied("Claude"),
    "invalid_client_metadata": lambda: connections.invalid_client_metadata(
        "redirect_uris is to be a list of 1 to 20 addresses"
    ),
    "invalid_redirect_uri": lambda: connections.invalid_redirect_uri("javascript:x", "its scheme is nobody's own"),
    "clients_full": lambda: connections.clients_full(10_000),
    "not_sealed": lambda: records.not_sealed(4711, 30),
    "nothing_to_erase": lambda: records.nothing_to_erase(TASK.id),
    "secret_name": lambda: secrets.bad_name("API-KEY", SECRETS),
    "secret_name_taken": lambda: secrets.name_taken("PATH", "every command in a box goes by it", SECRETS),
    "secret_value": lambda: secrets.bad_value("API_KEY", "it is empty", SECRETS),
    "secret_limit": lambda: secrets.too_many("acme/app", 100, "/app/secrets"),
    "secrets_too_large": lambda: secrets.too_large("acme/app", 262_200, 262_144, "/app/secrets"),
    "no_such_secret": lambda: secrets.no_such_secret("acme/app", "API_KEY", "/app/secrets"),
    "secrets_unusable": secrets.unusable,
    "not_signed_in": secrets.not_signed_in,
    "no_token_here": secrets.no_token_here,
    "no_such_page": web.no_such_page,
    # The command line
    "no_github_app": registration.no_app,
    "github_app_set": lambda: registration.app_set("rift-acme"),
    "github_making_over": registration.making_over,
    "github_away": lambda: registration.away("GitHub did not answer within 20 s"),
    "github_busy": lambda: registration.busy(90),
    "github_no_device_flow": lambda: registration.no_device_flow("rift-acme", "https://github.com/apps/rift-acme"),
    "no_github_login": logins.no_login,
    "github_login_over": lambda: logins.login_over("ada-l", "it was taken back there, or not used for too long"),
    "github_login_denied": logins.denied,
    "github_login_expired": logins.expired,
    "no_github_account": logins.none_connected,
    "github_connect_over": github.connect_over,
    "github_not_yours": lambda: github.not_yours("ada-l", "acme"),
    "github_not_owner": lambda: github.not_owner("acme-inc", "ada-l", "acme"),
    "github_wrong_kind": lambda: github.wrong_kind("acme-inc", personal=True, theirs=False, org="personal"),
    "github_account_taken": lambda: github.taken("acme-inc"),
    "github_account_unknown": lambda: github.unknown("acme-inc", "acme", ["acme-labs"]),
    "github_account_suspended": lambda: github.suspended("acme-inc"),
    "github_account_removed": lambda: github.removed("acme-inc", "acme"),
    "bad_email": lambda: people.bad_email("ada@"),
    "user_exists": lambda: people.user_exists("ada@example.com"),
    "no_such_user": lambda: people.no_such_user("grace@example.com"),
    "no_admin": people.no_admin,
    "no_such_team": lambda: people.no_such_team("acme"),
    "bad_client": people.bad_client,
    "no_such_token": lambda: people.no_such_token("tok_abc123"),
    "bad_repository_name": lambda: origins.bad_name("app"),
    "bad_repository_origin": lambda: origins.bad_origin("ext::sh -c id", "git's remote helpers are not used"),
    "repo_host": lambda: repos.bad_host("https://example.org/", "acme/app"),
    "bad_limit": lambda: limits.bad_limit("memory", "8 bananas", "acme/app"),
    "repository_exists": lambda: origins.exists(REPO, "personal", REPO.url),
    "cannot_fetch": lambda: origins.cannot_fetch("acme/app", REPO.url, "repository not found"),
    "repository_named_at_github": lambda: origins.named_there(HUB),
    "no_such_added_repository": lambda: repos.no_such_added("acme/app"),
    "secret_which_repository": lambda: secrets.which_repository("acme/app", 2),
    "no_such_record": lambda: records.no_such_record(4711),
    "nothing_sealed": records.nothing_sealed,
    "no_mail_server": mail.no_mail_server,
    "letter_not_sent": lambda: mail.letter_not_sent("535 authentication failed"),
}  # fmt: skip
"""By code. tests/unit/docs holds it equal to the catalogue."""

GROUPS: Mapping[str, tuple[str, str]] = {
    "tasks": ("no_handle", "task_limit"),
    "boxes": ("vm_unknown", "host_full"),
    "commands": ("nul_byte", "offset_past_end"),
    "repositories": ("no_such_repository", "no_such_org"),
    "verbs": ("verb_task_closed", "verb_no_pull"),
    "any": ("bad_arguments", "internal_error"),
    "accounts": ("disabled", "no_such_page"),
    "github": ("no_github_app", "github_account_removed"),
    "terminal": ("bad_email", "letter_not_sent"),
}
"""The page's parts: the first and the last code of each, in the order above."""
