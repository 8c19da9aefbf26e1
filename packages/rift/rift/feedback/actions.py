"""What is done with feedback. Each is one transaction; the agent drafts, the person decides, the admin reads."""

from __future__ import annotations

from collections.abc import Sequence

from keel.refusal import Refusal
from rift.audit import Act, audited
from rift.deps import Deps
from rift.feedback import refusals, store
from rift.feedback.decide import clean, decide_item, decide_room
from rift.feedback.model import Added, Category, Inbox, Item, Said, Show
from rift.mail import actions as mail
from rift.people import actions as people
from rift.people.model import Caller

PAGE = 25
"""So many items stand on one page of what was submitted."""
INBOX = "/app/inbox"
"""The page that a letter about feedback leads to."""


async def add(deps: Deps, act: Act, items: Sequence[Said]) -> Added | Refusal:
    """Add items to the caller's draft: all of them or none. Source: rift_feedback."""
    async with audited(deps, act) as (tx, row):
        user, now = act.caller.user, deps.clock.now()
        cleaned = [clean(said) for said in items]
        await store.hold_draft(tx, user)
        held = await store.count_draft(tx, user)
        for refusal in (*map(decide_item, cleaned), decide_room(held, len(cleaned))):
            if refusal is not None:
                return row.said(refusal)
        for said in cleaned:
            await store.insert(tx, "fb_" + deps.ids.short(12), user, act.caller.client, said, now)
        return Added(len(cleaned), held + len(cleaned))


async def draft(deps: Deps, caller: Caller) -> list[Item]:
    """The caller's draft, oldest first. Source: the Feedback page."""
    async with deps.db.look() as tx:
        return await store.draft(tx, caller.user)


async def submitted(deps: Deps, caller: Caller, page: int) -> tuple[list[Item], bool]:
    """A page of what the caller has submitted, newest first, and whether there are older ones."""
    async with deps.db.look() as tx:
        found = await store.submitted(tx, caller.user, PAGE + 1, (page - 1) * PAGE)
    return found[:PAGE], len(found) > PAGE


async def edit(deps: Deps, act: Act, id: str, said: Said) -> Refusal | None:
    """Change an item of the caller's draft. Source: the Feedback page."""
    async with audited(deps, act) as (tx, row):
        cleaned = clean(said)
        refusal = decide_item(cleaned)
        if refusal is None and not await store.edit(tx, id, act.caller.user, cleaned, deps.clock.now()):
            refusal = refusals.no_such_item()
        return row.said(refusal)


async def drop(deps: Deps, act: Act, id: str) -> Refusal | None:
    """Remove an item of the caller's draft. Source: the Feedback page."""
    async with audited(deps, act) as (tx, row):
        return row.said(None if await store.drop(tx, id, act.caller.user) else refusals.no_such_item())


async def submit(deps: Deps, act: Act, ids: Sequence[str]) -> int | Refusal:
    """Submit items of the caller's draft, with a letter to each platform admin: how many. Source: the Feedback page."""
    async with audited(deps, act) as (tx, row):
        count = await store.submit(tx, ids, act.caller.user, deps.clock.now())
        if not count:
            return row.said(refusals.none_ticked())
        facts = {"sender": act.caller.email, "items": count, "path": INBOX}
        for admin in await people.platform_admins(tx):
            await mail.post(tx, deps, "feedback", admin.email, facts)
        return count


async def inbox(deps: Deps, show: Show, category: Category | None, page: int) -> Inbox:
    """A page of what everybody has submitted, newest first. Source: the Inbox page."""
    async with deps.db.look() as tx:
        found = await store.inbox(tx, show, category, PAGE + 1, (page - 1) * PAGE)
        return Inbox(found[:PAGE], len(found) > PAGE, await store.count_open(tx))


async def handle(deps: Deps, act: Act, id: str, *, handled: bool) -> Refusal | None:
    """Mark a submitted item as handled, or as open again. Source: the Inbox page."""
    async with audited(deps, act) as (tx, row):
        if refused := await people.platform_only(tx, act, "on the Inbox page, mark the item"):
            return row.said(refused)
        at = deps.clock.now() if handled else None
        return row.said(None if await store.handle(tx, id, at) else refusals.no_such_item())
