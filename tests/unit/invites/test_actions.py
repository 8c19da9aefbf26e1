"""Invitations to teams and to make an account, on a real database."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest
from tests.unit.people.house import act, caller, outcomes, user

from keel.refusal import Refusal
from keel.testing import FakeClock
from rift.audit import SystemAct
from rift.deps import Deps
from rift.invites import actions
from rift.invites.model import Invitation, Invited
from rift.mail import actions as mail
from rift.names import LINK_PREFIX
from rift.people import actions as people
from rift.people.model import Caller, Membership, Person
from rift.sessions import actions as sessions
from rift.sessions.model import Browser, SignedIn

GRACE = "grace@example.org"
BROWSER = Browser("a browser")


@pytest.fixture
async def ada(deps: Deps) -> Caller:
    """The platform admin, and the admin of a team, acme."""
    await user(deps, "ada@example.org", admin=True)
    found = await caller(deps, "ada@example.org")
    assert isinstance(await people.new_team(deps, act(found), "acme"), Membership)
    return found


async def grace(deps: Deps) -> Caller:
    """Somebody with an account."""
    await user(deps, GRACE)
    return await caller(deps, GRACE)


async def invite(deps: Deps, who: Caller, email: str = GRACE, role: str = "member") -> Invitation:
    done = await actions.invite(deps, act(who), "acme", email, "admin" if role == "admin" else "member")
    assert isinstance(done, Invited), done
    return done.invitation


async def link(deps: Deps, one: Invitation) -> str:
    """The secret of the link in its letter."""
    good_for = deps.settings.sign_in.invitation_for
    async with deps.db.tx() as tx:
        return await mail.mint(tx, deps, one.email, good_for=good_for, invitation=one.id)


async def in_acme(deps: Deps) -> dict[str, str]:
    rows = "SELECT u.email, m.role FROM members m JOIN users u ON u.id = m.user_id JOIN orgs o ON o.id = m.org"
    async with deps.db.tx() as tx:
        found = await tx.rows(rows + " WHERE o.name = 'acme'")
    return {row["email"]: row["role"] for row in found}


async def letters(deps: Deps) -> list[tuple[str, str, dict[str, object]]]:
    async with deps.db.tx() as tx:
        rows = await tx.rows("SELECT kind, email, facts FROM letters ORDER BY created_at, id")
    return [(row["kind"], row["email"], row["facts"]) for row in rows]


def code(said: object) -> str:
    assert isinstance(said, Refusal), said
    return said.code


async def test_an_admin_invites_and_the_invited_accepts_whatever_the_case(deps: Deps, ada: Caller) -> None:
    invited = await invite(deps, ada, "GRACE@example.org", "admin")
    assert invited.expires_at == deps.clock.now() + deps.settings.sign_in.invitation_for
    facts = {"invitation": invited.id, "team": "acme", "inviter": "ada@example.org", "role": "admin"}
    assert await letters(deps) == [("team_invitation", "GRACE@example.org", facts)]
    who = await grace(deps)
    async with deps.db.tx() as tx:
        assert await actions.invitations_of(tx, deps, who.email) == [invited]
        assert await actions.open_of_org(tx, deps, invited.org or "") == [invited]
    place = await actions.accept(deps, act(who), "ACME")
    assert place == Membership(invited.org or "", "acme", "admin")
    assert await in_acme(deps) == {"ada@example.org": "admin", GRACE: "admin"}
    assert code(await actions.accept(deps, act(who), "acme")) == "already_member"
    assert code(await actions.invite(deps, act(ada), "acme", GRACE)) == "already_member"


async def test_inviting_again_renews_and_changes_the_role(deps: Deps, ada: Caller, clock: FakeClock) -> None:
    first = await invite(deps, ada)
    clock.advance(timedelta(days=13))
    again = await actions.invite(deps, act(ada), "acme", "Grace@Example.org", "admin")
    assert isinstance(again, Invited)
    assert again.renewed
    assert (again.invitation.id, again.invitation.role) == (first.id, "admin")
    assert [(email, facts["role"]) for _, email, facts in await letters(deps)] == [("Grace@Example.org", "admin")]
    clock.advance(timedelta(days=13))
    assert isinstance(await actions.accept(deps, act(await grace(deps)), first.id), Membership)
    assert (await in_acme(deps))[GRACE] == "admin"
    assert await letters(deps) == []  # none was sent, and none is now


async def test_only_admins_invite_and_only_to_a_team(deps: Deps, ada: Caller) -> None:
    await invite(deps, ada)
    who = await grace(deps)
    assert code(await actions.invite(deps, act(who), "acme", "eve@example.org")) == "no_such_org"
    assert isinstance(await actions.accept(deps, act(who), "acme"), Membership)
    assert code(await actions.invite(deps, act(who), "acme", "eve@example.org")) == "needs_admin"
    assert code(await actions.invite(deps, act(ada), "personal", "eve@example.org")) == "not_a_team"
    assert code(await actions.invite(deps, act(ada), "acme", "nobody")) == "bad_email"
    assert await letters(deps) == []


async def test_an_invitation_is_accepted_by_the_address_it_is_for_alone(deps: Deps, ada: Caller) -> None:
    invited = await invite(deps, ada)
    await user(deps, "eve@example.org")
    eve = await caller(deps, "eve@example.org")
    absent = await actions.accept(deps, act(eve), "nothing")
    for asked in (invited.id, "acme"):
        refused = await actions.accept(deps, act(eve), asked)
        assert code(refused) == "no_invitation"
        assert isinstance(refused, Refusal)
        assert isinstance(absent, Refusal)
        assert refused.sentence.replace(asked, "nothing") == absent.sentence
        assert code(await actions.decline(deps, act(eve), asked)) == "no_invitation"
    assert await in_acme(deps) == {"ada@example.org": "admin"}


async def test_what_was_declined_withdrawn_or_ran_out_is_not_accepted(
    deps: Deps, ada: Caller, clock: FakeClock
) -> None:
    who = await grace(deps)
    declined = await invite(deps, ada)
    assert await actions.decline(deps, act(who), "acme") == declined
    assert code(await actions.accept(deps, act(who), declined.id)) == "no_invitation"
    withdrawn = await invite(deps, ada)
    assert withdrawn.id != declined.id
    assert code(await actions.withdraw(deps, act(who), "acme", withdrawn.id)) == "no_such_org"
    assert await actions.withdraw(deps, act(ada), "acme", withdrawn.id) == withdrawn
    assert code(await actions.withdraw(deps, act(ada), "acme", withdrawn.id)) == "not_invited"
    assert code(await actions.accept(deps, act(who), "acme")) == "no_invitation"
    await invite(deps, ada)
    clock.advance(deps.settings.sign_in.invitation_for)
    assert code(await actions.accept(deps, act(who), "acme")) == "no_invitation"
    renewed = await invite(deps, ada)
    assert isinstance(await actions.accept(deps, act(who), renewed.id), Membership)


async def test_another_teams_invitation_is_not_withdrawn(deps: Deps, ada: Caller) -> None:
    invited = await invite(deps, ada)
    eve = await grace(deps)
    assert isinstance(await people.new_team(deps, act(eve), "other"), Membership)
    assert code(await actions.withdraw(deps, act(eve), "other", invited.id)) == "not_invited"
    async with deps.db.tx() as tx:
        assert await actions.invitations_of(tx, deps, GRACE) == [invited]


async def test_of_many_who_accept_at_once_one_does_and_is_in_it_once(deps: Deps, ada: Caller) -> None:
    invited = await invite(deps, ada)
    who = await grace(deps)
    said = await asyncio.gather(
        *(actions.accept(deps, act(who), asked) for asked in [invited.id, "acme"] * 8),
        *(actions.decline(deps, act(who), "acme") for _ in range(2)),
        actions.withdraw(deps, act(ada), "acme", invited.id),
    )
    done = [one for one in said if not isinstance(one, Refusal)]
    assert len(done) == 1
    joined = isinstance(done[0], Membership)
    assert await in_acme(deps) == {"ada@example.org": "admin", **({GRACE: "member"} if joined else {})}


async def test_an_admin_who_is_no_longer_one_when_the_call_runs_invites_nobody(deps: Deps, ada: Caller) -> None:
    await invite(deps, ada, role="admin")
    who = await grace(deps)
    assert isinstance(await actions.accept(deps, act(who), "acme"), Membership)
    said = await asyncio.gather(
        *(actions.invite(deps, act(who), "acme", f"p{n}@example.org") for n in range(8)),
        people.set_role(deps, act(ada), "acme", GRACE, "member"),
        *(actions.invite(deps, act(who), "acme", f"q{n}@example.org") for n in range(8)),
    )
    assert {one.code for one in said if isinstance(one, Refusal)} <= {"needs_admin"}
    assert code(await actions.invite(deps, act(who), "acme", "late@example.org")) == "needs_admin"
    rows = [one for one in await outcomes(deps) if one[0] == who.user and one[2] == "rift_tool"]
    after = [outcome for _, _, _, outcome in rows]
    assert "ok" not in after[after.index("needs_admin") :]


async def test_a_teams_open_invitations_are_bounded(deps: Deps, ada: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(actions, "OPEN_MOST", 2)
    first = await invite(deps, ada, "a@example.org")
    await invite(deps, ada, "b@example.org")
    assert code(await actions.invite(deps, act(ada), "acme", "c@example.org")) == "invitation_limit"
    await invite(deps, ada, "A@example.org")
    assert isinstance(await actions.withdraw(deps, act(ada), "acme", first.id), Invitation)
    await invite(deps, ada, "c@example.org")


async def test_one_person_invites_so_often_in_a_day_from_however_many_teams(
    deps: Deps, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(actions, "DAY_MOST", 3)
    eve, boss = [await user(deps, f"{name}@example.org", admin=name == "boss") for name in ("eve", "boss")]
    who, admin = [await caller(deps, one.email) for one in (eve, boss)]
    for team in ("one", "two"):
        assert isinstance(await people.new_team(deps, act(who), team), Membership)
    first = await actions.invite(deps, act(who), "one", "a@example.org")
    assert isinstance(first, Invited)
    assert isinstance(await actions.invite(deps, act(who), "two", "a@example.org"), Invited)
    assert isinstance(await actions.withdraw(deps, act(who), "one", first.invitation.id), Invitation)
    assert isinstance(await actions.invite(deps, act(who), "one", "b@example.org"), Invited)
    for team, email in (("one", "c@example.org"), ("two", "a@example.org")):
        assert code(await actions.invite(deps, act(who), team, email)) == "invited_enough"
    assert isinstance(await people.new_team(deps, act(admin), "three"), Membership)
    for n in range(4):
        assert isinstance(await actions.invite(deps, act(admin), "three", f"p{n}@example.org"), Invited)
    clock.advance(timedelta(days=1, seconds=1).total_seconds())
    assert isinstance(await actions.invite(deps, act(who), "one", "c@example.org"), Invited)


# Links in letters ------------------------------------------------------------


async def test_the_letters_link_makes_the_account_accepts_and_signs_in(deps: Deps, ada: Caller) -> None:
    secret = await link(deps, await invite(deps, ada, "Grace@example.org", "admin"))
    done = await sessions.use_link(deps, secret, BROWSER)
    assert isinstance(done, SignedIn)
    assert done.session.email == "Grace@example.org"
    assert (await in_acme(deps))["Grace@example.org"] == "admin"
    async with deps.db.tx() as tx:
        assert [one.name for one in await people.memberships(tx, done.session.user)] == ["personal", "acme"]
        assert await actions.invitations_of(tx, deps, GRACE) == []
    assert code(await sessions.use_link(deps, secret, BROWSER)) == "link_over"


async def test_the_link_of_an_invitation_that_is_over_makes_nothing(deps: Deps, ada: Caller, clock: FakeClock) -> None:
    invited = await invite(deps, ada)
    secret = await link(deps, invited)
    assert isinstance(await actions.withdraw(deps, act(ada), "acme", invited.id), Invitation)
    assert code(await sessions.use_link(deps, secret, BROWSER)) == "invitation_over"
    old = await link(deps, await invite(deps, ada))
    clock.advance(deps.settings.sign_in.invitation_for)
    assert code(await sessions.use_link(deps, old, BROWSER)) == "link_over"
    await invite(deps, ada)
    assert code(await sessions.use_link(deps, secret, BROWSER)) == "link_over"
    assert [one.email for one in await people.list_users(deps)] == ["ada@example.org"]


async def test_an_invitation_for_one_address_makes_no_account_of_another(deps: Deps, ada: Caller) -> None:
    invited = await invite(deps, ada)
    secret = await link(deps, replace(invited, email="eve@example.org"))
    assert code(await sessions.use_link(deps, secret, BROWSER)) == "invitation_over"
    assert [one.email for one in await people.list_users(deps)] == ["ada@example.org"]
    assert await in_acme(deps) == {"ada@example.org": "admin"}


async def test_who_was_put_out_comes_back_by_no_invitation(deps: Deps, ada: Caller) -> None:
    await grace(deps)
    assert not isinstance(await people.disable(deps, act(ada), GRACE), Refusal)
    secret = await link(deps, await invite(deps, ada))
    assert code(await sessions.use_link(deps, secret, BROWSER)) == "disabled"
    assert await in_acme(deps) == {"ada@example.org": "admin"}


async def test_of_many_links_used_at_once_one_makes_the_account_and_the_other_invitations_stay(
    deps: Deps, ada: Caller
) -> None:
    assert isinstance(await people.new_team(deps, act(ada), "other"), Membership)
    account = await actions.invite_account(deps, act(ada), GRACE)
    other = await actions.invite(deps, act(ada), "other", GRACE)
    assert isinstance(account, Invited)
    assert isinstance(other, Invited)
    mine = await invite(deps, ada)
    secrets = [await link(deps, one) for one in (account.invitation, other.invitation, mine) for _ in range(5)]
    done = await asyncio.gather(*(sessions.use_link(deps, secret, BROWSER) for secret in secrets))
    signed_in = [one for one in done if isinstance(one, SignedIn)]
    assert len(signed_in) == 1
    assert {one.code for one in done if isinstance(one, Refusal)} <= {"invitation_over", "invitation_sign_in"}
    async with deps.db.tx() as tx:
        places = await people.memberships(tx, signed_in[0].session.user)
        left = await actions.invitations_of(tx, deps, GRACE)
    assert sorted([one.name for one in places] + [one.team for one in left if one.team]) == [
        "acme",
        "other",
        "personal",
    ]


async def test_an_invitations_link_signs_in_nobody_who_has_an_account_and_their_letter_holds_none(
    deps: Deps, ada: Caller
) -> None:
    invited = await invite(deps, ada)
    early = await link(deps, invited)
    await grace(deps)
    assert code(await sessions.use_link(deps, early, BROWSER)) == "invitation_sign_in"
    assert await in_acme(deps) == {"ada@example.org": "admin"}
    async with deps.db.tx() as tx:
        assert [one.id for one in await actions.invitations_of(tx, deps, GRACE)] == [invited.id]
    letter = (await mail.list_letters(deps)).letters[0]
    opened = await mail.open_letter(deps, act(ada), letter.id)
    assert not isinstance(opened, Refusal)
    assert opened.link == f"{deps.settings.server.address}/app/organizations"
    assert LINK_PREFIX not in opened.text + opened.html
    assert "sign in, and accept it there" in opened.text


# Accounts and the waitlist ------------------------------------------------------------


async def test_the_platform_admin_alone_lets_somebody_make_an_account(deps: Deps, ada: Caller) -> None:
    who = await grace(deps)
    assert code(await actions.invite_account(deps, act(who), "eve@example.org")) == "needs_platform_admin"
    assert code(await actions.invite_account(deps, act(ada), GRACE)) == "user_exists"
    assert code(await actions.invite_account(deps, act(ada), "eve")) == "bad_email"
    done = await actions.invite_account(deps, act(ada), "eve@example.org")
    assert isinstance(done, Invited)
    assert await letters(deps) == [
        ("account_invitation", "eve@example.org", {"invitation": done.invitation.id, "inviter": "ada@example.org"})
    ]
    signed_in = await sessions.use_link(deps, await link(deps, done.invitation), BROWSER)
    assert isinstance(signed_in, SignedIn)
    async with deps.db.tx() as tx:
        assert [one.name for one in await people.memberships(tx, signed_in.session.user)] == ["personal"]
        assert await actions.to_accounts(tx, deps) == []


async def test_an_invitation_to_make_an_account_is_taken_back(deps: Deps, ada: Caller) -> None:
    done = await actions.invite_account(deps, act(ada), "eve@example.org")
    assert isinstance(done, Invited)
    secret = await link(deps, done.invitation)
    assert isinstance(await actions.withdraw_account(deps, act(ada), "EVE@example.org"), Invitation)
    assert code(await actions.withdraw_account(deps, act(ada), "eve@example.org")) == "invitation_over"
    assert code(await sessions.use_link(deps, secret, BROWSER)) == "invitation_over"


async def test_single_sign_on_makes_an_account_for_who_is_invited_alone(deps: Deps, ada: Caller) -> None:
    async with deps.db.tx() as tx:
        assert code(await actions.account_for(tx, deps, GRACE)) == "invitation_over"
    await invite(deps, ada)
    async with deps.db.tx() as tx:
        made = await actions.account_for(tx, deps, GRACE)
        assert not isinstance(made, Refusal)
        assert await actions.account_for(tx, deps, GRACE) == made
        assert [one.team for one in await actions.invitations_of(tx, deps, GRACE)] == ["acme"]


async def test_whoever_runs_the_server_invites_to_any_team(deps: Deps, ada: Caller) -> None:
    run = SystemAct("rift org invite", {}, 1000.0)
    assert code(await actions.invite(deps, run, "nothing", GRACE)) == "no_such_team"
    done = await actions.invite(deps, run, "Acme", GRACE, "admin")
    assert isinstance(done, Invited)
    assert done.invitation.invited_by is None
    assert isinstance(await actions.accept(deps, act(await grace(deps)), "acme"), Membership)
    assert isinstance(await people.remove_member(deps, act(ada), "acme", GRACE), Person)


async def test_a_person_is_not_invited_while_they_accept(deps: Deps, ada: Caller) -> None:
    await invite(deps, ada)
    who = await grace(deps)
    said = await asyncio.gather(
        *(actions.accept(deps, act(who), "acme") for _ in range(8)),
        *(actions.invite(deps, act(ada), "acme", GRACE) for _ in range(8)),
    )
    assert sum(isinstance(one, Membership) for one in said) == 1
    async with deps.db.tx() as tx:
        assert await actions.invitations_of(tx, deps, GRACE) == []
