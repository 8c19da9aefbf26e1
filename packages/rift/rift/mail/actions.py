"""What is done with letters and one-time links.

What takes `deps` is one transaction; what takes `tx` is a part of another's.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta

from keel.db import Tx
from keel.ids import digest
from keel.jobs import defer
from keel.refusal import Refusal
from rift.audit import SystemAct, audited, note
from rift.deps import Deps
from rift.mail import refusals, store
from rift.mail.decide import AT_MOST, decide_facts
from rift.mail.model import Kind, Letter, Link
from rift.names import LINK_PREFIX
from rift.people import actions as people
from rift.people import refusals as people_refusals


async def post(tx: Tx, deps: Deps, kind: Kind, email: str, facts: Mapping[str, object]) -> None:
    """Write a letter, which is sent once this transaction has committed.

    `facts` are those of its kind (`model.SHAPES`), without a secret and without a link: that is minted when it is sent.
    An address that got as many as it may (`decide.AT_MOST`) gets none, which the ledger alone tells.
    """
    decide_facts(kind, facts)
    now = deps.clock.now()
    if kind in AT_MOST:
        most, within = AT_MOST[kind]
        await store.hold_address(tx, email)
        if await store.count_letters(tx, kind, email, now - within) >= most:
            await note(
                tx, deps, "mail post", task=None, box=None, outcome="too_many_letters",
                arguments={"kind": kind, "to": email},
            )  # fmt: skip
            return
    letter = Letter("let_" + deps.ids.short(12), kind, email, facts, now, now, 0, None, None)
    await store.insert_letter(tx, letter)
    await defer(tx, "mail.send", lock=f"letter:{letter.id}", letter=letter.id)


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


async def forget_links(tx: Tx, before: datetime) -> int:
    """Delete the links that were over before an instant; how many that were."""
    return await store.forget_links(tx, before)
