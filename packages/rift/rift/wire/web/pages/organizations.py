"""The Organization pages: the organizations of a person, who is in one, and what its admins change."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.responses import Response

from keel.refusal import Refusal
from rift.boxes import actions as boxes
from rift.github import actions as github
from rift.invites import actions as invites
from rift.invites import refusals as invites_refusals
from rift.invites.model import Invited
from rift.logins import actions as logins
from rift.mail import actions as mail
from rift.people import actions as people
from rift.people.decide import TEAM_MOST
from rift.people.model import Membership, Person, Role
from rift.registration import actions as registration
from rift.wire.refusals import refusal_problem
from rift.wire.web import refusals
from rift.wire.web.visit import Page, Visit

MOST = 100
"""So many members, or organizations, are on one page."""

NOT_THEIRS = frozenset({"needs_admin", "no_such_org", "not_a_team"})
"""Refusals that leave no form to show again: it is not the person's any more, or never was."""


async def organizations(visit: Visit) -> Response | Refusal:
    """The person's organizations, their own first, and the invitations that wait for their answer."""
    return await _list(visit)


async def make_team(visit: Visit) -> Response | Refusal:
    """Make a team."""
    name = visit.said("name")
    made = await people.new_team(visit.deps, visit.act("make team", name=name), name)
    if isinstance(made, Refusal):
        return await _list(visit, made, name)
    return visit.go(f"/app/organizations/{made.org}", f"{made.name} is there, and you are its admin.")


async def accept(visit: Visit) -> Response | Refusal:
    """Become a member of a team that has invited this person."""
    invitation = visit.said("invitation")
    place = await invites.accept(visit.deps, visit.act("accept invitation", invitation=invitation), invitation)
    if isinstance(place, Refusal):
        return await _list(visit, _over(place))
    return visit.go(f"/app/organizations/{place.org}", f"You are in {place.name} now: {place.role}.")


async def decline(visit: Visit) -> Response | Refusal:
    """Answer no to an invitation."""
    invitation = visit.said("invitation")
    done = await invites.decline(visit.deps, visit.act("decline invitation", invitation=invitation), invitation)
    if isinstance(done, Refusal):
        return await _list(visit, _over(done))
    return visit.go("/app/organizations", f"The invitation to {done.team} is declined.")


async def organization(visit: Visit) -> Response | Refusal:
    """One organization: who is in it and, for its admins, who is invited."""
    place = await place_of(visit)
    return place if isinstance(place, Refusal) else await _one(visit, place)


async def invite(visit: Visit) -> Response | Refusal:
    """Invite an address to a team."""
    place = await place_of(visit)
    if isinstance(place, Refusal):
        return place
    email, role = visit.said("email"), _role(visit)
    act = visit.act("invite", org=place.name, email=email, role=role)
    done = await invites.invite(visit.deps, act, place.name, email, role)
    if isinstance(done, Refusal):
        return done if done.code in NOT_THEIRS else await _one(visit, place, done)
    return visit.go(f"/app/organizations/{place.org}", invited(visit, done))


async def withdraw(visit: Visit) -> Response | Refusal:
    """Take an invitation back."""
    place = await place_of(visit)
    if isinstance(place, Refusal):
        return place
    invitation = visit.said("invitation")
    act = visit.act("withdraw invitation", org=place.name, invitation=invitation)
    done = await invites.withdraw(visit.deps, act, place.name, invitation)
    if isinstance(done, Refusal):
        return done if done.code in NOT_THEIRS else await _one(visit, place, done)
    return visit.go(f"/app/organizations/{place.org}", f"The invitation of {done.email} is withdrawn.")


async def member(visit: Visit) -> Response | Refusal:
    """One member, as an admin changes their role or removes them."""
    found = await _member(visit)
    return found if isinstance(found, Refusal) else await _member_shown(visit, found)


async def set_role(visit: Visit) -> Response | Refusal:
    """Make a member an admin, or an admin a member."""
    found = await _member(visit)
    if isinstance(found, Refusal):
        return found
    place, who = found.place, found.who
    role = _role(visit)
    act = visit.act("set role", org=place.name, email=who.email, role=role)
    done = await people.set_role(visit.deps, act, place.name, who.email, role)
    if isinstance(done, Refusal):
        return done if done.code in NOT_THEIRS else await _member_shown(visit, found, done, role)
    return visit.go(f"/app/organizations/{place.org}", f"{who.email} is {role} of {place.name}.")


async def remove(visit: Visit) -> Response | Refusal:
    """Take somebody out of a team."""
    found = await _member(visit)
    if isinstance(found, Refusal):
        return found
    place, who = found.place, found.who
    act = visit.act("remove member", org=place.name, email=who.email)
    done = await people.remove_member(visit.deps, act, place.name, who.email)
    if isinstance(done, Refusal):
        return done if done.code in NOT_THEIRS else await _member_shown(visit, found, done)
    return visit.go(f"/app/organizations/{place.org}", f"{who.email} is no member of {place.name} any more.")


async def leaving(visit: Visit) -> Response | Refusal:
    """What leaving a team ends."""
    place = await place_of(visit)
    return place if isinstance(place, Refusal) else await _leaving_shown(visit, place)


async def leave(visit: Visit) -> Response | Refusal:
    """Leave a team."""
    place = await place_of(visit)
    if isinstance(place, Refusal):
        return place
    if place.personal:
        return refusals.no_such_page()
    done = await people.leave(visit.deps, visit.act("leave team", org=place.name), place.name)
    if isinstance(done, Refusal):
        return done if done.code in NOT_THEIRS else await _leaving_shown(visit, place, done)
    return visit.go("/app/organizations", f"You are no member of {place.name} any more.")


def invited(visit: Visit, done: Invited) -> str:
    """What to say of an invitation that was made."""
    return f"{done.invitation.email} is invited{' again' if done.renewed else ''}. {mail.goes(visit.deps)}"


@dataclass(frozen=True, slots=True)
class _Member:
    """A member of a team, as one of its admins looks at them."""

    place: Membership
    """The admin's own place in it."""
    who: Person


async def place_of(visit: Visit) -> Membership | Refusal:
    """The person's place in the organization that the address names, by its id or its name."""
    named = visit.request.path_params["org"]
    async with visit.deps.db.look(visit.caller.user) as tx:
        places = await people.memberships(tx, visit.caller.user)
    found = [place for place in places if place.org == named] or [place for place in places if place.name == named]
    return found[0] if found else refusals.no_such_page()


async def _member(visit: Visit) -> _Member | Refusal:
    place = await place_of(visit)
    if isinstance(place, Refusal):
        return place
    if place.personal:
        return refusals.no_such_page()
    if refused := people.admin_only(place, f"on the Organization page, change who is in {place.name}"):
        return refused
    async with visit.deps.db.look(visit.caller.user) as tx:
        everybody = await people.people_of(tx, place.org)
    who = next((one for one in everybody if one.user == visit.request.path_params["user"]), None)
    return _Member(place, who) if who else refusals.no_such_page()


async def _list(visit: Visit, refusal: Refusal | None = None, name: str = "") -> Response:
    """`refusal`: of what was just tried here; `name`: what was typed for a team's."""
    async with visit.deps.db.look(visit.caller.user) as tx:
        places = await people.memberships(tx, visit.caller.user)
        invitations = await invites.invitations_of(tx, visit.deps, visit.caller.email)
    at = next((n + 1 for n, place in enumerate(places) if place.org == visit.asked("after")), 0)
    shown = places[at : at + MOST]
    return visit.render(
        "organizations.html", _status(refusal), places=shown, teams=len(places) - 1,
        invitations=invitations[:MOST], invited=len(invitations), later=at > 0,
        following=shown[-1].org if at + MOST < len(places) else "", refusal=refusal, name=name, team_most=TEAM_MOST,
    )  # fmt: skip


async def _one(visit: Visit, place: Membership, refusal: Refusal | None = None) -> Response:
    """`refusal`: of an invitation that was just tried; what was typed for it is in the form again."""
    managed = place.admin and not place.personal
    async with visit.deps.db.look(visit.caller.user) as tx:
        everybody = await people.people_of(tx, place.org)
        invitations = await invites.open_of_org(tx, visit.deps, place.org) if managed else []
        accounts = await github.accounts_of(tx, place.org)
        app = await registration.there_is_one(tx, visit.deps)
        known = not place.personal or await logins.of_user(tx, visit.caller.user) is not None
    at = next((n + 1 for n, one in enumerate(everybody) if one.user == visit.asked("after")), 0)
    shown = everybody[at : at + MOST]
    return visit.render(
        "organization.html", _status(refusal), place=place, managed=managed, members=shown, first=at + 1,
        total=len(everybody), following=shown[-1].user if at + MOST < len(everybody) else "", invitations=invitations,
        refusal=refusal, email=visit.said("email"), role=visit.said("role", "member"), accounts=accounts, app=app,
        known=known,
    )  # fmt: skip


async def _member_shown(
    visit: Visit, found: _Member, refusal: Refusal | None = None, role: Role | None = None
) -> Response:
    return visit.render(
        "member.html", _status(refusal), place=found.place, member=found.who, role=role or found.who.role,
        boxes=await boxes.of_member(visit.deps, found.who.user, found.place.org), refusal=refusal,
    )  # fmt: skip


async def _leaving_shown(visit: Visit, place: Membership, refusal: Refusal | None = None) -> Response | Refusal:
    if place.personal:
        return refusals.no_such_page()
    ends = await boxes.of_member(visit.deps, visit.caller.user, place.org)
    return visit.render("leave.html", _status(refusal), place=place, boxes=ends, refusal=refusal)


def _over(refusal: Refusal) -> Refusal:
    """An invitation that is not there is one that is over: people know it by its team, not by the id in the form."""
    return invites_refusals.over() if refusal.code == "no_invitation" else refusal


def _role(visit: Visit) -> Role:
    return "admin" if visit.said("role") == "admin" else "member"


def _status(refusal: Refusal | None) -> int:
    return refusal_problem(refusal)[0] if refusal else 200


PAGES = (
    Page("/app/organizations", organizations, make_team),
    Page("/app/organizations/accept", post=accept),
    Page("/app/organizations/decline", post=decline),
    Page("/app/organizations/{org}", organization),
    Page("/app/organizations/{org}/invite", post=invite),
    Page("/app/organizations/{org}/withdraw", post=withdraw),
    Page("/app/organizations/{org}/leave", leaving, leave),
    Page("/app/organizations/{org}/members/{user}", member),
    Page("/app/organizations/{org}/members/{user}/role", post=set_role),
    Page("/app/organizations/{org}/members/{user}/remove", post=remove),
)
