"""What is done with sessions. What takes `deps` is one transaction; what takes `tx` is a part of another's."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta

from keel.db import Tx
from keel.ids import digest
from keel.jobs import defer
from keel.refusal import Refusal
from rift.audit import Act, SystemAct, audited
from rift.deps import Deps
from rift.invites import actions as invites
from rift.mail import actions as mail
from rift.mail.model import Link
from rift.names import CEREMONY_FOR, CEREMONY_PREFIX, SESSION_PREFIX, TOUCH_EVERY
from rift.people import actions as people
from rift.people import refusals as people_refusals
from rift.people.decide import email_of
from rift.people.model import Caller, User
from rift.sessions import refusals, store
from rift.sessions.model import Browser, Ceremony, Kind, Method, Session, SignedIn

AGENT_MOST = 200
KEPT = timedelta(days=1)
"""So long what is over is kept."""


async def visitor(deps: Deps, secret: str) -> Session | None:
    """The session whose secret a browser carries, or None: unknown, ended, expired or malformed are not told apart."""
    if not secret.startswith(SESSION_PREFIX):
        return None
    now = deps.clock.now()
    async with deps.db.look("sessions") as tx:
        session = await store.find(tx, digest(secret), now, now - deps.settings.sign_in.session_quiet)
        if session is not None and session.seen_at <= now - TOUCH_EVERY:
            await store.seen(tx, session.id, now)
        return session


async def goes_on(deps: Deps, secret: str) -> bool:
    """Whether a session is good still, for who asks again and again: it does not count as seen."""
    now = deps.clock.now()
    async with deps.db.look("sessions") as tx:
        return await store.find(tx, digest(secret), now, now - deps.settings.sign_in.session_quiet) is not None


async def ask_link(deps: Deps, email: str, next: str) -> Refusal | None:
    """Have a sign-in letter for an address thought about. Source: the form of the sign-in page.

    Whether the address is anybody's is not looked at: the same is done for each, so nothing of it shows.
    """
    address = email_of(email)
    if address is None:
        return people_refusals.bad_email(email)
    async with deps.db.tx("sign-in links") as tx:
        await defer(tx, "sessions.send_link", email=address, next=next)
    return None


async def send_link(deps: Deps, email: str, next: str) -> Refusal | None:
    """Post a sign-in letter to an address with an account, or its invitation's again. Source: the job of `ask_link`."""
    act = SystemAct("web sign-in letter", {"user": email}, deps.clock.monotonic(), via="web")
    async with audited(deps, act) as (tx, row):
        user = await people.find(tx, email)
        if user is None:
            invited = await invites.send_again(tx, deps, email)
            return None if invited else row.said(people_refusals.no_such_user(email))
        if user.disabled_at is not None:
            return row.said(people_refusals.disabled(user.email))
        row.actor = user.id
        await mail.post(tx, deps, "sign_in", user.email, {"next": next})
    return None


async def use_link(deps: Deps, secret: str, browser: Browser) -> SignedIn | Refusal:
    """Sign in by a one-time link, which is used up. Source: the link's page.

    One in an invitation's letter accepts the invitation, and makes the account of who has none.
    """
    async with audited(deps, SystemAct("web sign in", {"by": "link"}, deps.clock.monotonic(), via="web")) as (tx, row):
        link = await mail.use(tx, deps, secret)
        if isinstance(link, Refusal):
            return row.said(link)
        user = await _person(tx, deps, link)
        if isinstance(user, Refusal):
            return row.said(user)
        row.actor = user.id
        return row.said(await begin(tx, deps, user, "link", browser, link.next))


async def _person(tx: Tx, deps: Deps, link: Link) -> User | Refusal:
    if link.invitation is not None:
        return await invites.take_up(tx, deps, link.email, link.invitation)
    return await people.find(tx, link.email) or people_refusals.no_such_user(link.email)


async def begin(tx: Tx, deps: Deps, user: User, method: Method, browser: Browser, next: str = "") -> SignedIn | Refusal:
    """A new session for somebody who has just shown who they are; the one that the browser had is over.

    Refused to who was put out.
    """
    if user.disabled_at is not None:
        return people_refusals.disabled(user.email)
    now, secret = deps.clock.now(), SESSION_PREFIX + deps.ids.token()
    session = Session(
        "ses_" + deps.ids.short(12), user.id, user.email, user.admin, method, browser.agent[:AGENT_MOST], now, now,
        now + deps.settings.sign_in.session_for,
    )  # fmt: skip
    if browser.had is not None:
        await store.end_replaced(tx, browser.had, now)
    await store.insert(tx, session, digest(secret))
    return SignedIn(session, secret, next)


async def of_caller(deps: Deps, caller: Caller) -> list[Session]:
    """Where somebody is signed in, the last used first. Source: the account page."""
    now = deps.clock.now()
    async with deps.db.look(caller.user) as tx:
        return await store.of_user(tx, caller.user, now, now - deps.settings.sign_in.session_quiet)


async def sign_out(deps: Deps, act: Act) -> None:
    """End the session that acts. Source: the button on every page."""
    async with audited(deps, act) as (tx, _):
        await store.end(tx, act.caller.user, act.caller.token, deps.clock.now())


async def end(deps: Deps, act: Act, id: str) -> Refusal | None:
    """End one of the caller's sessions. Source: the account page."""
    async with audited(deps, act) as (tx, row):
        ended = await store.end(tx, act.caller.user, id, deps.clock.now())
        return None if ended else row.said(refusals.no_such_session())


async def end_all(deps: Deps, act: Act, *, this_too: bool) -> int:
    """End the caller's sessions, in every browser; how many that were. Source: the account page."""
    async with audited(deps, act) as (tx, _):
        return await store.end_all(tx, act.caller.user, None if this_too else act.caller.token, deps.clock.now())


async def begin_ceremony(tx: Tx, deps: Deps, kind: Kind, facts: Mapping[str, object], user: str | None = None) -> str:
    """Begin what a browser is to end, within five minutes: the secret for its cookie."""
    now, secret = deps.clock.now(), CEREMONY_PREFIX + deps.ids.token()
    await store.insert_ceremony(tx, kind, digest(secret), user, facts, now, now + CEREMONY_FOR)
    return secret


async def end_ceremony(tx: Tx, deps: Deps, kind: Kind, secret: str) -> Ceremony | Refusal:
    """What this browser began, which is over now, however it goes on."""
    if not secret.startswith(CEREMONY_PREFIX):
        return refusals.sign_in_over()
    return await store.take_ceremony(tx, kind, digest(secret), deps.clock.now()) or refusals.sign_in_over()


async def end_put_out(deps: Deps) -> None:
    """End the sessions of who was put out: they do not come back with the person."""
    async with deps.db.tx() as tx:
        await store.end_disabled(tx, deps.clock.now())


async def forget(deps: Deps) -> int:
    """Delete sessions, links and ceremonies that were over for a while, and end the sessions of who was put out."""
    now = deps.clock.now()
    before = now - KEPT
    async with deps.db.tx() as tx:
        await store.end_disabled(tx, now)
        return (
            await store.forget(tx, before, before - deps.settings.sign_in.session_quiet)
            + await store.forget_ceremonies(tx, now)
            + await mail.forget_links(tx, before)
        )
