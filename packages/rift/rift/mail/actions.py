"""What is done with letters and one-time links.

What takes `deps` is one transaction; what takes `tx` is a part of another's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from keel.db import Tx
from keel.ids import digest
from keel.jobs import defer
from keel.refusal import Refusal
from rift import letters
from rift.audit import Act, SystemAct, audited, note
from rift.deps import Deps
from rift.drivers.post.protocol import Message, MessageRefused, PostError
from rift.mail import refusals, store
from rift.mail.decide import AT_MOST, CLAIMED_FOR, TRIED_FOR, decide_again, decide_facts, lane
from rift.mail.model import Kind, Letter, Letters, Link, Opened
from rift.names import LINK_PREFIX
from rift.people import actions as people
from rift.people import refusals as people_refusals
from rift.people.decide import email_of
from rift.secrecy import without_secrets

PAGE = 50
"""So many letters stand on one page."""
NOBODY = "nobody with an account has this address, or they were put out"
TOO_LATE = "it waited for longer than letters are tried"


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
    letter = Letter("let_" + deps.ids.short(12), kind, email, facts, now, now + TRIED_FOR, now, 0, None, None)
    await store.insert_letter(tx, letter)
    await _want_sent(tx, letter.id)


def sends(deps: Deps) -> bool:
    """Whether letters go out; without a mail server they wait on the Mailbox page of the platform admin."""
    return deps.settings.mail.host is not None


def goes(deps: Deps) -> str:
    """What becomes of a letter that was just written, for whoever had it written."""
    if sends(deps):
        return "A letter with a link is on its way."
    return (
        "No mail server is set, so the letter with the link waits on the Mailbox page, "
        "where a platform admin opens it and hands the link on."
    )


async def recall(tx: Tx, invitation: str) -> int:
    """Take back the letters of an invitation that is over, as far as they are not sent: how many those were."""
    return await store.recall(tx, invitation)


async def want_due(deps: Deps) -> None:
    """Queue the sending of every letter whose time has come: the first try of one whose job was lost, or another."""
    if deps.post is None:
        return
    async with deps.db.tx() as tx:
        for letter in await store.due(tx, deps.clock.now(), PAGE):
            await _want_sent(tx, letter)


async def next_due(deps: Deps) -> str | None:
    """The letter that has been due for longest; None where none is, or nothing sends them."""
    if deps.post is None:
        return None
    async with deps.db.look() as tx:
        return next(iter(await store.due(tx, deps.clock.now(), 1)), None)


async def send(deps: Deps, id: str) -> Letter | None:
    """Send a letter whose turn it is, outside any transaction: the letter as it then is, None where it is not its turn.

    Killed between sending and noting it, it is sent again: twice rather than never.
    """
    if deps.post is None:
        return None
    now = deps.clock.now()
    async with deps.db.tx() as tx:
        letter = await store.claim(tx, id, now, now + CLAIMED_FOR)
        if letter is None:
            return None
        text = await _write(tx, deps, letter) if now <= letter.until else TOO_LATE
        if isinstance(text, str):
            return await _failed(tx, deps, letter, text, None)
    try:
        await deps.post.send(_message(deps, f"{letter.id}.{letter.tries}", letter.email, text))
    except PostError as error:
        now = deps.clock.now()
        again = None if isinstance(error, MessageRefused) else decide_again(letter, now)
        async with deps.db.tx() as tx:
            return await _failed(tx, deps, letter, error.reason, again)
    async with deps.db.tx() as tx:
        now = deps.clock.now()
        if await store.sent(tx, letter, now):
            await note(tx, deps, "mail send", task=None, box=None, arguments={"kind": letter.kind, "to": letter.email})
    return replace(letter, sent_at=now, next_at=None, failure=None)


async def trial(deps: Deps, email: str) -> str | Refusal:
    """Send a trial letter at once: what the server said to it. Source: `rift mail test`."""
    act = SystemAct("rift mail test", {"to": email}, deps.clock.monotonic())
    result = await _trial(deps, email)
    async with audited(deps, act) as (_, row):
        return row.said(result)


async def list_letters(deps: Deps, page: int = 1) -> Letters:
    """A page of letters, newest first; the first page is 1. Source: the Mailbox page."""
    async with deps.db.look() as tx:
        found = await store.letters(tx, PAGE + 1, (page - 1) * PAGE)
        counts = await store.states(tx)
    return Letters(found[:PAGE], len(found) > PAGE, counts.get("waiting", 0), counts.get("failed", 0))


async def open_letter(deps: Deps, act: Act, id: str) -> Opened | Refusal:
    """A letter's text, with a link of its own: whoever reads it can use it. Source: the Mailbox page."""
    async with audited(deps, act) as (tx, row):
        if refused := await people.platform_only(tx, act, "on the Mailbox page, open the letter"):
            return row.said(refused)
        letter = await store.find_letter(tx, id)
        if letter is None:
            return row.said(refusals.no_such_letter())
        text = await _write(tx, deps, letter)
        if isinstance(text, str):
            return row.said(refusals.letter_is_over(text))
        return Opened(letter, text.subject, text.text, text.html, text.link)


async def retry_letter(deps: Deps, act: Act, id: str) -> Letter | Refusal:
    """Have a letter that was not sent tried anew, from now. Source: the Mailbox page."""
    async with audited(deps, act) as (tx, row):
        if refused := await people.platform_only(tx, act, "on the Mailbox page, have the letter tried again"):
            return row.said(refused)
        now = deps.clock.now()
        letter = await store.again(tx, id, now, now + TRIED_FOR)
        if letter is None:
            return row.said(refusals.no_such_letter())
        await _want_sent(tx, id)
        return letter


async def discard_letter(deps: Deps, act: Act, id: str) -> Letter | Refusal:
    """Remove a letter. Source: the Mailbox page."""
    async with audited(deps, act) as (tx, row):
        if refused := await people.platform_only(tx, act, "on the Mailbox page, discard the letter"):
            return row.said(refused)
        return row.said(await store.delete_letter(tx, id) or refusals.no_such_letter())


async def erase(deps: Deps) -> int:
    """Remove letters that were kept long enough: how many those were."""
    async with deps.db.tx() as tx:
        return await store.erase(tx, deps.clock.now() - deps.settings.mail.keep_letters)


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


async def _want_sent(tx: Tx, id: str) -> None:
    await defer(tx, "mail.send", lock=lane(id), once=f"letter:{id}", letter=id)


async def _write(tx: Tx, deps: Deps, letter: Letter) -> letters.Text | str:
    """A letter's text with a new link, or why there is none to write any more."""
    settings, link, good_for = deps.settings, "", deps.settings.sign_in.link_for
    if letter.kind == "sign_in":
        user = await people.find(tx, letter.email)
        if user is None or user.disabled_at is not None:
            return NOBODY
    invitation = letter.facts.get("invitation")
    if invitation is not None and await people.find(tx, letter.email) is not None:
        # A link that is good for weeks is for who has no account yet: it would be the key to this one.
        link, good_for = f"{settings.server.address}/app/organizations", timedelta(0)
    elif letter.with_link:
        good_for = settings.sign_in.link_for if invitation is None else settings.sign_in.invitation_for
        secret = await mint(
            tx, deps, letter.email, good_for=good_for, invitation=None if invitation is None else str(invitation),
            next=str(letter.facts.get("next", "")),
        )  # fmt: skip
        link = f"{settings.server.address}/sign-in/link/{secret}"
    return letters.render(
        letter.kind, letter.facts, to=letter.email, public=settings.server.address, link=link, good_for=good_for
    )


async def _failed(tx: Tx, deps: Deps, letter: Letter, why: str, again: datetime | None) -> Letter:
    failure = without_secrets(why)
    if await store.failed(tx, letter, failure, again) and again is None:
        await note(
            tx, deps, "mail send", task=None, box=None, outcome="given_up",
            arguments={"kind": letter.kind, "to": letter.email, "why": failure},
        )  # fmt: skip
    return replace(letter, failure=failure, next_at=again)


async def _trial(deps: Deps, email: str) -> str | Refusal:
    address = email_of(email)
    if address is None:
        return people_refusals.bad_email(email)
    if deps.post is None:
        return refusals.no_mail_server()
    text = letters.render("trial", {}, to=address, public=deps.settings.server.address)
    try:
        return await deps.post.send(_message(deps, "let_" + deps.ids.short(12), address, text))
    except PostError as error:
        return refusals.letter_not_sent(without_secrets(error.reason))


def _message(deps: Deps, id: str, to: str, text: letters.Text) -> Message:
    reply_to = email_of(text.reply_to) if text.reply_to else None
    return Message(id, to, text.subject, text.text, text.html, deps.clock.now(), reply_to)
