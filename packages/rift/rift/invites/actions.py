"""What is done with invitations and the waitlist. What takes `deps` is one transaction; what takes `tx` a part of one.

Whoever changes an invitation locks its address first, then holds its team: so of any number who invite, accept,
decline, withdraw or leave at once, each finds what the one before has done.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

from keel.db import Tx
from keel.refusal import Ask, Call, Refusal
from rift.audit import Act, SystemAct, audited, note
from rift.deps import Deps
from rift.invites import refusals, store
from rift.invites.decide import (
    DAY_MOST,
    LIMIT,
    LIMIT_MOST,
    NAME_MOST,
    NOTE_MOST,
    OPEN_MOST,
    decide_meant,
    line_of,
    since_of,
)
from rift.invites.model import Invitation, Invited, Outcome, Waiting, Waitlist
from rift.mail import actions as mail
from rift.people import actions as people
from rift.people import refusals as people_refusals
from rift.people.decide import email_of
from rift.people.model import OPERATOR, Caller, Membership, Role, User

# Teams ------------------------------------------------------------


async def open_of_org(tx: Tx, deps: Deps, org: str) -> list[Invitation]:
    """The open invitations to a team (by id), oldest first."""
    return await store.of_org(tx, org, deps.clock.now())


async def invitations_of(tx: Tx, deps: Deps, email: str) -> list[Invitation]:
    """The open invitations of an address to teams, oldest first."""
    return [one for one in await store.of_email(tx, email, deps.clock.now()) if one.org is not None]


async def invite(deps: Deps, act: Act | SystemAct, org: str, email: str, role: Role = "member") -> Invited | Refusal:
    """Invite an address to a team; again, it is renewed and the role changed. Source: rift_org_invite.

    For the team's admins, and whoever runs the server.
    """
    async with audited(deps, act) as (tx, row):
        address = email_of(email)
        if address is None:
            again = Call("rift_org_invite", {"org": org, "email": "<their address>"})
            return row.said(people_refusals.bad_email(email, again))
        await store.lock_address(tx, address)
        team = await _team(tx, act, org, Call("rift_org_invite", {"org": org, "email": address, "role": role}))
        if isinstance(team, Refusal):
            return row.said(team)
        id, name = team
        row.org = id
        user = await people.find(tx, address)
        if user is not None and await people.role_in(tx, id, user.id):
            return row.said(refusals.already_member(user.email, name))
        open = await open_of_org(tx, deps, id)
        if len(open) >= OPEN_MOST and not any(one.email.lower() == address.lower() for one in open):
            return row.said(refusals.too_many(name, OPEN_MOST))
        if isinstance(act, Act) and not act.caller.admin:
            made = await store.made_by(tx, act.caller.user, deps.clock.now() - timedelta(days=1))
            if made >= DAY_MOST:
                return row.said(refusals.enough(DAY_MOST))
        return row.said(await _invite(tx, deps, act, _wanted(deps, act, address, role, id, name)))


async def accept(deps: Deps, act: Act, org: str) -> Membership | Refusal:
    """Accept an invitation of the caller's own: by the team's name, or its id. Source: rift_org_accept."""
    async with audited(deps, act) as (tx, row):
        await store.lock_address(tx, act.caller.email)
        one = await _mine(tx, deps, act.caller, org)
        if isinstance(one, Refusal):
            return row.said(one)
        row.org = one.org
        return row.said(await _join(tx, deps, act.caller.user, one))


async def decline(deps: Deps, act: Act, org: str) -> Invitation | Refusal:
    """Decline an invitation of the caller's own: by the team's name, or its id. Source: the Organization page."""
    async with audited(deps, act) as (tx, row):
        await store.lock_address(tx, act.caller.email)
        one = await _mine(tx, deps, act.caller, org)
        if not isinstance(one, Refusal):
            row.org = one.org
            await _end(tx, deps, one, "declined")
        return row.said(one)


async def withdraw(deps: Deps, act: Act, org: str, invitation: str) -> Invitation | Refusal:
    """Take back an invitation (by id) to a team: its link makes nothing any more. Source: the Organization page."""
    async with audited(deps, act) as (tx, row):
        page = f"on the Organization page, withdraw the invitation {invitation}"
        place = await people.team_to_change(tx, act.caller, org, page)
        if isinstance(place, Refusal):
            return row.said(place)
        row.org = place.org
        one = await store.find(tx, invitation, deps.clock.now())
        if one is None or one.org != place.org or not await _end(tx, deps, one, "withdrawn"):
            return row.said(refusals.not_invited(invitation, place.name))
        return row.said(one)


# Accounts ------------------------------------------------------------


async def invite_account(deps: Deps, act: Act | SystemAct, email: str) -> Invited | Refusal:
    """Let somebody make an account; who is on the waitlist is admitted by it. Source: rift_account_invite."""
    async with audited(deps, act) as (tx, row):
        address = email_of(email)
        ask = Call("rift_account_invite", {"email": email.strip()})
        if refused := await people.platform_only(tx, act, ask.text):
            return row.said(refused)
        if address is None:
            again = Call("rift_account_invite", {"email": "<their address>"})
            return row.said(people_refusals.bad_email(email, again))
        await store.lock_address(tx, address)
        user = await people.find(tx, address)
        if user is not None:
            return row.said(people_refusals.user_exists(user.email))
        return row.said(await _invite(tx, deps, act, _wanted(deps, act, address, "member")))


async def withdraw_account(deps: Deps, act: Act | SystemAct, email: str) -> Invitation | Refusal:
    """Take back an invitation to make an account. Source: the People page."""
    async with audited(deps, act) as (tx, row):
        if refused := await people.platform_only(tx, act, "on the People page, withdraw the invitation"):
            return row.said(refused)
        now = deps.clock.now()
        one = next((one for one in await store.of_email(tx, email.strip(), now) if one.org is None), None)
        if one is None or not await _end(tx, deps, one, "withdrawn"):
            return row.said(refusals.over())
        return row.said(one)


async def to_accounts(tx: Tx, deps: Deps) -> list[Invitation]:
    """The open invitations to make an account, oldest first: for the platform admin."""
    return await store.to_accounts(tx, deps.clock.now())


async def take_up(tx: Tx, deps: Deps, email: str, invitation: str) -> User | Refusal:
    """Somebody has opened the link in an invitation's letter: they have an account then, and are in its team.

    Refused when the invitation is not open any more, or not of this address, and to who has an account already, who
    signs in and accepts it: then nothing is made, and the invitation stays as it is.
    """
    await store.lock_address(tx, email)
    one = await store.find(tx, invitation, deps.clock.now())
    if one is None or one.email.lower() != email.lower():
        return refusals.over()
    known = await people.find(tx, email)
    if known is not None:
        return refusals.sign_in(known.email) if known.disabled_at is None else people_refusals.disabled(known.email)
    if one.org is not None:
        await people.hold_org(tx, one.org)
    if not await _end(tx, deps, one, "accepted"):
        return refusals.over()
    user = await _account(tx, deps, one.email)
    if one.org is not None:
        await people.join(tx, deps, one.org, user.id, one.role)
    told = {"invitation": one.id, "team": one.team, "role": one.role, "account": "made"}
    await note(
        tx, deps, "invitation accepted", task=None, box=None, actor=user.id, via="web", arguments=told, org=one.org
    )
    return user


async def account_for(tx: Tx, deps: Deps, email: str) -> User | Refusal:
    """The account of an address that somebody has just shown to be theirs, made now if any invitation of it is open.

    Invitations to teams stay open, for them to accept. Source: single sign-on.
    """
    await store.lock_address(tx, email)
    known = await people.find(tx, email)
    if known is not None:
        return known
    if not await store.of_email(tx, email, deps.clock.now()):
        return refusals.over()
    return await _account(tx, deps, email)


async def send_again(tx: Tx, deps: Deps, email: str) -> bool:
    """Have the letter of an address's oldest open invitation sent again; False when it has none.

    Source: somebody without an account asks for a sign-in letter.
    """
    open = await store.of_email(tx, email, deps.clock.now())
    if open:
        await _post(tx, deps, open[0])
    return bool(open)


# The waitlist ------------------------------------------------------------


async def join_waitlist(deps: Deps, email: str, name: str, organization: str, note: str) -> Refusal | None:
    """Put somebody on the waitlist. The answer is the same for who is on it, who has an account, and who is new.

    Source: the Waitlist page, which is public. Refused only where the address is none.
    """
    act = SystemAct("web join waitlist", {"email": line_of(email, 254)}, deps.clock.monotonic(), via="web")
    async with audited(deps, act) as (tx, row):
        address = email_of(email)
        if address is None:
            again = Ask("yourself", "send the form again with the address that reaches you")
            return row.said(people_refusals.bad_email(line_of(email, 254), again))
        one = Waiting(
            address, line_of(name, NAME_MOST), line_of(organization, NAME_MOST), line_of(note, NOTE_MOST),
            deps.clock.now(), (),
        )  # fmt: skip
        await store.join_waitlist(tx, "wait_" + deps.ids.short(12), one)
        return None


async def waitlist(deps: Deps, act: Act, since: str | None = None, limit: int = LIMIT) -> Waitlist | Refusal:
    """The people on the waitlist who are not admitted yet, oldest first, from an instant on. Source: rift_waitlist."""
    async with audited(deps, act) as (tx, row):
        ask = Call("rift_waitlist", {"since": since} if since else {})
        if refused := await people.platform_only(tx, act, ask.text):
            return row.said(refused)
        instant = since_of(since) if since else None
        if since and instant is None:
            return row.said(refusals.bad_since(since))
        limit = max(1, min(limit, LIMIT_MOST))
        found = await store.waiting(tx, instant, limit + 1, deps.clock.now())
        return row.said(Waitlist(tuple(found[:limit]), found[limit].joined_at if len(found) > limit else None))


async def _team(tx: Tx, act: Act | SystemAct, org: str, call: Call) -> tuple[str, str] | Refusal:
    """The id and the name of the team to invite to, held."""
    if isinstance(act, SystemAct):
        team = await people.team_named(tx, org)
        return team if isinstance(team, Refusal) else (team.id, team.name)
    place = await people.team_to_change(tx, act.caller, org, call.text)
    return place if isinstance(place, Refusal) else (place.org, place.name)


def _wanted(
    deps: Deps, act: Act | SystemAct, email: str, role: Role, org: str | None = None, team: str | None = None
) -> Invitation:
    by = act.caller.email if isinstance(act, Act) else None
    now = deps.clock.now()
    until = now + deps.settings.sign_in.invitation_for
    return Invitation("inv_" + deps.ids.short(12), org, team, email, role, by, now, until)


async def _invite(tx: Tx, deps: Deps, act: Act | SystemAct, wanted: Invitation) -> Invited:
    """Make or renew it, and have its letter sent: whether the address has an account is not told to who invites."""
    open = await store.of_email(tx, wanted.email, deps.clock.now())
    made = replace(wanted, id=await store.put(tx, wanted, act.actor))
    await _post(tx, deps, made)
    return Invited(made, any(one.org == made.org for one in open))


async def _post(tx: Tx, deps: Deps, made: Invitation) -> None:
    await mail.recall(tx, made.id)  # of several letters that wait for a mail server, the newest is sent
    facts = {"invitation": made.id, "inviter": made.invited_by or OPERATOR}
    if made.org is None:
        await mail.post(tx, deps, "account_invitation", made.email, facts)
    else:
        await mail.post(tx, deps, "team_invitation", made.email, {**facts, "team": made.team, "role": made.role})


async def _end(tx: Tx, deps: Deps, one: Invitation, outcome: Outcome) -> bool:
    """End it if it is open still; a letter of it that was not sent is not sent any more."""
    if not await store.end(tx, one.id, outcome, deps.clock.now()):
        return False
    await mail.recall(tx, one.id)
    return True


async def _mine(tx: Tx, deps: Deps, caller: Caller, org: str) -> Invitation | Refusal:
    """The caller's open invitation to a team, which is held."""
    mine = await invitations_of(tx, deps, caller.email)
    one = decide_meant(org, mine)
    if one is None or one.org is None:
        place = await people.find_org(tx, caller, org)
        if isinstance(place, Refusal) or place.personal:
            return refusals.no_invitation(org, mine)
        return refusals.already_member(caller.email, place.name)
    await people.hold_org(tx, one.org)
    return await store.find(tx, one.id, deps.clock.now()) or refusals.no_invitation(org, ())


async def _join(tx: Tx, deps: Deps, user: str, one: Invitation) -> Membership | Refusal:
    assert one.org is not None  # it is one to a team
    assert one.team is not None
    await _end(tx, deps, one, "accepted")
    if not await people.join(tx, deps, one.org, user, one.role):
        return refusals.already_member(one.email, one.team)
    return Membership(one.org, one.team, one.role)


async def _account(tx: Tx, deps: Deps, email: str) -> User:
    made = await people.make_user(tx, deps, email)
    user = made or await people.find(tx, email)
    assert user is not None  # it is made, or another one made it a moment ago
    await store.end_to_account(tx, email, deps.clock.now())
    return user
