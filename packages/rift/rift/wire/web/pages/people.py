"""The People page, for the platform admin: who has an account, what they use, and putting somebody out."""

from __future__ import annotations

from starlette.responses import Response

from keel.refusal import Refusal
from rift.boxes import actions as boxes
from rift.boxes.model import PersonsUse
from rift.invites import actions as invites
from rift.people import actions
from rift.wire.refusals import refusal_problem
from rift.wire.web import refusals
from rift.wire.web.pages.organizations import invited
from rift.wire.web.visit import Page, Visit

MOST = 100
"""So many people are on one page of the list."""


async def people(visit: Visit) -> Response | Refusal:
    """Everybody in the order they joined, or those whose address has in it what was asked for."""
    return await _list(visit)


async def invite(visit: Visit) -> Response | Refusal:
    """Let somebody make an account."""
    email = visit.said("email")
    done = await invites.invite_account(visit.deps, visit.act("invite account", email=email), email)
    return await _list(visit, done) if isinstance(done, Refusal) else visit.go("/app/people", invited(visit, done))


async def withdraw(visit: Visit) -> Response | Refusal:
    """Take back an invitation to make an account."""
    email = visit.said("email")
    done = await invites.withdraw_account(visit.deps, visit.act("withdraw account invitation", email=email), email)
    if isinstance(done, Refusal):
        return await _list(visit, done)
    return visit.go("/app/people", f"The invitation of {done.email} is withdrawn.")


async def person(visit: Visit) -> Response | Refusal:
    """One person, and what ends when they are put out."""
    found = await _person(visit)
    return found if isinstance(found, Refusal) else _shown(visit, found)


async def disable(visit: Visit) -> Response | Refusal:
    """Put somebody out."""
    found = await _person(visit)
    if isinstance(found, Refusal):
        return found
    done = await actions.disable(visit.deps, visit.act("disable person", email=found.email), found.email)
    if isinstance(done, Refusal):
        return _shown(visit, found, done)
    return visit.go(f"/app/people/{found.id}", f"{found.email} is put out.")


async def enable(visit: Visit) -> Response | Refusal:
    """Let somebody in again."""
    found = await _person(visit)
    if isinstance(found, Refusal):
        return found
    done = await actions.enable(visit.deps, visit.act("enable person", email=found.email), found.email)
    if isinstance(done, Refusal):
        return _shown(visit, found, done)
    return visit.go(f"/app/people/{found.id}", f"{found.email} can sign in again.")


async def _list(visit: Visit, refusal: Refusal | None = None) -> Response:
    """`refusal`: of what was just tried here; the address that was typed is in its form again."""
    part, after = visit.asked("find"), visit.asked("after")
    found = await boxes.use_of_people(visit.deps, after or None, part, MOST + 1)
    async with visit.deps.db.look(visit.caller.user) as tx:
        invitations = [] if part or after else await invites.to_accounts(tx, visit.deps)
    return visit.render(
        "people.html", refusal_problem(refusal)[0] if refusal else 200, people=found[:MOST], part=part, after=after,
        following=found[MOST - 1].id if len(found) > MOST else "", invitations=invitations[:MOST],
        invited=len(invitations), refusal=refusal, email=visit.said("email"),
    )  # fmt: skip


async def _person(visit: Visit) -> PersonsUse | Refusal:
    return await boxes.use_of(visit.deps, visit.request.path_params["person"]) or refusals.no_such_page()


def _shown(visit: Visit, person: PersonsUse, refusal: Refusal | None = None) -> Response:
    status = refusal_problem(refusal)[0] if refusal else 200
    return visit.render("person.html", status, person=person, refusal=refusal)


PAGES = (
    Page("/app/people", people, invite, admin=True),
    Page("/app/people/invitations/withdraw", post=withdraw, admin=True),
    Page("/app/people/{person}", person, admin=True),
    Page("/app/people/{person}/disable", post=disable, admin=True),
    Page("/app/people/{person}/enable", post=enable, admin=True),
)
