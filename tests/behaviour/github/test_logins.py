"""People's own GitHub accounts: the device flow step by step, newer tokens once, and what is never used again."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.behaviour.github.hub import Hub, code_of
from tests.unit.people.house import act

from keel.refusal import Refusal
from keel.vault import vault_of
from rift.drivers.github.fake import APP
from rift.drivers.github.protocol import Account, App, UserTokens
from rift.logins import actions, store
from rift.logins.model import Gone, Person, Step
from rift.people import actions as people
from rift.people.actions import operator
from rift.settings import RiftSettings


async def test_a_login_is_an_address_and_a_code_first_and_then_a_check_that_names_the_user(hub: Hub) -> None:
    begun = await hub.login(hub.ada)
    assert isinstance(begun, Step)
    assert (begun.status, begun.url, begun.seconds) == ("begun", "https://github.com/login/device", 5)
    hub.clock.advance(5)
    waiting = await hub.login(hub.ada)
    assert isinstance(waiting, Step)
    assert (waiting.status, waiting.code, waiting.url) == ("waiting", begun.code, begun.url)
    hub.github.answer(begun.code, "ada-l")
    hub.clock.advance(5)
    assert await hub.login(hub.ada) == Step("connected", "ada-l")
    assert await hub.login(hub.ada) == Step("already", "ada-l")
    assert await hub.rows("SELECT * FROM github_logins") == []
    assert [one for one in await hub.outcomes() if one[2] == "rift_github_login"] == [
        (hub.ada.user, "mcp:Claude", "rift_github_login", "ok")
    ] * 4


async def test_github_is_asked_no_more_often_than_it_wants_however_often_the_call_comes(hub: Hub) -> None:
    begun = await hub.login(hub.ada)
    assert isinstance(begun, Step)
    early = await hub.login(hub.ada)
    assert isinstance(early, Step)
    assert (early.status, early.seconds) == ("waiting", 5)
    assert "device_tokens" not in hub.github.asked
    hub.clock.advance(5)
    many = await asyncio.gather(*(hub.login(hub.ada) for _ in range(20)))
    assert {one.status for one in many if isinstance(one, Step)} == {"waiting"}
    assert hub.github.asked.count("device_tokens") == 1
    assert "slow" not in str(many)


async def test_where_github_says_slow_down_the_next_check_is_later(hub: Hub) -> None:
    begun = await hub.login(hub.ada)
    assert isinstance(begun, Step)
    login = next(iter(hub.github.logins.values()))
    hub.clock.advance(5)
    login.ask_after = hub.clock.now() + timedelta(seconds=3)  # GitHub's clock is behind ours
    slower = await hub.login(hub.ada)
    assert isinstance(slower, Step)
    assert slower.seconds == 10
    hub.clock.advance(9)
    again = await hub.login(hub.ada)
    assert isinstance(again, Step)
    assert again.seconds == 1


async def test_logins_begun_at_once_are_one_and_show_one_code(hub: Hub) -> None:
    begun = await asyncio.gather(*(hub.login(hub.ada) for _ in range(8)))
    codes = {one.code for one in begun if isinstance(one, Step)}
    assert len(codes) == 1
    hub.github.answer(codes.pop(), "ada-l")
    hub.clock.advance(5)
    assert await hub.login(hub.ada) == Step("connected", "ada-l")


@pytest.mark.parametrize("how", ["denied", "expired"])
async def test_a_login_that_was_denied_or_ran_out_is_told_and_the_next_call_begins_anew(hub: Hub, how: str) -> None:
    begun = await hub.login(hub.ada)
    assert isinstance(begun, Step)
    if how == "denied":
        hub.github.answer(begun.code, "denied")
    else:
        next(iter(hub.github.logins.values())).expires_at = hub.clock.now()
    hub.clock.advance(5)
    assert code_of(await hub.login(hub.ada)) == f"github_login_{how}"
    anew = await hub.login(hub.ada)
    assert isinstance(anew, Step)
    assert anew.status == "begun"
    assert anew.code != begun.code


async def test_a_code_that_nobody_asked_about_in_time_is_replaced_by_another(hub: Hub) -> None:
    begun = await hub.login(hub.ada)
    hub.clock.advance(timedelta(hours=1))
    anew = await hub.login(hub.ada)
    assert isinstance(begun, Step)
    assert isinstance(anew, Step)
    assert (anew.status, anew.code == begun.code) == ("begun", False)


async def test_without_an_app_and_while_github_is_away_or_busy_a_login_says_so(hub: Hub) -> None:
    bare = replace(hub.deps, settings=RiftSettings())
    assert code_of(await actions.login(bare, act(hub.ada))) == "no_github_app"
    hub.github.down = True
    assert code_of(await hub.login(hub.ada)) == "github_away"
    hub.github.down = False
    hub.github.busy_until = hub.clock.now() + timedelta(seconds=90)
    busy = await hub.login(hub.ada)
    assert isinstance(busy, Refusal)
    assert (busy.code, busy.facts["seconds"]) == ("github_busy", 90)


async def test_what_is_kept_of_a_login_is_sealed_and_nowhere_in_the_records(hub: Hub) -> None:
    await hub.logged_in(hub.ada, "ada-l")
    kept = await hub.rows("SELECT * FROM github_users")
    access, grant = next(iter(hub.github.grants.items()))
    told = repr(kept) + repr(await hub.rows("SELECT * FROM ledger"))
    assert access not in told
    assert grant.refresh not in told
    assert json.loads(hub.deps.vault.open(kept[0]["sealed"], f"github user {hub.ada.user}"))["access"] == access
    token = await actions.person_token(hub.deps, hub.ada.user)
    assert access not in repr(token)


async def test_a_token_is_given_while_it_is_good_and_renewed_before_it_is_not(hub: Hub) -> None:
    assert code_of(await actions.person_token(hub.deps, hub.ada.user)) == "no_github_login"
    await hub.logged_in(hub.ada, "ada-l")
    first = await actions.person_token(hub.deps, hub.ada.user)
    hub.clock.advance(timedelta(hours=7, minutes=54))
    assert await actions.person_token(hub.deps, hub.ada.user) == first
    hub.clock.advance(timedelta(minutes=2))
    second = await actions.person_token(hub.deps, hub.ada.user)
    assert isinstance(first, Person)
    assert isinstance(second, Person)
    assert first.token != second.token
    assert (await hub.github.user(second.token)).login == "ada-l"


async def test_of_many_who_need_a_newer_token_at_once_one_uses_the_refresh_token_and_all_get_what_it_gives(
    hub: Hub,
) -> None:
    await hub.logged_in(hub.ada, "ada-l")
    hub.clock.advance(timedelta(hours=8))
    many = await asyncio.gather(*(actions.person_token(hub.deps, hub.ada.user) for _ in range(12)))
    assert hub.github.asked.count("refresh") == 1
    assert len({one.token for one in many if isinstance(one, Person)}) == 1
    assert all(isinstance(one, Person) for one in many)


async def test_an_attempt_that_was_cut_off_is_taken_up_by_another_later(hub: Hub) -> None:
    await hub.logged_in(hub.ada, "ada-l")
    hub.clock.advance(timedelta(hours=8))
    until = hub.clock.now() + timedelta(seconds=60)
    async with hub.deps.db.tx() as tx:  # a process claims the attempt, and ends
        await tx.run("UPDATE github_users SET refresh_epoch = 9, refresh_until = %(until)s", {"until": until})
    hub.clock.advance(61)
    assert isinstance(await actions.person_token(hub.deps, hub.ada.user), Person)


async def test_a_caller_who_goes_away_does_not_lose_the_tokens_that_are_on_their_way(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hub.logged_in(hub.ada, "ada-l")
    hub.clock.advance(timedelta(hours=8))
    asking, may = asyncio.Event(), asyncio.Event()
    refresh = hub.github.refresh

    async def slowly(app: App, token: str) -> UserTokens:
        found = await refresh(app, token)
        asking.set()
        await may.wait()
        return found

    monkeypatch.setattr(hub.github, "refresh", slowly)
    waiting = asyncio.create_task(actions.person_token(hub.deps, hub.ada.user))
    await asking.wait()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    other = asyncio.create_task(actions.person_token(hub.deps, hub.ada.user))
    may.set()
    assert isinstance(await other, Person)
    assert hub.github.asked.count("refresh") == 1


async def test_a_login_that_github_takes_no_more_is_told_and_done_again(hub: Hub) -> None:
    await hub.logged_in(hub.ada, "ada-l")
    for one in hub.github.grants.values():
        one.good = False
    hub.clock.advance(timedelta(hours=8))
    assert code_of(await actions.person_token(hub.deps, hub.ada.user)) == "github_login_over"
    asked = hub.github.asked.count("refresh")
    assert code_of(await actions.person_token(hub.deps, hub.ada.user)) == "github_login_over"
    assert hub.github.asked.count("refresh") == asked
    await hub.logged_in(hub.ada, "ada-l")
    assert isinstance(await actions.person_token(hub.deps, hub.ada.user), Person)


async def test_while_github_is_away_a_renewal_is_tried_again_by_the_next_call(hub: Hub) -> None:
    await hub.logged_in(hub.ada, "ada-l")
    hub.clock.advance(timedelta(hours=8))
    hub.github.down = True
    assert code_of(await actions.person_token(hub.deps, hub.ada.user)) == "github_away"
    hub.github.down = False
    assert isinstance(await actions.person_token(hub.deps, hub.ada.user), Person)


async def test_a_disconnected_account_is_forgotten_here_and_revoked_there(hub: Hub) -> None:
    await hub.logged_in(hub.ada, "ada-l")
    token = await actions.person_token(hub.deps, hub.ada.user)
    assert await actions.disconnect(hub.deps, act(hub.ada)) == Gone("ada-l", revoked=True)
    assert isinstance(token, Person)
    assert not hub.github.grants[token.token].good
    assert code_of(await actions.person_token(hub.deps, hub.ada.user)) == "no_github_login"
    assert code_of(await actions.disconnect(hub.deps, act(hub.ada))) == "no_github_account"


async def test_where_github_cannot_be_reached_an_account_is_forgotten_here_all_the_same_and_that_is_told(
    hub: Hub,
) -> None:
    await hub.logged_in(hub.ada, "ada-l")
    hub.github.down = True
    assert await actions.disconnect(hub.deps, act(hub.ada)) == Gone("ada-l", revoked=False)
    assert await hub.rows("SELECT * FROM github_users") == []


async def test_who_disconnects_while_the_first_tokens_are_on_their_way_stays_disconnected(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = await hub.login(hub.ada)
    assert isinstance(begun, Step)
    hub.github.answer(begun.code, "ada-l")
    hub.clock.advance(begun.seconds)
    user = hub.github.user

    async def meanwhile(token: str) -> Account:
        await actions.disconnect(hub.deps, act(hub.ada))
        return await user(token)

    monkeypatch.setattr(hub.github, "user", meanwhile)
    assert code_of(await hub.login(hub.ada)) == "no_github_login"
    assert await hub.rows("SELECT * FROM github_users") == []
    assert not any(one.good for one in hub.github.grants.values())


async def test_who_disconnects_while_newer_tokens_are_on_their_way_leaves_none_behind(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    await hub.logged_in(hub.ada, "ada-l")
    hub.clock.advance(timedelta(hours=8))
    refresh = hub.github.refresh

    async def meanwhile(app: App, token: str) -> UserTokens:
        found = await refresh(app, token)
        assert isinstance(await actions.disconnect(hub.deps, act(hub.ada)), Gone)
        return found

    monkeypatch.setattr(hub.github, "refresh", meanwhile)
    assert code_of(await actions.person_token(hub.deps, hub.ada.user)) == "no_github_login"
    assert not any(one.good for one in hub.github.grants.values())


async def test_the_token_of_who_was_put_out_is_used_by_nobody_and_soon_gone(hub: Hub) -> None:
    await hub.logged_in(hub.bob, "bobby")
    told = {"user": "bob@example.org"}
    done = await people.disable(hub.deps, operator(hub.deps, "rift user disable", told), "bob@example.org")
    assert not isinstance(done, Refusal)
    assert code_of(await actions.person_token(hub.deps, hub.bob.user)) == "no_github_login"
    assert ("logins.end_put_out", {}) in await hub.jobs()
    await actions.end_put_out(hub.deps)
    assert await hub.rows("SELECT * FROM github_users") == []
    assert not any(one.good for one in hub.github.grants.values())


async def test_a_login_that_ends_after_its_person_was_put_out_connects_nothing(hub: Hub) -> None:
    begun = await hub.login(hub.bob)
    assert isinstance(begun, Step)
    hub.github.answer(begun.code, "bobby")
    hub.clock.advance(5)
    await people.disable(hub.deps, operator(hub.deps, "rift user disable", {}), "bob@example.org")
    assert code_of(await hub.login(hub.bob)) == "disabled"
    assert await hub.rows("SELECT * FROM github_users") == []


async def test_an_authorization_that_was_taken_back_at_github_is_forgotten_here(hub: Hub) -> None:
    await hub.logged_in(hub.ada, "ada-l")
    account = hub.github.accounts["ada-l"].id
    await actions.check_account(hub.deps, account)
    assert len(await hub.rows("SELECT * FROM github_users")) == 1
    person = await actions.person_token(hub.deps, hub.ada.user)
    assert isinstance(person, Person)
    assert await actions.check_token(hub.deps, hub.ada.user, "one of before") is None
    await hub.github.revoke(APP, person.token)
    await actions.check_account(hub.deps, account)
    assert await hub.rows("SELECT * FROM github_users") == []
    assert code_of(await actions.check_token(hub.deps, hub.ada.user, person.token)) == "no_github_login"


async def test_whose_token_github_does_not_take_is_told_to_log_in_again(hub: Hub) -> None:
    await hub.logged_in(hub.ada, "ada-l")
    person = await actions.person_token(hub.deps, hub.ada.user)
    assert isinstance(person, Person)
    await hub.github.revoke(APP, person.token)
    assert code_of(await actions.check_token(hub.deps, hub.ada.user, person.token)) == "github_login_over"


async def test_tokens_that_cannot_be_unsealed_mean_another_login_and_no_failure(hub: Hub) -> None:
    await hub.logged_in(hub.ada, "ada-l")
    lost = replace(hub.deps, vault=vault_of([bytes(32)], hub.deps.ids))
    assert code_of(await actions.person_token(lost, hub.ada.user)) == "github_login_over"


async def test_what_was_begun_and_is_over_is_deleted(hub: Hub) -> None:
    await hub.login(hub.ada)
    await hub.state(hub.ada, "acme")
    hub.clock.advance(timedelta(days=2))
    await actions.forget(hub.deps)
    assert await hub.rows("SELECT * FROM github_logins") == []
    assert await hub.rows("SELECT * FROM github_connects") == []


async def test_who_looked_before_newer_tokens_came_claims_nothing_after(hub: Hub) -> None:
    await hub.logged_in(hub.ada, "ada-l")
    hub.clock.advance(timedelta(hours=8))
    async with hub.deps.db.tx() as tx:
        seen = await store.find(tx, hub.ada.user)
    assert seen is not None
    assert isinstance(await actions.person_token(hub.deps, hub.ada.user), Person)
    now = hub.clock.now()
    async with hub.deps.db.tx() as tx:
        assert await store.claim(tx, hub.ada.user, seen.refresh_epoch, now, now + timedelta(minutes=1)) is None
