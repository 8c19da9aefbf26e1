"""What every GitHub answers, in memory and over HTTP. Source: rift.drivers.github.protocol."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from tests.conformance.github.conftest import Kit

from keel.db import Database
from keel.testing.plugin import FreshDatabase
from rift.drivers.github.protocol import (
    GitHubBusy,
    GitHubDenied,
    GitHubError,
    GitHubMissing,
    GitHubRefused,
    NoLogin,
    NotYet,
    UserTokens,
)


async def token_of(kit: Kit, id: int) -> str:
    return (await kit.github.installation_token(kit.app, id)).value


async def test_installations_are_listed_and_looked_at_one_by_one(kit: Kit) -> None:
    kit.org("acme", ["ada"])
    kit.user("grace")
    org, user = kit.install("acme"), kit.install("grace")
    found = {one.id: one for one in await kit.github.installations(kit.app)}
    assert {id: (one.account.login, one.account.kind, one.suspended) for id, one in found.items()} == {
        org: ("acme", "Organization", False), user: ("grace", "User", False),
    }  # fmt: skip
    kit.suspend(org)
    assert (await kit.github.installation(kit.app, org)).suspended
    kit.uninstall(org)
    with pytest.raises(GitHubMissing):
        await kit.github.installation(kit.app, org)
    assert [one.id for one in await kit.github.installations(kit.app)] == [user]


async def test_an_installations_token_is_kept_while_it_is_good_and_fresh_where_that_is_wanted(kit: Kit) -> None:
    kit.org("acme", ["ada"])
    id = kit.install("acme")
    first = await kit.github.installation_token(kit.app, id)
    assert await kit.github.installation_token(kit.app, id) == first
    assert first.expires_at > kit.clock.now() + timedelta(minutes=50)
    assert first.value not in repr(first)
    second = await kit.github.installation_token(kit.app, id, fresh=True)
    assert second.value != first.value
    kit.later(timedelta(minutes=56))
    third = await kit.github.installation_token(kit.app, id)
    assert third.value != second.value
    kit.suspend(id)
    with pytest.raises(GitHubDenied):
        await kit.github.installation_token(kit.app, id, fresh=True)
    with pytest.raises(GitHubMissing):
        await kit.github.installation_token(kit.app, 4711)


async def test_what_an_installation_covers_comes_in_pages_of_a_hundred(kit: Kit) -> None:
    kit.org("acme", ["ada"])
    id = kit.install("acme")
    kit.many(id, "acme", 230)
    token, page, names = await token_of(kit, id), 1, []
    while True:
        found = await kit.github.repositories(token, page)
        assert found.total == 230
        names += [one.name for one in found.repositories]
        if found.next is None:
            break
        page = found.next
    assert page == 3
    assert sorted(names) == [f"repo-{number:05}" for number in range(230)]
    one = found.repositories[0]
    assert (one.owner, one.archived, one.default_branch) == ("acme", False, "main")


async def test_a_repository_is_found_by_its_name_and_known_by_its_id(kit: Kit) -> None:
    kit.org("acme", ["ada"])
    id = kit.install("acme")
    for name in ("app", "lib"):
        kit.repository(id, f"acme/{name}")
    token = await token_of(kit, id)
    page = await kit.github.repositories(token, 1)
    for one in page.repositories:
        assert await kit.github.repository(token, f"acme/{one.name}") == one
    assert len({one.id for one in page.repositories}) == 2
    with pytest.raises(GitHubMissing):
        await kit.github.repository(token, "acme/other")
    with pytest.raises(GitHubDenied):
        await kit.github.repository("ghs_no-token-of-anybody", "acme/app")


async def test_a_person_logs_in_by_typing_a_code_and_it_is_good_once(kit: Kit) -> None:
    kit.user("ada")
    code = await kit.github.device_code(kit.app)
    assert code.device_code not in repr(code)
    assert (code.url.endswith("/login/device"), code.every > 0, code.expires_in > 60) == (True, True, True)
    kit.later(timedelta(seconds=code.every))
    assert isinstance(await kit.github.device_tokens(kit.app, code.device_code), NotYet)
    kit.answer(code.user_code, "ada")
    kit.later(timedelta(seconds=code.every + 6))
    tokens = await kit.github.device_tokens(kit.app, code.device_code)
    assert isinstance(tokens, UserTokens)
    assert tokens.access not in repr(tokens)
    assert tokens.expires_at is not None
    assert tokens.expires_at > kit.clock.now()
    assert (await kit.github.user(tokens.access)).login == "ada"
    kit.later(timedelta(seconds=30))
    assert await kit.github.device_tokens(kit.app, code.device_code) == NoLogin("expired")


async def test_who_asks_too_early_is_told_to_ask_less_often(kit: Kit) -> None:
    kit.user("ada")
    code = await kit.github.device_code(kit.app)
    kit.later(timedelta(seconds=code.every))
    assert isinstance(await kit.github.device_tokens(kit.app, code.device_code), NotYet)
    early = await kit.github.device_tokens(kit.app, code.device_code)
    assert isinstance(early, NotYet)
    assert early.every > code.every


async def test_a_login_that_is_denied_or_takes_too_long_gives_nothing(kit: Kit) -> None:
    kit.user("ada")
    code = await kit.github.device_code(kit.app)
    kit.answer(code.user_code, None)
    kit.later(timedelta(seconds=code.every))
    assert await kit.github.device_tokens(kit.app, code.device_code) == NoLogin("denied")
    late = await kit.github.device_code(kit.app)
    kit.later(timedelta(hours=1))
    assert await kit.github.device_tokens(kit.app, late.device_code) == NoLogin("expired")
    assert await kit.github.device_tokens(kit.app, "nobody's") == NoLogin("expired")


async def test_a_code_that_a_browser_brings_back_is_exchanged_once(kit: Kit) -> None:
    kit.user("ada")
    code = kit.code("ada")
    tokens = await kit.github.exchange(kit.app, code)
    assert (await kit.github.user(tokens.access)).login == "ada"
    for bad in (code, "guessed"):
        with pytest.raises(GitHubDenied):
            await kit.github.exchange(kit.app, bad)


async def test_a_refresh_token_gives_newer_tokens_once(kit: Kit) -> None:
    kit.user("ada")
    first = await kit.github.exchange(kit.app, kit.code("ada"))
    assert first.refresh is not None
    second = await kit.github.refresh(kit.app, first.refresh)
    assert second.access != first.access
    assert (await kit.github.user(second.access)).login == "ada"
    for bad in (first.refresh, "guessed"):
        with pytest.raises(GitHubDenied):
            await kit.github.refresh(kit.app, bad)


async def test_an_authorization_is_taken_back_whole_and_one_that_is_gone_is_fine(kit: Kit) -> None:
    kit.user("ada")
    tokens = kit.person("ada")
    await kit.github.revoke(kit.app, tokens.access)
    with pytest.raises(GitHubDenied):
        await kit.github.user(tokens.access)
    await kit.github.revoke(kit.app, tokens.access)


async def test_a_token_is_over_in_time(kit: Kit) -> None:
    kit.user("ada")
    tokens = kit.person("ada")
    assert (await kit.github.user(tokens.access)).kind == "User"
    kit.later(timedelta(hours=9))
    with pytest.raises(GitHubDenied):
        await kit.github.user(tokens.access)


async def test_people_reach_their_own_installation_and_those_of_their_organizations(kit: Kit) -> None:
    kit.org("acme", ["ada"], ["bob"])
    kit.org("other", ["grace"])
    kit.user("ada")
    org, other, own = kit.install("acme"), kit.install("other"), kit.install("ada")
    kit.repository(org, "acme/app")
    assert {one.id for one in await kit.github.user_installations(kit.person("ada").access)} == {org, own}
    assert {one.id for one in await kit.github.user_installations(kit.person("grace").access)} == {other}
    with pytest.raises(GitHubDenied):
        await kit.github.user_installations("guessed")


async def test_an_organizations_owners_are_told_from_its_members_and_from_others(kit: Kit) -> None:
    kit.org("acme", ["ada"], ["bob"])
    kit.user("mallory")
    token = await token_of(kit, kit.install("acme"))
    found = [await kit.github.owns(token, "acme", login) for login in ("ada", "bob", "mallory", "nobody-at-all")]
    assert found == [True, False, False, False]
    with pytest.raises(GitHubDenied):
        await kit.github.owns("guessed", "acme", "ada")


async def test_the_app_that_was_just_made_is_told_once(kit: Kit) -> None:
    code = kit.made("code1")
    made = await kit.github.convert(code)
    assert made.slug == "another"
    assert made.private_key not in repr(made)
    with pytest.raises(GitHubMissing):
        await kit.github.convert(code)


async def test_another_apps_key_opens_nothing(kit: Kit) -> None:
    kit.org("acme", ["ada"])
    id = kit.install("acme")
    other = replace(kit.app, id=kit.app.id + 1000, client_secret="guessed")
    for asked in (kit.github.installations(other), kit.github.installation_token(other, id)):
        with pytest.raises(GitHubError):
            await asked


async def test_a_pull_request_is_opened_once_and_found_by_its_branch(kit: Kit) -> None:
    kit.org("acme", ["ada"])
    id = kit.install("acme")
    kit.repository(id, "acme/app")
    kit.branch("acme/app", "main")
    commit = kit.branch("acme/app", "fix")
    token = kit.person("ada").access
    asked = {"head": "fix", "base": "main", "title": "Mend it", "body": "words", "draft": False}
    made = await kit.github.open_pull(token, "acme/app", **asked)  # type: ignore[arg-type] # each of its type
    assert (made.title, made.state, made.head, made.base, made.author) == ("Mend it", "open", "fix", "main", "ada")
    assert (made.head_commit, made.body, made.merged, made.draft) == (commit, "words", False, False)
    assert [one.number for one in await kit.github.pulls_of(token, "acme/app", "fix")] == [made.number]
    assert await kit.github.pulls_of(token, "acme/app", "main") == ()
    assert (await kit.github.pull(token, "acme/app", made.number)).url == made.url
    for wrong in (asked, {**asked, "head": "nothing"}):
        with pytest.raises(GitHubRefused) as told:
            await kit.github.open_pull(token, "acme/app", **wrong)  # type: ignore[arg-type] # each of its type
        assert told.value.reason
    with pytest.raises(GitHubMissing):
        await kit.github.pull(token, "acme/app", 4711)
    with pytest.raises(GitHubMissing):
        await kit.github.pull(token, "acme/nothing", 1)


async def test_an_issue_is_read_with_its_comments_and_commented(kit: Kit) -> None:
    kit.org("acme", ["ada"])
    id = kit.install("acme")
    kit.repository(id, "acme/app")
    number = kit.issue("acme/app", "It fails", "ada", ("bug", "good first issue"))
    token = kit.person("ada").access
    issue = await kit.github.issue(token, "acme/app", number)
    assert (issue.title, issue.state, issue.author, issue.labels) == (
        "It fails",
        "open",
        "ada",
        ("bug", "good first issue"),
    )
    assert (issue.body, issue.comments, issue.is_pull) == ("what", 0, False)
    said = await kit.github.comment(token, "acme/app", number, "me too")
    assert (said.author, said.body) == ("ada", "me too")
    assert [one.body for one in await kit.github.comments(token, "acme/app", number)] == ["me too"]
    assert (await kit.github.issue(token, "acme/app", number)).comments == 1
    with pytest.raises(GitHubMissing):
        await kit.github.comment(token, "acme/app", 4711, "x")


async def test_reviews_are_told_with_the_comments_on_lines(kit: Kit) -> None:
    kit.org("acme", ["ada", "bob"])
    id = kit.install("acme")
    kit.repository(id, "acme/app")
    kit.branch("acme/app", "main")
    kit.branch("acme/app", "fix")
    token = kit.person("ada").access
    made = await kit.github.open_pull(token, "acme/app", head="fix", base="main", title="Mend it", body="", draft=False)
    kit.review("acme/app", made.number, "bob", "CHANGES_REQUESTED", "not yet", ("a.txt", 3, "why?"))
    found = await kit.github.reviews(token, "acme/app", made.number)
    assert {(one.author, one.verdict, one.body, one.path, one.line) for one in found} == {
        ("bob", "changes_requested", "not yet", "", None), ("bob", "commented", "why?", "a.txt", 3),
    }  # fmt: skip


async def test_the_newest_check_of_each_name_is_told_and_the_log_of_one_that_failed(kit: Kit) -> None:
    kit.org("acme", ["ada"])
    id = kit.install("acme")
    kit.repository(id, "acme/app")
    commit = kit.branch("acme/app", "fix")
    kit.check("acme/app", commit, "test", "success", None)
    kit.check("acme/app", commit, "test", "failure", "line 1\nit failed\n")
    kit.check("acme/app", commit, "lint", None, None)
    kit.check("acme/app", commit, "docs", "skipped", None)
    kit.status("acme/app", commit, "ci/other", "pending")
    token = kit.person("ada").access
    found = {one.name: one for one in await kit.github.checks(token, "acme/app", commit)}
    assert {name: one.state for name, one in found.items()} == {
        "test": "failed", "lint": "running", "docs": "skipped", "ci/other": "running",
    }  # fmt: skip
    log = await kit.github.job_log(token, "acme/app", found["test"])
    assert log is not None
    assert log.endswith("it failed\n")
    assert await kit.github.job_log(token, "acme/app", found["ci/other"]) is None


async def test_who_asks_too_often_learns_until_when(kit: Kit) -> None:
    kit.org("acme", ["ada"])
    id = kit.install("acme")
    token = await token_of(kit, id)
    kit.limit(id)
    with pytest.raises(GitHubBusy) as busy:
        await kit.github.repositories(token, 1)
    assert timedelta(minutes=29) < busy.value.until - kit.clock.now() < timedelta(minutes=31)


async def test_a_github_that_fails_raises_that_and_nothing_else(kit: Kit) -> None:
    kit.user("ada")
    token = kit.person("ada").access
    kit.break_down()
    with pytest.raises(GitHubError) as failed:
        await kit.github.user(token)
    assert type(failed.value) is GitHubError
    assert token not in failed.value.reason


async def test_nothing_is_asked_inside_a_transaction(kit: Kit, database: FreshDatabase) -> None:
    kit.org("acme", ["ada"])
    id = kit.install("acme")
    await token_of(kit, id)
    async with Database(database.runtime) as db, db.tx():
        with pytest.raises(RuntimeError):
            await token_of(kit, id)
        with pytest.raises(RuntimeError):
            await kit.github.device_code(kit.app)
