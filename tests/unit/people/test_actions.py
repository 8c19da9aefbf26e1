"""Accounts, organizations and tokens, on a real database."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from tests.unit.people.house import caller, outcomes, sha256, user

from keel.refusal import Refusal
from keel.testing import FakeClock
from rift.deps import Deps
from rift.people import actions
from rift.people.model import Token, User


async def new_token(deps: Deps, email: str, client: str) -> tuple[Token, str]:
    made = await actions.new_token(deps, email, client)
    assert not isinstance(made, Refusal)
    return made


async def used_at(deps: Deps) -> object:
    async with deps.db.tx() as tx:
        row = await tx.row("SELECT used_at FROM tokens")
    assert row is not None
    return row["used_at"]


async def test_a_new_person_is_the_admin_of_an_organization_of_their_own(deps: Deps) -> None:
    ada = await user(deps, "ada@example.org", admin=True)
    async with deps.db.tx() as tx:
        (place,) = await actions.memberships(tx, ada.id)
        assert (place.name, place.role, place.personal, place.admin) == ("personal", "admin", True, True)
        assert await actions.role_in(tx, place.org, ada.id) == place
        assert await actions.role_in(tx, place.org, "user_nobody") is None
    assert await actions.list_users(deps) == [ada]
    assert await outcomes(deps) == [(None, "cli", "rift user add", "ok")]


async def test_one_address_has_one_account_whatever_its_case(deps: Deps) -> None:
    made = await asyncio.gather(
        *(actions.add_user(deps, email, False) for email in ("ada@x.org", "ADA@x.org", "Ada@X.org"))
    )
    assert sum(isinstance(one, User) for one in made) == 1
    assert {one.code for one in made if isinstance(one, Refusal)} == {"user_exists"}
    assert len(await actions.list_users(deps)) == 1


async def test_what_is_no_address_gets_no_account(deps: Deps) -> None:
    refused = await actions.add_user(deps, "ada at example", False)
    assert isinstance(refused, Refusal)
    assert refused.code == "bad_email"
    assert await outcomes(deps) == [(None, "cli", "rift user add", "bad_email")]


async def test_a_tokens_secret_is_shown_once_and_kept_as_its_digest(deps: Deps) -> None:
    await user(deps, "ada@example.org", admin=True)
    token, secret = await new_token(deps, "Ada@Example.org", " Claude\x00 Code ")
    assert secret.startswith("rift_")
    assert token.client == "Claude Code"
    async with deps.db.tx() as tx:
        row = await tx.row("SELECT tokens::text AS text, sha256 FROM tokens")
        ledger = await tx.rows("SELECT ledger::text AS text FROM ledger")
    assert row is not None
    assert row["sha256"] == sha256(secret)
    assert secret not in row["text"]
    assert not [one for one in ledger if secret in one["text"]]
    found = await actions.authenticate(deps, secret)
    assert found is not None
    assert (found.email, found.admin, found.token, found.label) == (
        "ada@example.org",
        True,
        token.id,
        "mcp:Claude Code",
    )


async def test_a_token_needs_an_account_and_a_readable_client(deps: Deps) -> None:
    nobody = await actions.new_token(deps, "ada@example.org", "Claude")
    assert isinstance(nobody, Refusal)
    assert nobody.code == "no_such_user"
    await user(deps, "ada@example.org")
    blank = await actions.new_token(deps, "ada@example.org", "\x07 \n")
    assert isinstance(blank, Refusal)
    assert blank.code == "bad_client"
    assert await actions.list_tokens(deps) == []


@pytest.mark.parametrize("secret", ["", "rift_", "rift_nothing", "Bearer", "rift_\udcff", "x" * 100_000])
async def test_a_secret_of_nobody_opens_nothing(deps: Deps, secret: str) -> None:
    await user(deps, "ada@example.org")
    await new_token(deps, "ada@example.org", "Claude")
    assert await actions.authenticate(deps, secret) is None


async def test_a_revoked_token_opens_nothing_and_stays_revoked_since_then(deps: Deps, clock: FakeClock) -> None:
    await user(deps, "ada@example.org")
    token, secret = await new_token(deps, "ada@example.org", "Claude")
    revoked = await actions.revoke_token(deps, token.id)
    assert isinstance(revoked, Token)
    assert revoked.revoked_at == clock.now()
    clock.advance(60)
    again = await actions.revoke_token(deps, token.id)
    assert again == revoked
    assert await actions.authenticate(deps, secret) is None
    assert await actions.list_tokens(deps) == [revoked]
    unknown = await actions.revoke_token(deps, "tok_nothing")
    assert isinstance(unknown, Refusal)
    assert unknown.code == "no_such_token"


async def test_the_tokens_of_one_person_are_listed_without_the_others(deps: Deps) -> None:
    await user(deps, "ada@example.org")
    await user(deps, "bob@example.org")
    mine, _ = await new_token(deps, "ada@example.org", "Claude")
    theirs, _ = await new_token(deps, "bob@example.org", "Cursor")
    assert await actions.list_tokens(deps, "ADA@example.org") == [mine]
    assert await actions.list_tokens(deps) == sorted([mine, theirs], key=lambda token: token.id)
    nobody = await actions.list_tokens(deps, "eve@example.org")
    assert isinstance(nobody, Refusal)
    assert nobody.code == "no_such_user"


async def test_last_use_moves_at_most_once_a_minute(deps: Deps, clock: FakeClock) -> None:
    await user(deps, "ada@example.org")
    _, secret = await new_token(deps, "ada@example.org", "Claude")
    assert await used_at(deps) is None
    first = clock.now()
    await actions.authenticate(deps, secret)
    assert await used_at(deps) == first
    clock.advance(59)
    await actions.authenticate(deps, secret)
    assert await used_at(deps) == first
    clock.advance(timedelta(seconds=1))
    await actions.authenticate(deps, secret)
    assert await used_at(deps) == clock.now()


async def test_a_call_does_not_wait_for_another_that_notes_the_last_use(deps: Deps) -> None:
    await user(deps, "ada@example.org")
    _, secret = await new_token(deps, "ada@example.org", "Claude")
    held, done = asyncio.Event(), asyncio.Event()

    async def hold() -> None:
        async with deps.db.tx() as tx:
            await tx.run("SELECT FROM tokens FOR UPDATE")
            held.set()
            await done.wait()

    holder = asyncio.create_task(hold())
    await held.wait()
    async with asyncio.timeout(5):
        assert await actions.authenticate(deps, secret) is not None
    done.set()
    await holder


async def test_an_organization_is_named_personal_or_by_a_teams_name(deps: Deps) -> None:
    ada, bob = await user(deps, "ada@example.org"), await user(deps, "bob@example.org")
    me = await caller(deps, "ada@example.org")
    async with deps.db.tx() as tx:
        at = deps.clock.now()
        for org, name, who in (("org_a", "acme", ada), ("org_b", "other", bob)):
            await tx.run(
                "INSERT INTO orgs (id, name, created_at) VALUES (%(o)s, %(n)s, %(at)s)", {"o": org, "n": name, "at": at}
            )
            await tx.run(
                "INSERT INTO members (org, user_id, role) VALUES (%(o)s, %(u)s, 'member')", {"o": org, "u": who.id}
            )
        personal, team = await actions.find_org(tx, me, "personal"), await actions.find_org(tx, me, " acme ")
        theirs, absent = await actions.find_org(tx, me, "other"), await actions.find_org(tx, me, "nothing")
    assert not isinstance(personal, Refusal)
    assert personal.personal
    assert not isinstance(team, Refusal)
    assert (team.name, team.role) == ("acme", "member")
    assert isinstance(theirs, Refusal)
    assert isinstance(absent, Refusal)
    assert theirs.sentence.replace("other", "nothing") == absent.sentence
    assert "personal, acme" in absent.sentence


async def test_the_owner_is_who_was_named_or_the_first_platform_admin(deps: Deps, clock: FakeClock) -> None:
    async with deps.db.tx() as tx:
        nobody = await actions.find_owner(tx, None)
    assert isinstance(nobody, Refusal)
    assert nobody.code == "no_admin"
    bob = await user(deps, "bob@example.org")
    clock.advance(1)
    ada = await user(deps, "ada@example.org", admin=True)
    clock.advance(1)
    await user(deps, "eve@example.org", admin=True)
    async with deps.db.tx() as tx:
        first, named = await actions.find_owner(tx, None), await actions.find_owner(tx, "BOB@example.org")
        absent = await actions.find_owner(tx, "zoe@example.org")
    assert not isinstance(first, Refusal)
    assert first[0] == ada
    assert not isinstance(named, Refusal)
    assert named[0] == bob
    assert isinstance(absent, Refusal)
    assert absent.code == "no_such_user"
