"""Every call of the stand-in's API, made once and more, and each answer held to GitHub's published document."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from tests.github import rest_app, rest_repos
from tests.github.desk import Desk
from tests.github.published import Document

Made = Callable[[Desk], httpx2.Response]
SCOPED = {"repositories": ["app"], "permissions": {"contents": "read"}}


def by_app(method: str, path: str, body: Any = None) -> Made:
    return lambda desk: desk.ask(method, path.format(desk=desk), desk.jwt(), body)


def by_installation(method: str, path: str, body: Any = None) -> Made:
    return lambda desk: desk.ask(method, path.format(desk=desk), desk.its_token, body)


def by_ada(method: str, path: str, body: Any = None) -> Made:
    return lambda desk: desk.ask(method, path.format(desk=desk), desk.token, body)


def by_client(method: str, path: str) -> Made:
    return lambda desk: desk.as_client(method, path.format(desk=desk), {"access_token": desk.token})


def convert(desk: Desk) -> httpx2.Response:
    manifest = {"name": "Made", "url": "http://127.0.0.1:9", "redirect_url": "http://127.0.0.1:9/made"}
    with desk.github.browser(desk.ada) as browser:
        back = browser.make_app("/organizations/acme/settings/apps/new", json.dumps(manifest), "abc")
    told = parse_qs(urlsplit(back).query)
    assert told["state"] == ["abc"]
    return desk.ask("POST", f"/app-manifests/{told['code'][0]}/conversions")


INSTALLATION = "/app/installations/{desk.installation.id}"
CLIENT = "/applications/{desk.app.client_id}"
APP = "/repos/acme/app"
CALLS: dict[tuple[str, str], tuple[Made, int]] = {
    ("POST", "/app-manifests/{code}/conversions"): (convert, 201),
    ("GET", "/app"): (by_app("GET", "/app"), 200),
    ("GET", "/app/installations"): (by_app("GET", "/app/installations"), 200),
    ("GET", "/app/installations/{installation_id}"): (by_app("GET", INSTALLATION), 200),
    ("DELETE", "/app/installations/{installation_id}"): (by_app("DELETE", INSTALLATION), 204),
    ("PUT", "/app/installations/{installation_id}/suspended"): (by_app("PUT", f"{INSTALLATION}/suspended"), 204),
    ("DELETE", "/app/installations/{installation_id}/suspended"): (by_app("DELETE", f"{INSTALLATION}/suspended"), 204),
    ("POST", "/app/installations/{installation_id}/access_tokens"): (
        by_app("POST", f"{INSTALLATION}/access_tokens", SCOPED), 201,
    ),
    ("GET", "/installation/repositories"): (by_installation("GET", "/installation/repositories"), 200),
    ("DELETE", "/installation/token"): (by_installation("DELETE", "/installation/token"), 204),
    ("GET", "/repos/{owner}/{repo}/installation"): (by_app("GET", f"{APP}/installation"), 200),
    ("GET", "/orgs/{org}/installation"): (by_app("GET", "/orgs/acme/installation"), 200),
    ("GET", "/users/{username}/installation"): (by_app("GET", "/users/ada/installation"), 404),
    ("GET", "/orgs/{org}/memberships/{username}"): (by_installation("GET", "/orgs/acme/memberships/ada"), 200),
    ("GET", "/user"): (by_ada("GET", "/user"), 200),
    ("GET", "/user/installations"): (by_ada("GET", "/user/installations"), 200),
    ("GET", "/user/installations/{installation_id}/repositories"): (
        by_ada("GET", "/user/installations/{desk.installation.id}/repositories"), 200,
    ),
    ("DELETE", "/applications/{client_id}/grant"): (by_client("DELETE", f"{CLIENT}/grant"), 204),
    ("POST", "/applications/{client_id}/token"): (by_client("POST", f"{CLIENT}/token"), 200),
    ("GET", "/meta"): (by_ada("GET", "/meta"), 200),
    ("GET", "/repos/{owner}/{repo}"): (by_ada("GET", APP), 200),
    ("POST", "/repos/{owner}/{repo}/pulls"): (
        by_ada("POST", f"{APP}/pulls", {"title": "Mine", "head": "mine", "base": "main", "draft": True}), 201,
    ),
    ("GET", "/repos/{owner}/{repo}/pulls"): (by_ada("GET", f"{APP}/pulls?head=acme:work&state=all"), 200),
    ("GET", "/repos/{owner}/{repo}/pulls/{pull_number}"): (by_ada("GET", f"{APP}/pulls/1"), 200),
    ("PATCH", "/repos/{owner}/{repo}/pulls/{pull_number}"): (
        by_ada("PATCH", f"{APP}/pulls/1", {"state": "closed"}), 200,
    ),
    ("GET", "/repos/{owner}/{repo}/pulls/{pull_number}/reviews"): (by_ada("GET", f"{APP}/pulls/1/reviews"), 200),
    ("GET", "/repos/{owner}/{repo}/pulls/{pull_number}/comments"): (by_ada("GET", f"{APP}/pulls/1/comments"), 200),
    ("GET", "/repos/{owner}/{repo}/issues/{issue_number}"): (by_ada("GET", f"{APP}/issues/1"), 200),
    ("GET", "/repos/{owner}/{repo}/issues/{issue_number}/comments"): (by_ada("GET", f"{APP}/issues/2/comments"), 200),
    ("POST", "/repos/{owner}/{repo}/issues/{issue_number}/comments"): (
        by_ada("POST", f"{APP}/issues/2/comments", {"body": "So be it."}), 201,
    ),
    ("GET", "/repos/{owner}/{repo}/commits/{ref}/check-runs"): (by_ada("GET", f"{APP}/commits/work/check-runs"), 200),
    ("GET", "/repos/{owner}/{repo}/commits/{ref}/status"): (by_ada("GET", f"{APP}/commits/work/status"), 200),
    ("GET", "/repos/{owner}/{repo}/commits/{ref}/statuses"): (by_ada("GET", f"{APP}/commits/work/statuses"), 200),
    ("GET", "/repos/{owner}/{repo}/actions/jobs/{job_id}/logs"): (
        lambda desk: desk.ask("GET", f"{APP}/actions/jobs/{desk.repo.checks[0].id}/logs", desk.token), 302,
    ),
}  # fmt: skip


@pytest.fixture
def busy(checked: Desk) -> Desk:
    """A repository in which much happened."""
    github, repo = checked.github, checked.repo
    for branch in ("work", "mine"):
        head = github.push_from_outside(repo, branch, onto=github.head(repo))
    pull = github.open_pull(repo, "work", by=checked.ada)
    issue = github.make_issue(repo, "It breaks", "Always.", checked.grace, labels=["bug"])
    github.comment(issue, checked.ada, "Mine does not.")
    github.comment(pull, checked.grace, "Nice.")
    lines = [("README.md", 1, "Why?"), ("gone.txt", None, "And this?")]
    github.review(repo, pull, checked.grace, "CHANGES_REQUESTED", "Not yet.", lines)
    head = github.branches(repo)["work"]
    github.set_check(repo, head, "build", "failure", summary="It broke.", log="line 1\nline 2\n")
    github.set_check(repo, head, "lint")
    github.set_status(repo, head, "ci/old", "success", "Fine.")
    return checked


@pytest.mark.parametrize("call", sorted(CALLS), ids=" ".join)
def test_an_answer_is_what_the_document_says(busy: Desk, call: tuple[str, str]) -> None:
    make, status = CALLS[call]
    answer = make(busy)
    assert answer.status_code == status, answer.text
    # What leads elsewhere has no body that could be looked at.
    assert status == 302 or (*call, status) in busy_document(busy).seen


def test_what_differs_from_the_document_is_noticed(document: Document) -> None:
    document.look("GET", "/user", 200, {"login": "ada"})
    document.look("GET", "/meta", 200, {"verifiable_password_authentication": True, "unheard_of": 1})
    document.look("GET", "/zoo", 200, {})
    document.look("DELETE", "/installation/token", 200, {})
    document.look("POST", "/repos/{owner}/{repo}/pulls", 422, {"message": "No", "errors": [{"field": "base"}]})
    faults, document.faults = document.faults, []
    assert len(faults) >= 5, faults
    assert {fault.split()[1] for fault in faults} == {"/user", "/meta", "/zoo", "/installation/token",
                                                      "/repos/{owner}/{repo}/pulls"}  # fmt: skip


def busy_document(desk: Desk) -> Any:
    look = desk.github.wire.rest.look
    assert look is not None
    return look.__self__  # type: ignore[attr-defined] # it is the document's method


def test_every_call_that_the_stand_in_answers_is_shown() -> None:
    assert {(method, path) for method, path, _ in (*rest_app.ROUTES, *rest_repos.ROUTES)} == set(CALLS)


def test_an_installation_of_thousands_is_listed_in_pages(checked: Desk) -> None:
    checked.github.make_repos(checked.acme, 2345)
    checked.github.cover(checked.app, checked.acme, "all")
    found, path, pages = [], "/installation/repositories?per_page=100", 0
    while path:
        answer = checked.ask("GET", path, checked.its_token)
        assert answer.json()["total_count"] == 2347
        found += [one["id"] for one in answer.json()["repositories"]]
        path, pages = answer.links.get("next", {}).get("url", ""), pages + 1
    assert (len(set(found)), pages) == (2347, 24)


def test_what_did_not_change_is_not_sent_again_nor_counted_twice(checked: Desk) -> None:
    first = checked.ask("GET", APP, checked.token)
    again = checked.ask("GET", APP, checked.token, **{"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    checked.github.archive(checked.repo)
    assert checked.ask("GET", APP, checked.token, **{"if-none-match": first.headers["etag"]}).status_code == 200


def test_a_log_is_fetched_from_where_the_answer_leads_without_a_token(busy: Desk) -> None:
    answer = busy.ask("GET", f"{APP}/actions/jobs/{busy.repo.checks[0].id}/logs", busy.token)
    assert httpx2.get(answer.headers["location"], trust_env=False).text == "line 1\nline 2\n"


def test_a_repository_of_another_name_is_found_where_the_answer_leads(busy: Desk) -> None:
    busy.github.rename(busy.repo, "better")
    answer = busy.ask("GET", f"{APP}/pulls/1?x=1", busy.token)
    assert answer.status_code == 301
    assert answer.json()["url"] == answer.headers["location"]
    path = answer.headers["location"].removeprefix(busy.github.api)
    assert busy.ask("GET", path, busy.token).json()["head"]["repo"]["full_name"] == "acme/better"
    told = busy.ask("POST", f"{APP}/issues/1/comments", busy.token, {"body": "Here?"})
    assert told.status_code == 307


def test_whether_a_pull_request_can_be_merged_is_known_at_the_second_look(busy: Desk) -> None:
    looks = [busy.ask("GET", f"{APP}/pulls/1", busy.token).json()["mergeable"] for _ in range(2)]
    assert looks == [None, True]
    busy.github.push_from_outside(busy.repo, "main", {"README.md": "of main\n"})
    busy.github.push_from_outside(busy.repo, "work", {"README.md": "of work\n"})
    assert busy.ask("GET", f"{APP}/pulls/1", busy.token).json()["mergeable"] is False
    busy.github.push_from_outside(busy.repo, "work", {"README.md": "of main\n"})
    busy.github.merge(busy.repo, busy.repo.issues[1], busy.ada)
    merged = busy.ask("GET", f"{APP}/pulls/1", busy.token).json()
    assert (merged["state"], merged["merged"], merged["merged_by"]["login"]) == ("closed", True, "ada")
