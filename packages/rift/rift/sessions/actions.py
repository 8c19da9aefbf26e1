"""What is done with sessions. What takes `deps` is one transaction; what takes `tx` is a part of another's."""

from __future__ import annotations

from keel.db import Tx
from keel.ids import digest
from keel.refusal import Refusal
from rift.audit import Act, SystemAct, audited
from rift.deps import Deps
from rift.mail import actions as mail
from rift.names import SESSION_PREFIX, TOUCH_EVERY
from rift.people import actions as people
from rift.people import refusals as people_refusals
from rift.people.model import User
from rift.sessions import store
from rift.sessions.model import Method, Session, SignedIn

AGENT_MOST = 200


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


async def use_link(deps: Deps, secret: str, agent: str) -> SignedIn | Refusal:
    """Sign in by a one-time link, which is used up. Source: the link's page."""
    async with audited(deps, SystemAct("web sign in", {"by": "link"}, deps.clock.monotonic(), via="web")) as (tx, row):
        link = await mail.use(tx, deps, secret)
        if isinstance(link, Refusal):
            return row.said(link)
        user = await people.find(tx, link.email)
        if user is None:
            return row.said(people_refusals.no_such_user(link.email))
        row.actor = user.id
        signed_in = await begin(tx, deps, user, "link", agent, link.next)
        return row.said(signed_in)


async def begin(tx: Tx, deps: Deps, user: User, method: Method, agent: str, next: str = "") -> SignedIn | Refusal:
    """A session for somebody who has just shown who they are. Refused to who was put out."""
    if user.disabled_at is not None:
        return people_refusals.disabled(user.email)
    now, secret = deps.clock.now(), SESSION_PREFIX + deps.ids.token()
    session = Session(
        "ses_" + deps.ids.short(12), user.id, user.email, user.admin, method, agent[:AGENT_MOST], now, now,
        now + deps.settings.sign_in.session_for,
    )  # fmt: skip
    await store.insert(tx, session, digest(secret))
    return SignedIn(session, secret, next)


async def sign_out(deps: Deps, act: Act) -> None:
    """End the session that acts. Source: the button on every page."""
    async with audited(deps, act) as (tx, _):
        await store.end(tx, act.caller.token, deps.clock.now())
