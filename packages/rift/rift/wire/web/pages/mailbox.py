"""The Mailbox page, for the platform admin: letters that wait for a mail server, and how far each has come."""

from __future__ import annotations

from starlette.responses import Response

from keel.refusal import Refusal
from rift.mail import actions
from rift.wire.web.paging import page_of, pager
from rift.wire.web.visit import Page, Visit

PATH = "/app/mailbox"


async def mailbox(visit: Visit) -> Response | Refusal:
    """The letters, newest first, and what sends them."""
    page = page_of(visit)
    found = await actions.list_letters(visit.deps, page)
    mail = visit.deps.settings.mail
    return visit.render(
        "mailbox.html", found=found, sends=visit.deps.post is not None, server=f"{mail.host}:{mail.port}",
        kept=visit.deps.settings.mail.keep_letters, pager=pager(PATH, page, found.more),
    )  # fmt: skip


async def open_letter(visit: Visit) -> Response | Refusal:
    """A letter's text with a link that was made for this reading: told once, to whoever pressed the button."""
    letter = visit.said("letter")
    opened = await actions.open_letter(visit.deps, visit.act("open letter", letter=letter), letter)
    return opened if isinstance(opened, Refusal) else visit.render("letter.html", opened=opened)


async def retry(visit: Visit) -> Response | Refusal:
    """Have a letter tried anew."""
    letter = visit.said("letter")
    done = await actions.retry_letter(visit.deps, visit.act("retry letter", letter=letter), letter)
    return done if isinstance(done, Refusal) else visit.go(PATH, f"The letter to {done.email} is tried again.")


async def discard(visit: Visit) -> Response | Refusal:
    """Remove a letter."""
    letter = visit.said("letter")
    done = await actions.discard_letter(visit.deps, visit.act("discard letter", letter=letter), letter)
    return done if isinstance(done, Refusal) else visit.go(PATH, f"The letter to {done.email} is discarded.")


PAGES = (
    Page(PATH, mailbox, admin=True),
    Page(f"{PATH}/open", post=open_letter, admin=True),
    Page(f"{PATH}/retry", post=retry, admin=True),
    Page(f"{PATH}/discard", post=discard, admin=True),
)
