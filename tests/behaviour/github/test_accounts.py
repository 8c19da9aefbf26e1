"""GitHub's accounts and our organizations: who may connect which, what an address proves, and who wins a race."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.behaviour.github.hub import Hub, code_of
from tests.unit.people.house import act, caller, user

from keel.refusal import Ask, Call, Refusal
from rift.drivers.github.protocol import GitHubDenied, GitHubError, GitHubMissing
from rift.github import actions
from rift.github.model import Connected, Found, Install, Requested
from rift.logins import actions as logins
from rift.people import actions as people
from rift.settings import RiftSettings


async def test_an_admin_gets_the_install_url_of_the_app_with_a_state_that_is_kept_as_a_digest(hub: Hub) -> None:
    to = await hub.connect(hub.ada, "acme")
    assert isinstance(to, Install)
    assert to.url.startswith("https://github.com/apps/rift-test/installations/new?state=")
    state = parse_qs(urlsplit(to.url).query)["state"][0]
    assert len(state) == 43
    assert state not in repr(await hub.rows("SELECT * FROM github_connects")) + repr(await hub.rows("TABLE ledger"))


async def test_members_and_strangers_connect_and_enable_nothing(hub: Hub) -> None:
    member = await hub.connect(hub.bob, "acme")
    assert isinstance(member, Refusal)
    assert (member.code, member.mends) == (
        "needs_admin", (Ask("an admin of acme", 'rift_github_connect {"org": "acme"}'),)
    )  # fmt: skip
    assert code_of(await hub.connect(hub.grace, "acme")) == "no_such_org"
    assert code_of(await hub.enable(hub.bob, "acme", "acme-inc")) == "needs_admin"
    assert code_of(await hub.enable(hub.grace, "acme", "acme-inc")) == "no_such_org"


async def test_without_an_app_whoever_runs_the_server_is_named(hub: Hub) -> None:
    bare = replace(hub.deps, settings=RiftSettings())
    refused = await actions.connect(bare, act(hub.ada), "acme")
    assert isinstance(refused, Refusal)
    assert refused.code == "no_github_app"
    assert "rift github app-manifest" in str(refused.mends)
    with pytest.raises(GitHubError, match="no GitHub App"):
        await actions.installation_token(bare, 1)


async def test_personal_connects_the_persons_own_github_user_after_a_login_and_no_other(hub: Hub) -> None:
    refused = await hub.connect(hub.grace, "personal")
    assert isinstance(refused, Refusal)
    assert (refused.code, refused.mends) == ("no_github_login", (Call("rift_github_login"),))
    await hub.logged_in(hub.grace, "grace-h")
    state = await hub.state(hub.grace, "personal")
    org, other = hub.github.install("navy", "Organization", "grace-h"), hub.github.install("somebody")
    hub.github.members["grace-h"].add("somebody")
    assert code_of(await hub.back(hub.grace, state, "grace-h", org.id)) == "github_wrong_kind"
    state = await hub.state(hub.grace, "personal")
    assert code_of(await hub.back(hub.grace, state, "grace-h", other.id)) == "github_wrong_kind"
    own = hub.github.install("grace-h")
    done = await hub.connect(hub.grace, "personal")
    assert isinstance(done, Connected)
    assert (done.account.installation, done.account.state, done.new) == (own.id, "disabled", True)
    again = await hub.connect(hub.grace, "personal")
    assert isinstance(again, Connected)
    assert not again.new


async def test_an_owner_comes_back_and_the_account_is_connected_and_covered_and_logged_in(hub: Hub) -> None:
    state = await hub.state(hub.ada, "acme")
    there = hub.github.install("acme-inc", "Organization", "ada-l")
    done = await hub.back(hub.ada, state, "ada-l", there.id)
    assert isinstance(done, Connected)
    assert (done.account.login, done.account.kind, done.account.state) == ("acme-inc", "Organization", "disabled")
    assert ("coverage.cover", {"installation": there.id}) in await hub.jobs()
    assert (await logins.everybody(hub.deps))[0].login == "ada-l"
    assert [row["org"] for row in await hub.rows("SELECT org FROM github_accounts")] == [done.account.org]


async def test_a_state_is_good_once_and_for_who_began_in_time(hub: Hub) -> None:
    there = hub.github.install("acme-inc", "Organization", "ada-l")
    state = await hub.state(hub.ada, "acme")
    assert code_of(await hub.back(hub.bob, state, "ada-l", there.id)) == "github_connect_over"
    assert code_of(await hub.back(hub.grace, state, "ada-l", there.id)) == "github_connect_over"
    assert code_of(await hub.back(hub.ada, state[:-1] + "A", "ada-l", there.id)) == "github_connect_over"
    assert code_of(await hub.back(hub.ada, "", "ada-l", there.id)) == "github_connect_over"
    assert isinstance(await hub.back(hub.ada, state, "ada-l", there.id), Connected)
    assert code_of(await hub.back(hub.ada, state, "ada-l", there.id)) == "github_connect_over"
    late = await hub.connect(hub.ada, "acme")
    assert isinstance(late, Install)
    hub.clock.advance(timedelta(hours=1, seconds=1))
    state = parse_qs(urlsplit(late.url).query)["state"][0]
    assert code_of(await hub.back(hub.ada, state, "ada-l", there.id)) == "github_connect_over"


async def test_two_who_come_back_with_one_state_at_once_are_one(hub: Hub) -> None:
    there = hub.github.install("acme-inc", "Organization", "ada-l")
    state = await hub.state(hub.ada, "acme")
    both = await asyncio.gather(*(hub.back(hub.ada, state, "ada-l", there.id) for _ in range(6)))
    assert sum(isinstance(one, Connected) for one in both) == 1
    assert {one.code for one in both if isinstance(one, Refusal)} == {"github_connect_over"}


async def test_the_number_of_somebody_elses_installation_proves_nothing(hub: Hub) -> None:
    victim = hub.github.install("victim-inc", "Organization", "victim")
    state = await hub.state(hub.grace, "hopper")
    assert code_of(await hub.back(hub.grace, state, "mallory", victim.id)) == "github_not_yours"
    state = await hub.state(hub.grace, "hopper")
    assert code_of(await hub.back(hub.grace, state, "mallory", 4711)) == "github_not_yours"
    assert await hub.rows("SELECT * FROM github_accounts") == []
    assert await hub.rows("SELECT * FROM github_users") == []


async def test_who_reads_one_repository_of_an_organization_does_not_give_all_of_them_away(hub: Hub) -> None:
    victim = hub.github.install("victim-inc", "Organization", "victim")
    hub.github.account("mallory")
    hub.github.members["mallory"] = {"victim-inc"}
    state = await hub.state(hub.grace, "hopper")
    assert code_of(await hub.back(hub.grace, state, "mallory", victim.id)) == "github_not_owner"
    await hub.logged_in(hub.grace, "mallory")
    assert isinstance(await hub.connect(hub.grace, "hopper"), Install)
    assert await actions.found(hub.deps, hub.grace, "hopper") == []
    refused = await actions.connect_found(hub.deps, act(hub.grace), "hopper", victim.id)
    assert code_of(refused) == "github_not_yours"
    assert await hub.rows("SELECT * FROM github_accounts") == []


async def test_a_code_of_nobody_or_one_that_was_used_connects_nothing(hub: Hub) -> None:
    there = hub.github.install("acme-inc", "Organization", "ada-l")
    state = await hub.state(hub.ada, "acme")
    assert code_of(await hub.back(hub.ada, state, "", there.id, code="guessed")) == "github_connect_over"
    state, code = await hub.state(hub.ada, "acme"), hub.github.code("ada-l")
    assert isinstance(await hub.back(hub.ada, state, "", there.id, code=code), Connected)
    state = await hub.state(hub.ada, "acme")
    assert code_of(await hub.back(hub.ada, state, "", there.id, code=code)) == "github_connect_over"
    state = await hub.state(hub.ada, "acme")
    assert code_of(await hub.back(hub.ada, state, "ada-l", None)) == "github_connect_over"


async def test_a_team_connects_organizations_and_no_user(hub: Hub) -> None:
    own = hub.github.install("ada-l")
    state = await hub.state(hub.ada, "acme")
    refused = await hub.back(hub.ada, state, "ada-l", own.id)
    assert isinstance(refused, Refusal)
    assert (refused.code, refused.mends) == ("github_wrong_kind", (Call("rift_github_connect", {"org": "personal"}),))


async def test_an_account_of_another_organization_is_refused_without_saying_whose_it_is(hub: Hub) -> None:
    there = hub.github.install("acme-inc", "Organization", "ada-l", "grace-h")
    assert isinstance(await hub.back(hub.ada, await hub.state(hub.ada, "acme"), "ada-l", there.id), Connected)
    refused = await hub.back(hub.grace, await hub.state(hub.grace, "hopper"), "grace-h", there.id)
    assert isinstance(refused, Refusal)
    assert refused.code == "github_account_taken"
    assert "acme-inc" in refused.sentence
    assert "acme" not in refused.sentence.replace("acme-inc", "")


async def test_of_two_organizations_that_connect_one_account_at_once_one_has_it(hub: Hub) -> None:
    there = hub.github.install("acme-inc", "Organization", "ada-l", "grace-h")
    ours, theirs = await hub.state(hub.ada, "acme"), await hub.state(hub.grace, "hopper")
    both = await asyncio.gather(
        hub.back(hub.ada, ours, "ada-l", there.id), hub.back(hub.grace, theirs, "grace-h", there.id)
    )
    assert sorted(isinstance(one, Connected) for one in both) == [False, True]
    assert {one.code for one in both if isinstance(one, Refusal)} == {"github_account_taken"}
    assert len(await hub.rows("SELECT * FROM github_accounts")) == 1


async def test_an_installation_that_is_there_is_connected_at_once_if_it_can_be_no_other(hub: Hub) -> None:
    await hub.logged_in(hub.ada, "ada-l")
    first = hub.github.install("acme-inc", "Organization", "ada-l")
    done = await hub.connect(hub.ada, "acme")
    assert isinstance(done, Connected)
    assert (done.account.installation, done.new) == (first.id, True)
    second, third = (hub.github.install(name, "Organization", "ada-l") for name in ("labs", "shop"))
    to = await hub.connect(hub.ada, "acme")
    assert isinstance(to, Install)
    assert to.others == ("labs", "shop")
    assert await actions.found(hub.deps, hub.ada, "acme") == [Found(second.id, "labs"), Found(third.id, "shop")]
    chosen = await actions.connect_found(hub.deps, act(hub.ada), "acme", third.id)
    assert isinstance(chosen, Connected)
    assert chosen.account.login == "shop"


async def test_where_an_owner_has_to_approve_it_first_that_is_told_and_nothing_is_connected(hub: Hub) -> None:
    state = await hub.state(hub.ada, "acme")
    assert isinstance(await hub.back(hub.ada, state, "ada-l", None, setup="request"), Requested)
    assert await hub.rows("SELECT * FROM github_accounts") == []


async def test_who_is_no_admin_any_more_when_they_come_back_connects_nothing(hub: Hub) -> None:
    there = hub.github.install("acme-inc", "Organization", "ada-l")
    state = await hub.state(hub.ada, "acme")
    await people.set_role(hub.deps, act(hub.ada), "acme", "bob@example.org", "admin")
    await people.set_role(hub.deps, act(hub.ada), "acme", "ada@example.org", "member")
    assert code_of(await hub.back(hub.ada, state, "ada-l", there.id)) == "needs_admin"
    await people.leave(hub.deps, act(hub.ada), "acme")
    assert code_of(await hub.connect(hub.ada, "acme")) == "no_such_org"


async def test_github_being_away_connects_nothing_and_is_told(hub: Hub) -> None:
    there = hub.github.install("acme-inc", "Organization", "ada-l")
    state, code = await hub.state(hub.ada, "acme"), hub.github.code("ada-l")
    hub.github.down = True
    assert code_of(await hub.back(hub.ada, state, "", there.id, code=code)) == "github_away"
    assert code_of(await hub.connect(hub.grace, "personal")) == "no_github_login"
    hub.github.down = False
    await hub.logged_in(hub.ada, "ada-l")
    hub.github.down = True
    assert code_of(await hub.connect(hub.ada, "acme")) == "github_away"
    assert code_of(await actions.found(hub.deps, hub.ada, "acme")) == "github_away"


async def test_an_account_is_enabled_by_its_name_whatever_its_case_and_disabled_on_the_page(hub: Hub) -> None:
    there = hub.github.install("Acme-Inc", "Organization", "ada-l")
    assert isinstance(await hub.back(hub.ada, await hub.state(hub.ada, "acme"), "ada-l", there.id), Connected)
    on = await hub.enable(hub.ada, "acme", "acme-INC")
    assert isinstance(on, Connected)
    assert (on.account.state, on.new) == ("enabled", True)
    again = await hub.enable(hub.ada, "acme", "acme-inc")
    assert isinstance(again, Connected)
    assert not again.new
    assert code_of(await actions.disable(hub.deps, act(hub.bob), "acme", there.id)) == "needs_admin"
    assert code_of(await actions.disable(hub.deps, act(hub.grace), "hopper", there.id)) == "github_account_unknown"
    off = await actions.disable(hub.deps, act(hub.ada), "acme", there.id)
    assert not isinstance(off, Refusal)
    assert off.state == "disabled"


async def test_however_often_an_account_is_turned_on_and_off_one_list_of_it_waits(hub: Hub) -> None:
    state = await hub.state(hub.ada, "acme")
    there = hub.github.install("acme-inc", "Organization", "ada-l")
    assert isinstance(await hub.back(hub.ada, state, "ada-l", there.id), Connected)
    for _ in range(3):
        on = await hub.enable(hub.ada, "acme", "acme-inc")
        assert isinstance(on, Connected)
        await actions.disable(hub.deps, act(hub.ada), on.account.org, there.id)
    assert [name for name, _ in await hub.jobs()].count("coverage.cover") == 1


async def test_what_is_not_installed_suspended_or_removed_is_not_enabled(hub: Hub) -> None:
    unknown = await hub.enable(hub.ada, "acme", "acme-inc")
    assert isinstance(unknown, Refusal)
    assert (unknown.code, unknown.mends) == (
        "github_account_unknown", (Call("rift_github_connect", {"org": "acme"}),)
    )  # fmt: skip
    there = hub.github.install("acme-inc", "Organization", "ada-l")
    assert isinstance(await hub.back(hub.ada, await hub.state(hub.ada, "acme"), "ada-l", there.id), Connected)
    near = await hub.enable(hub.ada, "acme", "acme-ink")
    assert isinstance(near, Refusal)
    assert near.mends[0] == Call("rift_github_enable", {"org": "acme", "account": "acme-inc"})
    async with hub.deps.db.tx() as tx:
        assert await actions.note_suspended(tx, hub.deps, there.id, True)
        assert not await actions.note_suspended(tx, hub.deps, there.id, True)
    assert code_of(await hub.enable(hub.ada, "acme", "acme-inc")) == "github_account_suspended"
    async with hub.deps.db.tx() as tx:
        assert await actions.note_suspended(tx, hub.deps, there.id, False)
        assert await actions.note_removed(tx, hub.deps, there.id)
    assert code_of(await hub.enable(hub.ada, "acme", "acme-inc")) == "github_account_removed"


async def test_a_suspended_organization_is_not_connected_by_who_comes_back(hub: Hub) -> None:
    there = hub.github.install("acme-inc", "Organization", "ada-l")
    hub.github.suspend(there.id)
    state = await hub.state(hub.ada, "acme")
    assert code_of(await hub.back(hub.ada, state, "ada-l", there.id)) == "github_account_suspended"


async def test_an_app_that_is_installed_anew_takes_the_place_of_the_one_that_was_removed(hub: Hub) -> None:
    old = hub.github.install("acme-inc", "Organization", "ada-l")
    assert isinstance(await hub.back(hub.ada, await hub.state(hub.ada, "acme"), "ada-l", old.id), Connected)
    hub.github.uninstall(old.id)  # and nobody told us
    new = hub.github.install("acme-inc", "Organization", "grace-h")
    done = await hub.back(hub.grace, await hub.state(hub.grace, "hopper"), "grace-h", new.id)
    assert isinstance(done, Connected)
    rows = await hub.rows("SELECT installation, removed_at IS NULL AS there FROM github_accounts ORDER BY installation")
    assert [(row["installation"], row["there"]) for row in rows] == [(old.id, False), (new.id, True)]


async def test_an_account_that_is_renamed_is_known_by_its_new_name(hub: Hub) -> None:
    there = hub.github.install("acme-inc", "Organization", "ada-l")
    assert isinstance(await hub.back(hub.ada, await hub.state(hub.ada, "acme"), "ada-l", there.id), Connected)
    async with hub.deps.db.tx() as tx:
        assert await actions.note_login(tx, there.account.id, "acme-corp")
        assert not await actions.note_login(tx, there.account.id, "acme-corp")
    assert [one.login for one in await actions.everything(hub.deps)] == ["acme-corp"]
    assert isinstance(await hub.enable(hub.ada, "acme", "acme-corp"), Connected)


async def test_an_installations_token_is_kept_while_it_is_good_and_asked_for_anew_where_it_is_wanted(hub: Hub) -> None:
    there = hub.github.install("acme-inc", "Organization", "ada-l")
    first = await actions.installation_token(hub.deps, there.id)
    assert await actions.installation_token(hub.deps, there.id) == first
    assert await actions.installation_token(hub.deps, there.id, fresh=True) != first
    hub.clock.advance(timedelta(minutes=56))
    assert hub.github.asked.count("installation_token") == 2
    await actions.installation_token(hub.deps, there.id)
    assert hub.github.asked.count("installation_token") == 3
    hub.github.suspend(there.id)
    with pytest.raises(GitHubDenied):
        await actions.installation_token(hub.deps, there.id, fresh=True)
    with pytest.raises(GitHubMissing):
        await actions.installation_token(hub.deps, 4711)


async def test_somebody_who_was_put_out_between_leaving_and_coming_back_connects_nothing(hub: Hub) -> None:
    await user(hub.deps, "eve@example.org")
    eve = await caller(hub.deps, "eve@example.org")
    await people.new_team(hub.deps, act(eve), "eves")
    there = hub.github.install("eve-inc", "Organization", "eve")
    state = await hub.state(eve, "eves")
    await people.disable(hub.deps, people.operator(hub.deps, "rift user disable", {}), "eve@example.org")
    assert code_of(await hub.back(eve, state, "eve", there.id)) == "no_such_org"
    assert await hub.rows("SELECT * FROM github_accounts") == []
    assert await hub.rows("SELECT * FROM github_users") == []
