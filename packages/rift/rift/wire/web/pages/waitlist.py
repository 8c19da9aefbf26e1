"""The waitlist: its form, which is open to anybody, and its list, for the platform admin."""

from __future__ import annotations

from datetime import datetime
from urllib.parse import quote

from starlette.responses import Response

from keel.refusal import Refusal
from rift.invites import actions
from rift.invites.decide import NAME_MOST, NOTE_MOST
from rift.invites.model import Waitlist
from rift.mail import actions as mail
from rift.wire.refusals import refusal_problem
from rift.wire.web.visit import Page, Visit

FIELDS = ("email", "name", "organization", "note")


async def form(visit: Visit) -> Response | Refusal:
    """The form and, once it was sent, the same thanks for everybody."""
    return _form(visit)


async def join(visit: Visit) -> Response | Refusal:
    """Put somebody on the list. What they typed stays where it is refused."""
    email, name, organization, note = (visit.said(field) for field in FIELDS)
    refused = await actions.join_waitlist(visit.deps, email, name, organization, note)
    return _form(visit, refused) if refused else visit.go("/waitlist?sent=1")


async def waiting(visit: Visit) -> Response | Refusal:
    """Who waits, oldest first, from an instant on."""
    return await _list(visit)


async def admit(visit: Visit) -> Response | Refusal:
    """Let somebody make an account: they get a letter with a link."""
    email, since = visit.said("email"), visit.said("since")
    done = await actions.invite_account(visit.deps, visit.act("admit", email=email), email)
    if isinstance(done, Refusal):
        return await _list(visit, done)
    back = f"/app/waitlist?since={quote(since)}" if since else "/app/waitlist"
    return visit.go(back, f"{done.invitation.email} is admitted. {mail.goes(visit.deps)}")


def _form(visit: Visit, refusal: Refusal | None = None) -> Response:
    typed = {field: visit.said(field) for field in FIELDS}
    status = refusal_problem(refusal)[0] if refusal else 200
    return visit.render(
        "waitlist.html", status, typed=typed, refusal=refusal, sent=refusal is None and bool(visit.asked("sent")),
        name_most=NAME_MOST, note_most=NOTE_MOST,
    )  # fmt: skip


async def _list(visit: Visit, refusal: Refusal | None = None) -> Response | Refusal:
    """`refusal`: of somebody who was to be admitted just now."""
    since = visit.said("since") or visit.asked("since")
    act = visit.act("waitlist", since=since)
    found = await actions.waitlist(visit.deps, act, since or None)
    if isinstance(found, Refusal):
        if found.code != "bad_since":
            return found
        refusal, found = refusal or found, Waitlist((), None)
    return visit.render(
        "waiting.html", refusal_problem(refusal)[0] if refusal else 200, waitlist=found, since=since, refusal=refusal,
        following=_instant(found.more_since) if found.more_since else "",
    )  # fmt: skip


def _instant(at: datetime) -> str:
    """An instant to its microsecond, as an address carries it."""
    return at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


PAGES = (
    Page("/waitlist", form, join, open=True),
    Page("/app/waitlist", waiting, admit, admin=True),
)
