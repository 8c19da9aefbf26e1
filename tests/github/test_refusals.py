"""What the stand-in refuses, in GitHub's words: bad signatures, tokens of others, what cannot be, too many calls."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import httpx2
import pytest
from tests.github import git
from tests.github.desk import Desk
from tests.github.world import new_key

Forged = Callable[[Desk], str]
LATE = (
    "'Expiration time' claim ('exp') must be a numeric value representing the future time at which the assertion "
    "expires"
)
FAR = "'Expiration time' claim ('exp') is too far in the future"
AHEAD = "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued"
UNDECODED = "A JSON web token could not be decoded"
PULLS = "/repos/acme/app/pulls"
INSTALLATION_TOKENS = "/app/installations/{desk.installation.id}/access_tokens"


def refused(answer: httpx2.Response, status: int, message: str) -> dict[str, Any]:
    """An answer that is this refusal: its body."""
    told: dict[str, Any] = answer.json()
    assert (answer.status_code, told["message"]) == (status, message)
    assert told["documentation_url"].startswith("https://docs.github.com/")
    return told


def unsigned(desk: Desk) -> str:
    return desk.jwt().rpartition(".")[0] + "."


FORGED: dict[str, tuple[Forged, int, str]] = {
    "signed by another": (lambda desk: desk.jwt(new_key()), 401, UNDECODED),
    "not signed": (unsigned, 401, UNDECODED),
    "garbage": (lambda desk: "a.b.c", 401, UNDECODED),
    "of no app": (lambda desk: desk.jwt(iss="Iv1.nobody"), 404, "Integration not found"),
    "over": (lambda desk: desk.jwt(lasts=-1), 401, LATE),
    "without an end": (lambda desk: desk.jwt(exp=None), 401, LATE),
    "good for too long": (lambda desk: desk.jwt(lasts=660), 401, FAR),
    "of tomorrow": (lambda desk: desk.jwt(iat=int(desk.github.world.now().timestamp()) + 120), 401, AHEAD),
    "a user's token": (lambda desk: desk.token, 401, UNDECODED),
    "an installation's token": (lambda desk: desk.its_token, 401, UNDECODED),
    "none at all": (lambda desk: "", 401, UNDECODED),
}  # fmt: skip


@pytest.mark.parametrize("which", FORGED)
def test_who_does_not_prove_to_be_the_app_gets_no_token(checked: Desk, which: str) -> None:
    forge, status, message = FORGED[which]
    path = INSTALLATION_TOKENS.format(desk=checked)
    refused(checked.ask("POST", path, forge(checked), {}), status, message)
    assert not [one for one in checked.github.called() if one[0].startswith("app:")]


@pytest.mark.parametrize("issuer", ["id", "id as a text", "client id"])
def test_an_app_may_call_itself_by_its_id_or_its_client_id(checked: Desk, issuer: str) -> None:
    app = checked.app
    named: dict[str, Any] = {"id": app.id, "id as a text": str(app.id), "client id": app.client_id}
    assert checked.ask("GET", "/app", checked.jwt(iss=named[issuer])).json()["slug"] == app.slug


def test_another_app_cannot_reach_an_installation(checked: Desk) -> None:
    other = checked.github.make_app(checked.acme, "Another")
    foreign = checked.jwt(other.pem, iss=other.client_id)
    refused(checked.ask("POST", INSTALLATION_TOKENS.format(desk=checked), foreign, {}), 404, "Not Found")
    assert checked.ask("GET", "/app/installations", foreign).json() == []
    stranger = checked.github.user_token(other, checked.ada).value
    refused(checked.ask("GET", "/repos/acme/app", stranger), 404, "Not Found")


def test_a_suspended_installation_gives_no_token_and_its_old_ones_open_nothing(checked: Desk) -> None:
    said = "This installation has been suspended"
    checked.github.suspend(checked.installation)
    refused(checked.ask("POST", INSTALLATION_TOKENS.format(desk=checked), checked.jwt(), {}), 403, said)
    refused(checked.ask("GET", "/installation/repositories", checked.its_token), 403, said)
    refused(checked.ask("GET", "/repos/acme/app", checked.token), 404, "Not Found")
    shown = checked.ask("GET", "/app/installations", checked.jwt()).json()[0]
    assert shown["suspended_by"]["login"] == "acme"
    checked.github.unsuspend(checked.installation)
    assert checked.ask("GET", "/repos/acme/app", checked.its_token).status_code == 200


def test_an_installation_that_is_gone_takes_its_tokens_with_it(checked: Desk) -> None:
    checked.github.uninstall(checked.installation)
    refused(checked.ask("GET", "/installation/repositories", checked.its_token), 401, "Bad credentials")
    refused(checked.ask("POST", INSTALLATION_TOKENS.format(desk=checked), checked.jwt(), {}), 404, "Not Found")
    refused(checked.ask("GET", "/repos/acme/app", checked.token), 404, "Not Found")


def test_a_token_ends_after_an_hour_or_eight(checked: Desk) -> None:
    checked.github.advance(timedelta(minutes=61))
    refused(checked.ask("GET", "/installation/repositories", checked.its_token), 401, "Bad credentials")
    assert checked.ask("GET", "/user", checked.token).status_code == 200
    checked.github.advance(timedelta(hours=7))
    refused(checked.ask("GET", "/user", checked.token), 401, "Bad credentials")


def test_a_token_reaches_what_both_its_user_and_its_app_do(checked: Desk) -> None:
    grace = checked.github.user_token(checked.app, checked.grace).value
    eve = checked.github.user_token(checked.app, checked.eve).value
    public = checked.github.make_repo("acme/open", private=False)
    assert checked.ask("GET", "/repos/acme/other", checked.token).status_code == 404
    assert checked.ask("GET", "/repos/acme/app", grace).json()["permissions"]["push"] is False
    assert checked.ask("GET", "/repos/acme/app", eve).status_code == 404
    assert checked.ask("GET", f"/repos/{public.full}").status_code == 200
    assert checked.ask("GET", "/user/installations", eve).json()["total_count"] == 0
    assert checked.ask("GET", "/user/installations", grace).json()["total_count"] == 1


def test_a_scoped_token_sees_only_what_it_was_asked_for(checked: Desk) -> None:
    checked.github.cover(checked.app, checked.acme, [checked.repo, checked.other])
    path = INSTALLATION_TOKENS.format(desk=checked)
    scoped = checked.ask("POST", path, checked.jwt(), {"repository_ids": [checked.other.id]}).json()
    assert scoped["repository_selection"] == "selected"
    listed = checked.ask("GET", "/installation/repositories", scoped["token"]).json()
    assert [one["full_name"] for one in listed["repositories"]] == ["acme/other"]
    assert checked.ask("GET", "/repos/acme/app", scoped["token"]).status_code == 404
    missing = checked.ask("POST", path, checked.jwt(), {"repositories": ["nothing"]})
    assert missing.status_code == 422


def test_what_the_app_was_not_given_is_not_accessible(checked: Desk) -> None:
    checked.installation.permissions = {"metadata": "read", "contents": "read", "pull_requests": "read"}
    said = "Resource not accessible by integration"
    assert checked.ask("GET", PULLS, checked.token).status_code == 200
    body = {"title": "T", "head": "work", "base": "main"}
    refused(checked.ask("POST", PULLS, checked.token, body), 403, said)
    checked.github.make_issue(checked.repo, "It breaks")
    refused(checked.ask("GET", "/repos/acme/app/issues/1", checked.token), 403, said)
    refused(checked.ask("GET", "/user", checked.its_token), 403, said)
    refused(checked.ask("GET", "/user"), 401, "Requires authentication")


def test_who_owns_an_organization_is_told_where_the_app_may_read_members(checked: Desk) -> None:
    path = "/orgs/acme/memberships"
    roles = [checked.ask("GET", f"{path}/{who}", checked.its_token).json().get("role") for who in ("ada", "grace")]
    assert roles == ["admin", "member"]
    refused(checked.ask("GET", f"{path}/eve", checked.its_token), 404, "Not Found")
    bare = checked.github.installation_token(checked.installation)
    bare.permissions = {"metadata": "read"}
    refused(checked.ask("GET", f"{path}/ada", bare.value), 403, "Resource not accessible by integration")


@pytest.mark.parametrize(
    ("body", "errors"),
    [
        ({"title": "T", "head": "gone", "base": "main"}, [("head", "invalid")]),
        ({"title": "T", "head": "eve:work", "base": "main"}, [("head", "invalid")]),
        ({"title": "T", "head": "work", "base": "gone"}, [("base", "invalid")]),
        ({"head": "work", "base": "main"}, [("title", "missing_field")]),
        ({"title": "T", "head": "same", "base": "main"}, [("", "No commits between main and same")]),
        ({"title": "T", "head": "taken", "base": "main"}, [("", "A pull request already exists for acme:taken.")]),
    ],
)
def test_a_pull_request_that_cannot_be_is_refused_with_the_reason(
    checked: Desk, body: dict[str, Any], errors: list[tuple[str, str]]
) -> None:
    github, repo = checked.github, checked.repo
    for branch in ("work", "taken"):
        github.push_from_outside(repo, branch, onto=github.head(repo))
    github.open_pull(repo, "taken")
    git.git(repo.folder, "update-ref", "refs/heads/same", "refs/heads/main")
    told = refused(checked.ask("POST", PULLS, checked.token, body), 422, "Validation Failed")
    found = [
        (one.get("field", ""), one["code"] if one["code"] != "custom" else one["message"]) for one in told["errors"]
    ]
    assert found == errors


def test_an_archived_repository_takes_no_pull_request(checked: Desk) -> None:
    checked.github.archive(checked.repo)
    body = {"title": "T", "head": "work", "base": "main"}
    refused(checked.ask("POST", PULLS, checked.token, body), 403, "Repository was archived so is read-only.")


def test_what_is_no_json_is_told_so(checked: Desk) -> None:
    headers = {"authorization": f"Bearer {checked.token}"}
    answer = httpx2.post(f"{checked.github.api}{PULLS}", content=b"{", headers=headers, trust_env=False)
    refused(answer, 400, "Problems parsing JSON")


def test_a_revoked_authorization_ends_the_users_tokens(checked: Desk) -> None:
    path = f"/applications/{checked.app.client_id}/grant"
    assert checked.as_client("DELETE", path, {"access_token": checked.token}).status_code == 204
    refused(checked.ask("GET", "/user", checked.token), 401, "Bad credentials")
    refused(checked.as_client("DELETE", path, {"access_token": checked.token}), 404, "Not Found")
    checked.app.client_secret = "changed"
    assert checked.ask("DELETE", path, body={"access_token": "x"}).status_code == 404


# Limits ---------------------------------------------------------------------------------------------------------------


def test_calls_are_counted_and_those_over_the_limit_hear_until_when(checked: Desk) -> None:
    checked.github.limit_rate(checked.installation, remaining=1, resets_in=timedelta(minutes=5))
    last = checked.ask("GET", "/installation/repositories", checked.its_token)
    assert (last.status_code, last.headers["x-ratelimit-remaining"]) == (200, "0")
    over = checked.ask("GET", "/installation/repositories", checked.its_token)
    assert over.status_code == 403
    assert over.json()["message"].startswith(f"API rate limit exceeded for installation ID {checked.installation.id}.")
    until = checked.github.world.now() + timedelta(minutes=5)
    assert abs(int(over.headers["x-ratelimit-reset"]) - until.timestamp()) < 30
    assert checked.ask("GET", "/user", checked.token).status_code == 200
    checked.github.advance(timedelta(minutes=6))
    assert checked.ask("GET", "/installation/repositories", checked.its_token).status_code == 200


@pytest.mark.parametrize("status", [403, 429])
def test_a_secondary_limit_says_when_to_come_again(checked: Desk, status: Any) -> None:
    checked.github.limit_secondary(checked.ada, retry_after=30, status=status, times=1)
    answer = checked.ask("GET", "/user", checked.token)
    assert (answer.status_code, answer.headers["retry-after"]) == (status, "30")
    assert answer.json()["message"].startswith("You have exceeded a secondary rate limit.")
    assert checked.ask("GET", "/user", checked.token).status_code == 200


def test_trouble_is_over_when_a_test_says_so(desk: Desk) -> None:
    desk.github.break_down("/pulls")
    assert desk.ask("GET", PULLS, desk.token).status_code == 502
    assert desk.ask("GET", "/user", desk.token).status_code == 200
    desk.github.calm()
    assert desk.ask("GET", PULLS, desk.token).status_code == 200
