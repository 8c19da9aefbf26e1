"""What is done with one-time links. What takes `deps` is one transaction; what takes `tx` is a part of another's."""

from __future__ import annotations

from datetime import timedelta

from keel.db import Tx
from keel.ids import digest
from keel.refusal import Refusal
from rift.audit import SystemAct, audited
from rift.deps import Deps
from rift.mail import refusals, store
from rift.mail.model import Link
from rift.names import LINK_PREFIX
from rift.people import actions as people
from rift.people import refusals as people_refusals


async def mint(
    tx: Tx, deps: Deps, email: str, *, good_for: timedelta | None = None, invitation: str | None = None, next: str = ""
) -> str:
    """Make a one-time link for an address: its secret, which nobody can have a second time."""
    now, secret = deps.clock.now(), LINK_PREFIX + deps.ids.token()
    until = now + (good_for or deps.settings.sign_in.link_for)
    await store.insert_link(tx, Link(email, invitation, next, now, until, None), digest(secret))
    return secret


async def look_at(deps: Deps, secret: str) -> Link | Refusal:
    """Whose link this is, without using it: what opens links to look at them signs nobody in."""
    async with deps.db.look("links") as tx:
        return await store.find_link(tx, digest(secret), deps.clock.now()) or refusals.link_over()


async def use(tx: Tx, deps: Deps, secret: str) -> Link | Refusal:
    """Use a link up: of any number who try, one gets it."""
    return await store.use_link(tx, digest(secret), deps.clock.now()) or refusals.link_over()


async def link_for(deps: Deps, email: str) -> str | Refusal:
    """A one-time sign-in link for somebody with an account: its secret. Source: `rift user link`."""
    async with audited(deps, SystemAct("rift user link", {"user": email}, deps.clock.monotonic())) as (tx, row):
        user = await people.find(tx, email)
        if user is None:
            return row.said(people_refusals.no_such_user(email))
        if user.disabled_at is not None:
            return row.said(people_refusals.disabled(user.email))
        return await mint(tx, deps, user.email)
