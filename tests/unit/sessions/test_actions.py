"""Where people are signed in, on a real database: asking for a link, ending sessions, forgetting what is over."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from tests.unit.people.house import outcomes, user

from keel.refusal import Refusal
from keel.testing import FakeClock
from rift.audit import Act, SystemAct
from rift.deps import Deps
from rift.invites import actions as invites
from rift.mail import actions as mail
from rift.people import actions as people
from rift.people.model import OPERATOR, User
from rift.sessions import actions
from rift.sessions.model import Browser, Kind, Session, SignedIn

FIREFOX = Browser("Mozilla/5.0 (X11; Linux x86_64; rv:145.0) Gecko/20100101 Firefox/145.0")


async def signed_in(deps: Deps, person: User, browser: Browser = FIREFOX) -> SignedIn:
    secret = await mail.link_for(deps, person.email)
    assert not isinstance(secret, Refusal)
    done = await actions.use_link(deps, secret, browser)
    assert isinstance(done, SignedIn)
    return done


def act(session: Session) -> Act:
    return Act(session.caller, "web account", {}, 1000.0)


async def count(deps: Deps, table: str) -> int:
    async with deps.db.tx() as tx:
        row = await tx.row(f"SELECT count(*) AS n FROM {table}")
    assert row is not None
    return int(row["n"])


async def letters(deps: Deps) -> list[tuple[str, str, object]]:
    async with deps.db.tx() as tx:
        rows = await tx.rows("SELECT kind, email, facts FROM letters ORDER BY created_at, id")
    return [(row["kind"], row["email"], row["facts"]) for row in rows]


async def test_one_link_used_sixteen_times_at_once_is_one_session(deps: Deps) -> None:
    ada = await user(deps, "ada@example.org")
    secret = await mail.link_for(deps, ada.email)
    assert not isinstance(secret, Refusal)
    done = await asyncio.gather(*(actions.use_link(deps, secret, FIREFOX) for _ in range(16)))
    assert sum(isinstance(one, SignedIn) for one in done) == 1
    assert {one.code for one in done if isinstance(one, Refusal)} == {"link_over"}
    assert await count(deps, "sessions") == 1
    told = [(row[0], row[3]) for row in await outcomes(deps) if row[2] == "web sign in"]
    assert told.count((ada.id, "ok")) == 1
    assert told.count((None, "link_over")) == 15


async def test_signing_in_anew_makes_another_session_and_ends_the_one_before(deps: Deps) -> None:
    ada, bob = await user(deps, "ada@example.org"), await user(deps, "bob@example.org")
    first = await signed_in(deps, ada)
    second = await signed_in(deps, bob, Browser("", had=first.session.id))
    assert second.session.id != first.session.id
    assert second.secret != first.secret
    assert await actions.visitor(deps, first.secret) is None
    found = await actions.visitor(deps, second.secret)
    assert found is not None
    assert found.user == bob.id


async def test_a_person_ends_their_own_sessions_and_nobody_elses(deps: Deps) -> None:
    ada, bob = await user(deps, "ada@example.org"), await user(deps, "bob@example.org")
    here, there = await signed_in(deps, ada), await signed_in(deps, ada)
    theirs = await signed_in(deps, bob)
    for id in (theirs.session.id, "ses_nothing", "", "x" * 10_000):
        refused = await actions.end(deps, act(here.session), id)
        assert isinstance(refused, Refusal)
        assert refused.code == "no_such_session"
    assert await actions.end(deps, act(here.session), there.session.id) is None
    again = await actions.end(deps, act(here.session), there.session.id)
    assert isinstance(again, Refusal)
    assert await actions.visitor(deps, theirs.secret) is not None
    assert [one.id for one in await actions.of_caller(deps, here.session.caller)] == [here.session.id]


async def test_everywhere_else_is_not_here_and_everywhere_is(deps: Deps) -> None:
    ada, bob = await user(deps, "ada@example.org"), await user(deps, "bob@example.org")
    here, theirs = await signed_in(deps, ada), await signed_in(deps, bob)
    for _ in range(3):
        await signed_in(deps, ada)
    assert await actions.end_all(deps, act(here.session), this_too=False) == 3
    assert await actions.visitor(deps, here.secret) is not None
    assert await actions.end_all(deps, act(here.session), this_too=True) == 1
    assert await actions.visitor(deps, here.secret) is None
    assert await actions.visitor(deps, theirs.secret) is not None


async def test_who_may_sign_in_gets_a_letter_and_nobody_else_does(deps: Deps) -> None:
    await user(deps, "ada@example.org")
    bob = await user(deps, "bob@example.org")
    async with deps.db.tx() as tx:
        await tx.run("UPDATE users SET disabled_at = now() WHERE id = %(id)s", {"id": bob.id})
    for email in ("ADA@example.org", "bob@example.org", "eve@example.org"):
        await actions.send_link(deps, email, "/app/boxes")
    assert await letters(deps) == [("sign_in", "ada@example.org", {"next": "/app/boxes"})]
    told = [(row[0] is not None, row[3]) for row in await outcomes(deps) if row[2] == "web sign-in letter"]
    assert told == [(True, "ok"), (False, "disabled"), (False, "no_such_user")]


async def test_who_is_invited_and_has_no_account_gets_the_invitation_again(deps: Deps) -> None:
    invited = await invites.invite_account(deps, SystemAct("rift user invite", {}, 1000.0), "new@example.org")
    assert not isinstance(invited, Refusal)
    facts = {"invitation": invited.invitation.id, "inviter": OPERATOR}
    assert await letters(deps) == [("account_invitation", "new@example.org", facts)]
    async with deps.db.tx() as tx:
        await tx.run("UPDATE letters SET sent_at = created_at, next_at = NULL")
    assert await actions.send_link(deps, "New@example.org", "/app") is None
    assert await letters(deps) == 2 * [("account_invitation", "new@example.org", facts)]


@pytest.mark.parametrize("end", [actions.end_put_out, actions.forget], ids=["its job", "or the upkeep"])
async def test_the_sessions_of_who_was_put_out_do_not_come_back_with_them(
    deps: Deps, end: Callable[[Deps], Awaitable[object]]
) -> None:
    await user(deps, "root@example.org", admin=True)
    ada, bob = await user(deps, "ada@example.org"), await user(deps, "bob@example.org")
    done, other = await signed_in(deps, ada), await signed_in(deps, bob)
    by = SystemAct("rift user disable", {}, 1000.0)
    assert not isinstance(await people.disable(deps, by, ada.email), Refusal)
    assert await actions.visitor(deps, done.secret) is None
    async with deps.db.tx() as tx:
        queued = await tx.rows("SELECT task_name FROM procrastinate_jobs")
    assert "sessions.end_put_out" in [row["task_name"] for row in queued]
    await end(deps)
    assert not isinstance(await people.enable(deps, by, ada.email), Refusal)
    assert await actions.visitor(deps, done.secret) is None
    assert await actions.visitor(deps, other.secret) is not None


async def test_what_is_over_is_deleted_after_a_while_and_nothing_else_is(deps: Deps, clock: FakeClock) -> None:
    ada = await user(deps, "ada@example.org")
    ended, kept = await signed_in(deps, ada), await signed_in(deps, ada)
    await mail.link_for(deps, ada.email)
    async with deps.db.tx() as tx:
        await actions.begin_ceremony(tx, deps, "passkey", {})
    await actions.end(deps, act(kept.session), ended.session.id)
    await actions.forget(deps)
    assert [await count(deps, table) for table in ("sessions", "links", "ceremonies")] == [2, 3, 1]
    clock.advance(timedelta(days=2))
    await actions.forget(deps)
    assert [await count(deps, table) for table in ("sessions", "links", "ceremonies")] == [1, 0, 0]
    assert await actions.visitor(deps, kept.secret) is not None
    clock.advance(timedelta(days=9))
    await actions.forget(deps)
    assert await count(deps, "sessions") == 0


async def test_what_a_browser_began_is_ended_once_in_time_and_as_what_it_was(deps: Deps, clock: FakeClock) -> None:
    async def begin() -> str:
        async with deps.db.tx() as tx:
            return await actions.begin_ceremony(tx, deps, "passkey", {"next": "/app"})

    async def end(secret: str, kind: Kind = "passkey") -> object:
        async with deps.db.tx() as tx:
            said = await actions.end_ceremony(tx, deps, kind, secret)
            return said.code if isinstance(said, Refusal) else said.facts

    secret = await begin()
    assert await end(secret, "sso") == "sign_in_over"
    said = await asyncio.gather(*(end(secret) for _ in range(8)))
    assert said.count({"next": "/app"}) == 1
    assert said.count("sign_in_over") == 7
    assert await end(secret) == "sign_in_over"
    late = await begin()
    clock.advance(timedelta(minutes=5))
    assert await end(late) == "sign_in_over"
    assert await end("riftw_guess") == "sign_in_over"


@pytest.mark.parametrize("secret", ["", "rifts_", "rifts_" + "x" * 43, "rift_nothing", "rifts_\udcff", "x" * 100_000])
async def test_a_secret_of_nobody_is_no_session(deps: Deps, secret: str) -> None:
    await signed_in(deps, await user(deps, "ada@example.org"))
    assert await actions.visitor(deps, secret) is None
